"""Packages that come with an extra: each loads where it is used."""

from importlib import import_module
from typing import Any


def extra(package: str, what: str, name: str) -> Any:
    """Return a package of the extra ``name``.

    Raises
    ------
    ImportError
        If it is not installed; the message says ``what`` it is for.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package {package}, which is not installed; "
            f"pip install 'privrl[{name}]'."
        ) from error
