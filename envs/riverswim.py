"""RiverSwim: swim against the current to a large reward, or drift to a small one."""

import difflib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privrl.envs.riverswim_render import ansi, rgb_array
from privrl.envs.tabular import TabularMDP
from privrl.envs.tabular_env import DrawnEnv
from privrl.files.shown import shown
from privrl.numerics.checks import check_count
from privrl.numerics.typing import FloatArray

LEFT, RIGHT = 0, 1


class _Variant(NamedTuple):
    """The choices in which variants of RiverSwim differ."""

    middle: tuple[float, float, float]
    """Swimming right from a middle state: probabilities of (left, stay, right)."""
    first: tuple[float, float]
    """Swimming right from the first state: (stay, right)."""
    last: tuple[float, float]
    """Swimming right from the last state: (left, stay)."""
    start: tuple[int, ...]
    """States an episode may start in, equally likely."""
    reward: Callable[[int], FloatArray]
    """Reward table for a number of states."""


def _reward_per_action(n_states: int) -> FloatArray:
    reward = np.zeros((n_states, 2))
    reward[0, LEFT] = 0.005
    reward[-1, RIGHT] = 1.0
    return reward


def _reward_for_staying(n_states: int) -> FloatArray:
    reward = np.zeros((n_states, 2, n_states))
    reward[0, LEFT, 0] = 5.0
    reward[-1, RIGHT, -1] = 10_000.0
    return reward


def _reward_on_arrival(n_states: int) -> FloatArray:
    reward = np.zeros((n_states, 2, n_states))
    reward[..., 0] = 0.005
    reward[..., -1] = 1.0
    return reward


_VARIANTS = {
    "osband": _Variant((0.05, 0.60, 0.35), (0.40, 0.60), (0.40, 0.60), (0,), _reward_per_action),
    "strehl": _Variant((0.10, 0.60, 0.30), (0.70, 0.30), (0.70, 0.30), (1, 2), _reward_for_staying),
    "dps": _Variant((0.05, 0.60, 0.35), (0.40, 0.60), (0.40, 0.60), (1,), _reward_on_arrival),
}


def riverswim(n_states: int = 6, horizon: int = 30, variant: str = "osband") -> TabularMDP:
    """Return the tables of RiverSwim.

    The states lie along a river that flows left. Action 0 swims left with the
    current and always succeeds; action 1 swims right, against it, and may not.

    Parameters
    ----------
    n_states : int
        Length of the river, >= 3: a first, a middle and a last state.
    horizon : int
        Steps in an episode, >= 1.
    variant : {"osband", "strehl", "dps"}
        Whose probabilities, rewards and start:

        - ``"osband"``: .005 for swimming left in the first state, 1 for
          swimming right in the last, start in the first [1]_;
        - ``"strehl"``: 5 for staying in the first state by swimming left,
          10000 for staying in the last by swimming right, start in the second
          or third [2]_;
        - ``"dps"``: .005 for arriving in the first state, 1 for arriving in the
          last, start in the second, as in the code published with [3]_.

    Returns
    -------
    TabularMDP
        With 2 actions.

    Raises
    ------
    ValueError
        If an argument is out of range or the variant is unknown.

    References
    ----------
    .. [1] Osband, Russo and Van Roy (2013), (More) Efficient Reinforcement
       Learning via Posterior Sampling.
    .. [2] Strehl and Littman (2008), An Analysis of Model-Based Interval
       Estimation for Markov Decision Processes.
    .. [3] Ponnoprat (2021), Differential Privacy of Dirichlet Posterior Sampling
       ("DPS").
    """
    check_count("n_states", n_states, least=3)
    if variant not in _VARIANTS:
        near = difflib.get_close_matches(str(variant), _VARIANTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'osband' is the default."
        raise ValueError(
            f"variant must be one of {', '.join(_VARIANTS)}, got {shown(variant)}; {hint}"
        )
    chosen = _VARIANTS[variant]

    transition = np.zeros((n_states, 2, n_states))
    for state in range(n_states):
        transition[state, LEFT, max(state - 1, 0)] = 1.0
    for state in range(1, n_states - 1):
        transition[state, RIGHT, state - 1 : state + 2] = chosen.middle
    transition[0, RIGHT, :2] = chosen.first
    transition[-1, RIGHT, -2:] = chosen.last
    start = np.zeros(n_states)
    start[list(chosen.start)] = 1 / len(chosen.start)
    return TabularMDP(transition, chosen.reward(n_states), start, horizon)


class RiverSwimEnv(DrawnEnv):
    """RiverSwim as a Gymnasium environment, ``privrl/RiverSwim-v0``.

    Its attributes are those of `TabularEnv`.

    Parameters
    ----------
    n_states, horizon, variant
        As for `riverswim`.
    render_mode : {None, "ansi", "rgb_array"}
        What `render` returns: nothing, text, or a picture.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    def __init__(
        self,
        *,
        n_states: int = 6,
        horizon: int = 30,
        variant: str = "osband",
        render_mode: str | None = None,
    ) -> None:
        self._check_mode(render_mode)
        super().__init__(riverswim(n_states, horizon, variant))
        self._last_action: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode; ``options`` are accepted and ignored."""
        self._last_action = None
        return super().reset(seed=seed, options=options)

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Swim once; the episode is truncated at the horizon and never terminates."""
        seen = super().step(action)
        self._last_action = int(action)
        return seen

    def _picture(self, state: int) -> str | NDArray[np.uint8]:
        if self.render_mode == "ansi":
            return ansi(self.mdp, state, self._last_action)
        return rgb_array(self.mdp.n_states, state, self._last_action)
