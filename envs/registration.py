"""Make the environments known to Gymnasium."""

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from privrl.envs.bins import CARTPOLE_BINS
from privrl.envs.blackjack import LONGEST_HAND
from privrl.envs.wrappers import Discretised, FlattenDiscrete

_RIVERSWIM = "privrl/RiverSwim-v0"
_RIVERSWIM_DPS = "privrl/RiverSwimDPS-v0"
_BLACKJACK = "privrl/Blackjack-v0"
_CARTPOLE = "privrl/CartPole-v0"
_TABULAR = "privrl/Tabular-v0"
_RELEASED = "privrl/Released-v0"
_RELEASED_CONTINUOUS = "privrl/ReleasedContinuous-v0"


def register_envs() -> None:
    """Register the environments once; a second call changes nothing.

    - ``privrl/RiverSwim-v0``: see `privrl.envs.RiverSwimEnv`; for `gymnasium.make_vec`, see
      `privrl.envs.RiverSwimVectorEnv`.
    - ``privrl/RiverSwimDPS-v0``: its variant ``"dps"``.
    - ``privrl/Blackjack-v0``: Gymnasium's Blackjack-v1 with its 704 observations numbered, and
      with the time limit that its rules imply.
    - ``privrl/CartPole-v0``: Gymnasium's CartPole-v1 in the 162 boxes of `CARTPOLE_BINS`.
    - ``privrl/Tabular-v0``: any `TabularMDP`, by ``mdp=``, or by ``path=`` to a file of its
      tables; see `privrl.envs.TabularEnv`.
    - ``privrl/Released-v0``: a model that was released privately, by ``path=`` to its folder, or
      by ``released=``; see `privrl.envs.ReleasedEnv`.
    - ``privrl/ReleasedContinuous-v0``: the same for continuous states; see
      `privrl.continuous.environment.ReleasedContinuousEnv`.
    """
    if _RIVERSWIM not in gym.registry:
        entry = "privrl.envs.riverswim:RiverSwimEnv"
        vector_entry = "privrl.envs.vector:RiverSwimVectorEnv"
        gym.register(_RIVERSWIM, entry_point=entry, vector_entry_point=vector_entry)
        gym.register(
            _RIVERSWIM_DPS,
            entry_point=entry,
            vector_entry_point=vector_entry,
            kwargs={"variant": "dps"},
        )
    _register_wrapped(
        _BLACKJACK, "Blackjack-v1", FlattenDiscrete.wrapper_spec(), max_episode_steps=LONGEST_HAND
    )
    boxes = [list(edges) for edges in CARTPOLE_BINS]
    _register_wrapped(_CARTPOLE, "CartPole-v1", Discretised.wrapper_spec(bins=boxes))
    if _TABULAR not in gym.registry:
        gym.register(_TABULAR, entry_point="privrl.envs.tabular_env:TabularEnv")
    if _RELEASED not in gym.registry:
        gym.register(_RELEASED, entry_point="privrl.envs.released_env:ReleasedEnv")
    if _RELEASED_CONTINUOUS not in gym.registry:
        gym.register(
            _RELEASED_CONTINUOUS,
            entry_point="privrl.continuous.environment:ReleasedContinuousEnv",
        )


def _register_wrapped(
    name: str, known: str, wrapper: WrapperSpec, *, max_episode_steps: int | None = None
) -> None:
    """Register one of Gymnasium's environments under a wrapper; by default with its own limit."""
    if name not in gym.registry:
        spec = gym.spec(known)
        gym.register(
            name,
            entry_point=spec.entry_point,
            kwargs=spec.kwargs,
            max_episode_steps=max_episode_steps or spec.max_episode_steps,
            additional_wrappers=(wrapper,),
        )
