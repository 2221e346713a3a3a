"""Private reinforcement learning and Bayesian counting models, exactly accounted.

Importing `privrl.envs` registers its environments with Gymnasium.
"""

from privrl._version import __version__

__all__ = ["__version__"]
