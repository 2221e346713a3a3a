"""Register the environments with Gymnasium, without importing it.

`register_when_imported` waits for Gymnasium, so that ``import privrl`` stays quick. The
environments are registered by name: their modules load when an environment is made.
"""

import math
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

LONGEST_HAND: Final = 20
"""Longest episode of Blackjack: from two aces (2) to more than 21 by drawing only aces."""

CARTPOLE_BINS: Final = (
    (-0.8, 0.8),
    (-0.5, 0.5),
    (math.radians(-6), math.radians(-1), 0.0, math.radians(1), math.radians(6)),
    (math.radians(-50), math.radians(50)),
)
"""Edges that make 162 states of CartPole's position (m), speed, angle (rad) and angular speed.

Barto, Sutton and Anderson (1983), Neuronlike Adaptive Elements That Can Solve Difficult
Learning Control Problems.
"""


def register_envs() -> None:
    """Register the environments once; a second call changes nothing.

    - ``privrl/RiverSwim-v0``: see `privrl.envs.riverswim.RiverSwimEnv`, and
      `privrl.envs.vector.RiverSwimVectorEnv` for `gymnasium.make_vec`.
    - ``privrl/RiverSwimDPS-v0``: its variant ``"dps"``.
    - ``privrl/Blackjack-v0``: Gymnasium's Blackjack-v1 with its 704 observations numbered, and
      with the time limit that follows from its rules.
    - ``privrl/CartPole-v0``: Gymnasium's CartPole-v1 in the 162 boxes of `CARTPOLE_BINS`.
    - ``privrl/Tabular-v0``: any `TabularMDP`, by ``mdp=``, or by ``path=`` to a file of its
      tables; see `privrl.envs.TabularEnv`.
    - ``privrl/Released-v0``: a privately released model, by ``path=`` to its folder, or by
      ``released=``; see `privrl.envs.ReleasedEnv`.
    - ``privrl/ReleasedContinuous-v0``: the same for continuous states; see
      `privrl.continuous.environment.ReleasedContinuousEnv`.
    """
    swim: dict[str, Any] = {
        "entry_point": "privrl.envs.riverswim:RiverSwimEnv",
        "vector_entry_point": "privrl.envs.vector:RiverSwimVectorEnv",
    }
    _register("RiverSwim", **swim)
    _register("RiverSwimDPS", **swim, kwargs={"variant": "dps"})
    _register("Tabular", entry_point="privrl.envs.tabular_env:TabularEnv")
    _register("Released", entry_point="privrl.envs.tabular_env:ReleasedEnv")
    continuous = "privrl.continuous.environment:ReleasedContinuousEnv"
    _register("ReleasedContinuous", entry_point=continuous)
    _register_wrapped("Blackjack", "FlattenDiscrete", {}, max_episode_steps=LONGEST_HAND)
    _register_wrapped("CartPole", "Discretised", {"bins": [list(edges) for edges in CARTPOLE_BINS]})


def _register(name: str, **settings: Any) -> None:
    import gymnasium as gym  # noqa: PLC0415

    if f"privrl/{name}-v0" not in gym.registry:
        gym.register(f"privrl/{name}-v0", **settings)


def _register_wrapped(name: str, wrapper: str, options: dict[str, Any], **settings: Any) -> None:
    """Register Gymnasium's environment of this name under a wrapper, by default with its limit."""
    import gymnasium as gym  # noqa: PLC0415

    spec = gym.spec(f"{name}-v1")
    inherited = {"kwargs": spec.kwargs, "max_episode_steps": spec.max_episode_steps}
    wrapped = gym.envs.registration.WrapperSpec(wrapper, f"privrl.envs.wrappers:{wrapper}", options)
    _register(
        name,
        entry_point=spec.entry_point,
        additional_wrappers=(wrapped,),
        **inherited | settings,
    )


def register_when_imported() -> None:
    """Register the environments now if Gymnasium is imported, or else when it is."""
    if "gymnasium" in sys.modules:
        register_envs()
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


class _Waiting:
    """A finder of modules that registers the environments at the end of Gymnasium's import.

    It stays until then, because code that only asks whether Gymnasium is installed also calls it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return Gymnasium's own specification, whose loader also registers the environments."""
        if name != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                register_envs()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign] # its own
        return spec
