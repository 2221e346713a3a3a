"""Private reinforcement learning and Bayesian counting models, exactly accounted.

Importing this registers the environments: ``gymnasium.make("privrl/RiverSwim-v0")``.
"""

from typing import TYPE_CHECKING, Any

from privrl._registration import register_when_imported

if TYPE_CHECKING:
    from privrl.numerics.randomness import secret_rng

__version__ = "0.2.0"  # the build reads it without importing the package

__all__ = ["__version__", "secret_rng"]


def __getattr__(name: str) -> Any:
    """Load NumPy only for those who use it: the command line's help is there at once."""
    if name == "secret_rng":
        from privrl.numerics.randomness import secret_rng  # noqa: PLC0415

        return secret_rng
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_when_imported()
