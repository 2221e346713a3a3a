"""Private reinforcement learning and Bayesian counting models, exactly accounted.

Importing the package registers its environments with Gymnasium.
"""

from privrl._version import __version__
from privrl.envs.registration import register_envs

register_envs()

__all__ = ["__version__"]
