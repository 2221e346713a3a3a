"""Policies without their agents, to predict actions and to save in files."""

import copy
import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from privrl.envs.labels import action_names
from privrl.files.chosen import MayBeChosen, check_file
from privrl.files.files import check_stated, read_bytes, save_all, text_writer
from privrl.files.fixed import FixedArrays, read_only
from privrl.files.plain import listed, parse_json
from privrl.files.sharing import check_beside, check_said, judge_by
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.randomness import secret_rng
from privrl.numerics.typing import IntArray

Action = np.int64 | NDArray[np.int64]
"""One action, or one for each of several environments."""
Step = int | NDArray[np.int64]
"""Steps since the start of the episode, one or one for each environment."""

_SPACES: Final = ("observation_space", "action_space")
_LONGEST: Final = 2**27  # maximum of entries of a policy in a file
_LARGEST: Final = 2**53  # maximum of the number of a state or action
_FORMAT: Final = "privrl policy of an agent, 1"
_SAYS: Final = (
    "In each state, as the environment numbers it: the action from a step of the episode on, of "
    "which the first is 0, up to the next that is listed; null is any action, at random."
)
_ENTRIES: Final = (
    "format", "says", "env", "guarantee", "shareable", "because", "horizon", "n_actions",
    "first_action", "action_names", "states",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Policy(MayBeChosen, FixedArrays):
    """The action at each step of an episode in each state.

    `predict` uses the environment's numbering of observations and actions, which may start
    anywhere.

    Parameters
    ----------
    actions : array of int, shape (H, S)
        Action at each step in each state, counted from 0; -1 for a uniformly random one.
    n_actions : int
        Number of actions.
    first_state, first_action : int
        The environment's numbers of the first state and action.
    action_names : sequence of str, optional
        Names of the actions.
    env : str
        Name of the environment, for display; may be empty.
    guarantee : dict, optional
        Statement of the privacy cost; None if it is unknown.

    Raises
    ------
    ValueError
        If an argument is out of range or does not fit the others.
    """

    actions: IntArray
    n_actions: int
    first_state: int = 0
    first_action: int = 0
    action_names: tuple[str, ...] | None = None
    env: str = ""
    guarantee: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_count("n_actions", self.n_actions)
        for name in ("first_state", "first_action"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        actions = plain_array("actions", self.actions)
        if actions.dtype.kind not in "iu" or actions.ndim != 2 or not actions.size:
            raise ValueError(
                "actions must be whole numbers of shape (steps, states), got "
                f"{actions.dtype} of shape {actions.shape}."
            )
        if not ((actions >= -1) & (actions < self.n_actions)).all():
            raise ValueError(f"actions must be from -1 to {self.n_actions - 1} everywhere.")
        actions = actions.astype(np.intp)
        actions.setflags(write=False)
        object.__setattr__(self, "actions", actions)
        if self.action_names is not None:
            names = tuple(self.action_names)
            if len(names) != self.n_actions or not all(isinstance(name, str) for name in names):
                raise ValueError(
                    f"action_names must be {self.n_actions} texts, got {listed(names)}."
                )
            object.__setattr__(self, "action_names", names)
        if not isinstance(self.env, str) or not isinstance(self.guarantee, dict | None):
            raise ValueError("env must be a text, and guarantee a dictionary or None.")
        check_beside(self.guarantee or {})
        object.__setattr__(self, "guarantee", read_only(self.guarantee))

    def __repr__(self) -> str:
        of = f"env={self.env!r}, " if self.env else ""
        sizes = f"horizon={self.horizon}, n_states={self.n_states}, n_actions={self.n_actions}"
        return f"{type(self).__name__}({of}{sizes})"

    @classmethod
    def of(
        cls,
        actions: IntArray,
        n_actions: int,
        env: object = None,
        *,
        guarantee: dict[str, Any] | None = None,
    ) -> Self:
        """Return a policy with the numbering and action names of an environment."""
        spaces = [getattr(env, each, None) for each in _SPACES]
        if isinstance(env, VectorEnv):
            spaces = [env.single_observation_space, env.single_action_space]
        first_state, first_action = (getattr(space, "start", 0) for space in spaces)
        spec = getattr(env, "spec", None)
        return cls(
            actions=actions,
            n_actions=n_actions,
            first_state=first_state,
            first_action=first_action,
            action_names=action_names(env, n_actions),
            env="" if spec is None else spec.id,
            guarantee=guarantee,
        )

    @property
    def horizon(self) -> int:
        """Maximum number of steps of an episode."""
        return len(self.actions)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.actions.shape[1]

    def predict(
        self,
        observation: ArrayLike,
        state: ArrayLike | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,  # for compatibility
    ) -> tuple[Action, Step]:
        """Return the action for an observation, and the ``state`` of the next call.

        The best action depends on the number of remaining steps. As in Stable-Baselines3 for
        recurrent policies, the second return value is passed as ``state`` in the next call. It is
        the number of the step::

            observation, _ = env.reset()
            action, step = policy.predict(observation)  # first step
            observation, *_ = env.step(action)
            action, step = policy.predict(observation, step)

        Parameters
        ----------
        observation : int, or array of int, shape (num_envs,)
            Observation of one environment, or of several side by side.
        state : int, or array of int, shape (num_envs,), optional
            Number of steps since the start of the episode, 0 by default.
        episode_start : bool, or array of bool, shape (num_envs,), optional
            Where a new episode has just started; ``state`` is ignored there.
        deterministic : bool
            Ignored, since the policy is deterministic but for entries of -1. It exists for
            compatibility with callers of Stable-Baselines3 policies.

        Returns
        -------
        action : numpy.int64, or array of int64, shape (num_envs,)
            Action in the environment's numbering.
        state : int, or array of int64, shape (num_envs,)
            The number of the next step.

        Raises
        ------
        ValueError
            If an observation or step is out of range. The policy does not cover episodes beyond
            the horizon.
        """
        del deterministic
        here, step = _array(observation), _array(0 if state is None else state)
        if here.dtype.kind not in "iu" or step.dtype.kind not in "iu":
            raise ValueError(
                f"observation and state must be whole numbers, got {here.dtype} and {step.dtype}; "
                "an environment in privrl.envs.numbered has such observations."
            )
        if episode_start is not None:
            step = np.where(plain_array("episode_start", episode_start).astype(np.bool_), 0, step)
        number = here.astype(np.int64) - self.first_state
        if not ((number >= 0) & (number < self.n_states)).all():
            last = self.first_state + self.n_states - 1
            raise ValueError(f"observation must be from {self.first_state} to {last} everywhere.")
        if not ((step >= 0) & (step < self.horizon)).all():
            raise ValueError(
                f"state must be the number of a step, from 0 to {self.horizon - 1}: the policy is "
                f"for episodes of {self.horizon} steps. Omit it at the start of an episode."
            )
        action = self.actions[step, number].astype(np.int64)
        unset = action < 0
        if unset.any():
            anything = secret_rng().integers(self.n_actions, size=action.shape)
            action = np.where(unset, anything, action)
        action, step = action + self.first_action, step + np.ones_like(action)
        return (action, step) if action.ndim else (np.int64(action), int(step))

    def action_name(self, action: int) -> str:
        """Return the name of an action, counted from 0; -1 is "any"."""
        if action < 0:
            return "any"
        if self.action_names is None:
            return str(action + self.first_action)
        return self.action_names[action]

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain data.

        Raises
        ------
        ValueError
            If the agent was chosen among several.
        """
        check_file(self)
        return {
            "format": _FORMAT,
            "says": _SAYS,
            "env": self.env,
            "guarantee": copy.deepcopy(self.guarantee),
            **judge_by("policy.json", {"guarantee": self.guarantee}).said,
            "horizon": self.horizon,
            "n_actions": self.n_actions,
            "first_action": self.first_action,
            "action_names": None if self.action_names is None else list(self.action_names),
            "states": [self._state(state) for state in range(self.n_states)],
        }

    def to_text(self) -> str:
        """Return the policy as JSON, with one line per state; errors as `to_dict`."""
        page = self.to_dict()
        states = page.pop("states")
        head = json.dumps(page, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
        lines = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in states)
        return f'{head},\n "states": [\n  {lines}\n ]\n}}\n'

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a readable JSON file, replacing an existing one.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = Path(path)
        save_all(path.parent, {path.name: text_writer(self.to_text())})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a policy from a file written by `save` or ``privrl train``.

        Raises
        ------
        ValueError
            If the file does not hold such a policy, or a statement beside it, such as
            ``train.json``, is about another file of its name. The message starts with the file's
            name.
        OSError
            If the file cannot be read.
        """
        path = Path(path)
        content = read_bytes(path)
        try:
            check_stated(path, content)
            return cls.from_dict(parse_json(content))
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path.name}: it must be a policy as JSON, but is not: {error}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the policy described by plain data, see `to_dict`.

        Raises
        ------
        ValueError
            If the data do not describe a policy.
        """
        said = data.get("format") if isinstance(data, dict) else None
        if said != _FORMAT:
            of_log = isinstance(said, str) and said.startswith("privrl policy,")
            raise ValueError(
                f"format must be {_FORMAT!r}, got {shown(said)}; "
                + (
                    "privrl.offline.load_policy reads it: it is a policy of privrl fit-policy."
                    if of_log
                    else "privrl train writes such files, and Policy.save."
                )
            )
        if set(data) != set(_ENTRIES):
            odd = sorted(map(str, set(data) ^ set(_ENTRIES)))
            raise ValueError(f"entries must be {listed(_ENTRIES)}, and {listed(odd)} are not so.")
        states, names = data["states"], data["action_names"]
        horizon = check_count("horizon", data["horizon"])
        if not isinstance(states, list) or not states or not isinstance(names, list | None):
            raise ValueError("states must be a list of one at least, and action_names one or null.")
        try:
            first_state = states[0]["state"]
            steps = [[(step["from"], step["action"]) for step in each["steps"]] for each in states]
        except (LookupError, TypeError):
            raise ValueError(
                "states must each have a number, and steps from which on there is an action."
            ) from None
        policy = cls(
            actions=_actions(steps, horizon, _whole("first_action", data["first_action"])),
            n_actions=data["n_actions"],
            first_state=first_state,
            first_action=data["first_action"],
            action_names=None if names is None else tuple(names),
            env=data["env"],
            guarantee=data["guarantee"],
        )
        check_said(data, judge_by("policy.json", {"guarantee": policy.guarantee}))
        for number, (found, meant) in enumerate(
            zip(states, policy.to_dict()["states"], strict=True)
        ):
            if found != meant:
                raise ValueError(f"state {number} must be {shown(meant)}, got {shown(found)}.")
        return policy

    def _state(self, state: int) -> dict[str, Any]:
        """Return the actions of a state, at the steps where they change."""
        column = self.actions[:, state]
        changes = np.flatnonzero(np.diff(column, prepend=-2)).tolist()
        steps = [{"from": step} | self._what(int(column[step])) for step in changes]
        return {"state": state + self.first_state, "steps": steps}

    def _what(self, action: int) -> dict[str, Any]:
        number = action + self.first_action if action >= 0 else None
        return {"action": number, "do": self.action_name(action)}


def _array(values: ArrayLike) -> NDArray[Any]:
    try:
        return plain_array("observation and state", values)
    except ValueError:  # ragged, such as observations of a Tuple space
        return np.empty(0, object)


def _whole(name: str, value: Any) -> int:
    return check_count(name, value, -_LARGEST, _LARGEST)


def _actions(steps: list[list[tuple[Any, Any]]], horizon: int, first: int) -> IntArray:
    """Return the actions, counted from 0, from the lists of changes of all states."""
    if horizon * len(steps) > _LONGEST:
        raise ValueError(f"horizon times states must be at most {_LONGEST}, got {horizon} steps.")
    columns = np.empty((horizon, len(steps)), np.intp)
    for column, listed_steps in zip(columns.T, steps, strict=True):
        starts = [check_count("from", start, least=0) for start, _ in listed_steps]
        if starts[:1] != [0] or sorted(set(starts)) != starts or starts[-1] >= horizon:
            raise ValueError("steps must go on from 0 to below the horizon.")
        for start, action in listed_steps:
            column[start:] = -1 if action is None else _whole("action", action) - first
    return columns
