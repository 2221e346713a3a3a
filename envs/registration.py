"""Make the environments known to Gymnasium."""

import gymnasium as gym

from privrl.envs.blackjack import LONGEST_HAND
from privrl.envs.wrappers import CARTPOLE_BINS, Discretised, FlattenDiscrete

_RIVERSWIM = "privrl/RiverSwim-v0"
_RIVERSWIM_DPS = "privrl/RiverSwimDPS-v0"
_BLACKJACK = "privrl/Blackjack-v0"
_CARTPOLE = "privrl/CartPole-v0"
_TABULAR = "privrl/Tabular-v0"


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
    if _BLACKJACK not in gym.registry:
        blackjack = gym.spec("Blackjack-v1")
        gym.register(
            _BLACKJACK,
            entry_point=blackjack.entry_point,
            kwargs=blackjack.kwargs,
            max_episode_steps=LONGEST_HAND,
            additional_wrappers=(FlattenDiscrete.wrapper_spec(),),
        )
    if _CARTPOLE not in gym.registry:
        cartpole = gym.spec("CartPole-v1")
        gym.register(
            _CARTPOLE,
            entry_point=cartpole.entry_point,
            kwargs=cartpole.kwargs,
            max_episode_steps=cartpole.max_episode_steps,
            additional_wrappers=(
                Discretised.wrapper_spec(bins=[list(edges) for edges in CARTPOLE_BINS]),
            ),
        )
    if _TABULAR not in gym.registry:
        gym.register(_TABULAR, entry_point="privrl.envs.tabular_env:TabularEnv")
