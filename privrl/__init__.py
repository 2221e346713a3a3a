"""Private reinforcement learning and Bayesian counting models, exactly accounted."""

from privrl._version import __version__

__all__ = ["__version__"]
