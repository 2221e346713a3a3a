"""Step many copies of a tabular MDP at once, as a natively vectorised Gymnasium environment."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from privrl.envs.riverswim import riverswim
from privrl.envs.riverswim_render import rgb_array
from privrl.envs.rows import TransitionRows
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is, plain_array
from privrl.numerics.typing import BoolArray, FloatArray

Observations = NDArray[np.int64]
Step = tuple[Observations, FloatArray, BoolArray, BoolArray, dict[str, Any]]

_DRAWS_AT_ONCE = 2**14
"""Uniform draws made at a time: enough to be cheap, few enough to stay in the cache."""


class TabularVectorEnv(gym.vector.VectorEnv[Observations, NDArray[np.integer[Any]], NDArray[Any]]):
    """Play a tabular MDP in many environments side by side.

    Observations are states and actions are numbered from 0. An episode is truncated after
    ``mdp.horizon`` steps and never terminates.

    Parameters
    ----------
    num_envs : int
        How many environments, >= 1.
    mdp : TabularMDP
        What each of them plays.
    autoreset_mode : AutoresetMode or str
        What follows the last step of an episode, see
        https://farama.org/Vector-Autoreset-Mode:

        - ``"NextStep"``, as by default in Gymnasium: the next `step` ignores the environment's
          action, starts its next episode and pays 0. **That call is not a transition**: who counts
          it learns of moves that never were;
        - ``"SameStep"``: the last step itself returns the next episode's first observation; the
          one that the episode ended with is ``infos["final_obs"]``;
        - ``"Disabled"``: `reset` must be called before the next `step`, with
          ``options={"reset_mask": ended}`` where some environments only have ended.

    Attributes
    ----------
    mdp : TabularMDP
        The tables behind the environments.

    Raises
    ------
    ValueError
        If ``num_envs`` is below 1 or the autoreset mode unknown.

    Notes
    -----
    All environments share one generator, which is drawn from in blocks, ahead of use: a seed
    fixes them together.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 # as Gymnasium declares it
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int,
        mdp: TabularMDP,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = check_count("num_envs", num_envs)
        check_is("mdp", mdp, TabularMDP)
        self.mdp = mdp
        self._mode = _checked_mode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self._mode}
        self.single_observation_space = Discrete(mdp.n_states)
        self.single_action_space = Discrete(mdp.n_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

        self._rows = TransitionRows(mdp.transition, mdp.start)
        self._next_row = np.multiply(self._rows.next_state, mdp.n_actions, dtype=np.float64)
        reward = np.broadcast_to(mdp.reward_table, mdp.transition.shape)
        self._reward = reward[mdp.transition > 0]  # in the order of the entries
        # Unknown actions point beyond all rows, to no entry, which saves a check.
        self._action_row = np.append(np.arange(mdp.n_actions, dtype=np.float64), np.inf)
        self._no_action = np.uintp(mdp.n_actions)

        self._draws = np.empty((max(1, _DRAWS_AT_ONCE // self.num_envs), self.num_envs))
        self._used = len(self._draws)
        self._drawn_by: np.random.Generator | None = None

        self._row = np.zeros(self.num_envs)  # of each one's state and action 0
        self._clock = 0
        self._ends = np.zeros(self.num_envs, dtype=np.int64)  # of the episodes, by the clock
        self._next_end = -1  # the least of them; before the first reset, none

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Start an episode in all environments, or in some.

        Parameters
        ----------
        seed : int, optional
            Seeds all environments together, also those in the middle of an episode.
        options : dict, optional
            ``"reset_mask"``, an array of bool of shape (num_envs,), says where to start; the others
            continue. Other options are ignored.

        Returns
        -------
        observations : array of int, shape (num_envs,)
            The state of every environment.
        infos : dict
            Empty.

        Raises
        ------
        ValueError
            If the mask is not such an array, or nowhere True.
        gymnasium.error.ResetNeeded
            If an environment that is to continue was never started.
        """
        which = np.ones(self.num_envs, dtype=np.bool_)
        if options and "reset_mask" in options:
            which = self._checked_mask(options["reset_mask"])
            if self._next_end < 0 and not which.all():
                raise gym.error.ResetNeeded("the first reset must be of all environments.")
        super().reset(seed=seed)
        states = (self._row // self.mdp.n_actions).astype(np.int64)
        self._begin(which, states)
        return states, {}

    def step(self, actions: NDArray[np.integer[Any]]) -> Step:
        """Take one action in each environment.

        Parameters
        ----------
        actions : array of int, shape (num_envs,)
            In ``0 .. A - 1``, also where the action is ignored.

        Returns
        -------
        observations : array of int, shape (num_envs,)
        rewards : array of float, shape (num_envs,)
        terminations, truncations : array of bool, shape (num_envs,)
        infos : dict
            Empty but for ``"final_obs"`` and ``"final_info"``, see ``autoreset_mode``. Nothing
            returned is written to again.

        Raises
        ------
        ValueError
            If an action does not exist; then nothing has happened.
        gymnasium.error.ResetNeeded
            If an environment was never reset.
        """
        over = self._waiting() if self._clock >= self._next_end else None
        actions = plain_array("actions", actions)
        if actions.shape != self._row.shape or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be integers of shape {self._row.shape}, got {actions.dtype} of "
                f"shape {actions.shape}; give one to each environment."
            )
        uniform = self._uniforms()
        try:
            # Without a sign, what is negative is large.
            unsigned = actions.astype(np.intp, copy=False).view(np.uintp)
            position = self._action_row.take(np.minimum(unsigned, self._no_action).view(np.intp))
            position += self._row
            position += uniform  # last, as draws are kept below 1 for that
            entry = self._rows.entries(position)
            rewards = self._reward.take(entry)
        except IndexError:
            self._used -= 1
            raise ValueError(
                f"actions must be in 0..{self.mdp.n_actions - 1}, got values in "
                f"{actions.min()}..{actions.max()}; number them from 0."
            ) from None
        states = self._rows.next_state.take(entry)
        self._row = self._next_row.take(entry)
        self._clock += 1
        if over is not None:
            rewards[over] = 0.0
            self._begin(over, states)

        terminations = np.zeros(self.num_envs, np.bool_)
        if self._clock < self._next_end:
            return states, rewards, terminations, np.zeros(self.num_envs, np.bool_), {}
        truncations = self._ends <= self._clock
        if self._mode != AutoresetMode.SAME_STEP:
            return states, rewards, terminations, truncations, {}
        infos = _final(states, truncations)
        self._begin(truncations, states)
        return states, rewards, terminations, truncations, infos

    def _waiting(self) -> BoolArray:
        """Return in which environments this step starts an episode."""
        if self._next_end < 0:
            raise gym.error.ResetNeeded("step needs states to start from; call reset() first.")
        over = self._ends <= self._clock
        if self._mode == AutoresetMode.DISABLED:
            raise gym.error.ResetNeeded(
                f"step needs every episode to go on, {over.sum()} of {self.num_envs} have ended; "
                'call reset(options={"reset_mask": ended}) first.'
            )
        return over

    def _checked_mask(self, mask: BoolArray) -> BoolArray:
        if (
            not isinstance(mask, np.ndarray)
            or mask.dtype != np.bool_
            or mask.shape != self._row.shape
            or not mask.any()
        ):
            raise ValueError(
                f"reset_mask must be an array of bool of shape {self._row.shape} that is True "
                f"somewhere, got {shown(mask)}; leave it out to reset all environments."
            )
        return mask

    def _begin(self, which: BoolArray, states: Observations) -> None:
        """Start episodes, and enter their first states."""
        entry = self._rows.entries(self._rows.start_row + self._uniforms()[which])
        states[which] = self._rows.next_state[entry]
        self._row[which] = self._next_row[entry]
        self._ends[which] = self._clock + self.mdp.horizon
        self._next_end = int(self._ends.min())

    def _uniforms(self) -> FloatArray:
        """Return one draw for each environment, below 1 even when added to a row."""
        if self._used == len(self._draws) or self._drawn_by is not self._np_random:
            self._drawn_by = self.np_random
            self._drawn_by.random(out=self._draws)
            self._rows.keep_below_one(self._draws)
            self._used = 0
        self._used += 1
        return self._draws[self._used - 1]


class RiverSwimVectorEnv(TabularVectorEnv):
    """RiverSwim in many environments side by side, ``privrl/RiverSwim-v0`` for `make_vec`.

    Parameters
    ----------
    num_envs, autoreset_mode
        As for `TabularVectorEnv`.
    n_states, horizon, variant
        As for `privrl.envs.riverswim`.
    render_mode : {None, "rgb_array"}
        What `render` returns: nothing, or a picture of the first of them.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 # as Gymnasium declares it
        **TabularVectorEnv.metadata,
        "render_modes": ["rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        num_envs: int,
        *,
        n_states: int = 6,
        horizon: int = 30,
        variant: str = "osband",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            num_envs, riverswim(n_states, horizon, variant), autoreset_mode=autoreset_mode
        )
        if render_mode not in (None, "rgb_array"):
            raise ValueError(
                f"render_mode must be None or 'rgb_array', got {shown(render_mode)}; None is "
                "fastest."
            )
        self.render_mode = render_mode
        self._shown: tuple[int, int | None] = (0, None)  # the first's: end, last action

    def step(self, actions: NDArray[np.integer[Any]]) -> Step:
        """Take one action in each environment; see `TabularVectorEnv.step`."""
        before = self._ends[0]
        seen = super().step(actions)
        if self.render_mode is not None:  # a step may also begin an episode
            end = int(self._ends[0])
            self._shown = end, int(actions[0]) if end == before else None
        return seen

    def render(self) -> tuple[NDArray[np.uint8]] | None:
        """Return a picture of the first environment, in a tuple; None without ``render_mode``.

        Raises
        ------
        gymnasium.error.ResetNeeded
            If there has been no `reset`.
        """
        if self._next_end < 0:
            raise gym.error.ResetNeeded("render needs a state to show; call reset() first.")
        if self.render_mode is None:
            gym.logger.warn("render() shows nothing unless render_mode='rgb_array' was asked for.")
            return None
        end, action = self._shown
        last = action if int(self._ends[0]) == end else None  # it was reset since
        return (rgb_array(self.mdp.n_states, int(self._row[0]) // self.mdp.n_actions, last),)


def _checked_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        names = ", ".join(repr(known.value) for known in AutoresetMode)
        raise ValueError(
            f"autoreset_mode must be one of {names}, got {shown(mode)}; 'NextStep' is Gymnasium's "
            "default."
        ) from None


def _final(states: Observations, ended: BoolArray) -> dict[str, Any]:
    """Return the infos of a step that ends episodes, as `gymnasium.vector.SyncVectorEnv` does."""
    final = np.full(len(states), None, dtype=object)
    for env in np.flatnonzero(ended):
        final[env] = states[env]
    return {
        "final_obs": final,
        "_final_obs": ended.copy(),
        "final_info": {},
        "_final_info": ended.copy(),
    }
