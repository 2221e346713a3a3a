"""Agents from plain options: what the setup has, and what the class itself takes."""

import inspect
from typing import Any

from privrl.agents import TabularSetup


def agent_of(kind: Any, *sizes: int, **options: Any) -> Any:
    """Return ``kind(TabularSetup(...), ...)`` with each option where it belongs."""
    own = {
        name: options.pop(name) for name in inspect.signature(kind).parameters if name in options
    }
    return kind(TabularSetup(*sizes, **options), **own)
