"""Policies from logs in files that people can read."""

import copy
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

import numpy as np

from privrl.accounting.targets import DEFAULT_DELTA
from privrl.costs.base import Cost
from privrl.costs.noise import LaplaceCost
from privrl.envs.released import (
    Released,
    check_labels,
    checked_statement,
    privacy_statement,
    unit_in_words,
)
from privrl.files.chosen import MayBeChosen, check_file, made_of
from privrl.files.files import Write, check_stated, read_bytes, save_all, text_writer
from privrl.files.fixed import FixedArrays, read_only
from privrl.files.html import InHtml
from privrl.files.plain import check_page, listed, parse_json
from privrl.files.sharing import Verdict, check_said, judge_by
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.typing import IntArray
from privrl.offline.counts import LONGEST
from privrl.offline.facts import Estimate, LogFacts
from privrl.offline.persons import person_cost
from privrl.offline.planning import plan_for
from privrl.offline.policy import LoggedPolicy

Kind = Literal["behaviour", "popular", "vote", "rounds", "counts", "plan"]

AS_BEFORE: Final = "as before"
_FORMAT: Final = "privrl policy, 2"
_BY_STEP: Final = ("counts", "plan")
_WORDS: Final = {
    "behaviour": "As before everywhere: at this budget the log cannot tell actions apart.",
    "popular": "In each state the action that was taken most often, where it is clear which.",
    "vote": "In each state the action with the best noisy sum of outcomes, by a vote.",
    "rounds": "In each state the action with the best noisy outcomes, by sums in several rounds.",
    "counts": "The best actions by counts of all transitions; they may change from step to step.",
    "plan": "The best actions in a released model; they may change from step to step.",
}
_HELP: Final = " More persons or a larger epsilon help, or saying which actions are admissible"
_ENTRIES: Final = (
    "format", "kind", "says", "statement", "released", "signal", "value",
    "horizon", "n_actions", "action_names", "states", "shareable", "because",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedPolicy(MayBeChosen, FixedArrays, InHtml):
    """A policy that was released privately, with its privacy statement: public.

    Parameters
    ----------
    action : array of int, shape (S,) or, of kinds "counts" and "plan", (H, S)
        What to do in each state, or at each step in each state; -1 for the behaviour policy.
    n_actions : int
        The number of actions.
    kind : {"behaviour", "popular", "vote", "rounds", "counts", "plan"}
        How it was made, see `LoggedPolicy`; "plan" if for a released model.
    statement : dict
        What protects whom, see `privrl.envs.released.privacy_statement`.
    state_names, action_names : sequence of str, optional
        Public labels.
    facts : LogFacts, optional
        What else was released with it.
    outcomes : sequence of str
        Labels of the outcomes that ``facts`` are about.
    signal : float, optional
        What an action is taken to do over the noise on it, where that was looked at.
    value : Estimate, optional
        What an episode earns, see `LoggedPolicy`; of kind "plan", in the model.

    Raises
    ------
    ValueError
        If an argument is out of range or does not fit the others.
    """

    action: IntArray
    n_actions: int
    kind: Kind
    statement: dict[str, Any]
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    facts: LogFacts | None = None
    outcomes: tuple[str, ...] = ()
    signal: float | None = None
    value: Estimate | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(
                f"kind must be one of {listed(get_args(Kind))}, got {shown(self.kind)}."
            )
        n_actions = check_count("n_actions", self.n_actions)
        action = np.array(self.action)
        if action.dtype.kind != "i" or action.ndim != 1 + self.is_by_step or not action.size:
            shape = "(H, S)" if self.is_by_step else "(S,)"
            raise ValueError(
                f"action must be whole numbers of shape {shape}, got {action.dtype} of shape "
                f"{action.shape}."
            )
        if not ((action >= -1) & (action < n_actions)).all():
            raise ValueError(f"action must be from -1 to {n_actions - 1} everywhere.")
        action = action.astype(np.intp)
        action.setflags(write=False)
        checked: dict[str, Any] = {"action": action, "n_actions": n_actions}
        for name, size in (("state_names", self.n_states), ("action_names", n_actions)):
            labels = getattr(self, name)
            checked[name] = None if labels is None else check_labels(name, labels, size)
        checked["statement"] = read_only(checked_statement(self.statement))
        checked["outcomes"] = check_labels("outcomes", self.outcomes)
        checked["signal"] = None if self.signal is None else _number("signal", self.signal)
        if self.facts is not None and len(self.facts.outcomes) != len(self.outcomes):
            raise ValueError(
                f"outcomes must be the {len(self.facts.outcomes)} of facts, got "
                f"{listed(self.outcomes)}."
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_log(
        cls,
        policy: LoggedPolicy,
        *,
        epsilon: float,
        delta: float = DEFAULT_DELTA,
        order: float | None = None,
        caveats: tuple[str, ...] = (),
        state_names: tuple[str, ...] | None = None,
        action_names: tuple[str, ...] | None = None,
        outcomes: tuple[str, ...] = (),
    ) -> Self:
        """Return a policy that `fit_policy` made with a budget.

        ``caveats`` are what the promise does not cover; names and outcomes are public labels.

        Raises
        ------
        ValueError
            If it was made with another one, or without privacy.
        """
        check_is("policy", policy, LoggedPolicy, hint="fit_policy makes one")
        if policy.cost != person_cost(epsilon, policy.cost.relation, delta=delta, order=order):
            raise ValueError(
                "epsilon, delta and order must be those that the policy was made with, got "
                f"{shown(epsilon)}, {shown(delta)} and {shown(order)} for {shown(policy.cost)}."
            )
        made = cls(
            action=policy.action,
            n_actions=policy.allowed.shape[1],
            kind=policy.kind,
            statement=statement_of(
                policy.cost,
                epsilon,
                unit=policy.unit,
                order=order,
                released="a policy from sums and votes of persons",
                randomness=policy.randomness,
                caveats=caveats,
            ),
            facts=policy.facts,
            value=policy.value,
            signal=policy.signal if np.isfinite(policy.signal) else None,
            state_names=state_names,
            action_names=action_names,
            outcomes=outcomes,
        )
        released: Self = made_of(policy, made)
        return released

    @classmethod
    def of_model(cls, released: Released, *, discount: float = 1.0) -> Self:
        """Return the best policy of a released model, see `plan_for`; outcomes are left out."""
        action, value = plan_for(released, discount=discount)
        made = cls(
            action=action[:, : released.mdp.n_states - len(released.outcomes)],
            n_actions=released.mdp.n_actions,
            kind="plan",
            statement=released.statement,
            state_names=released.state_names,
            action_names=released.action_names,
            value=value,
        )
        return made_of(released, made)

    @property
    def is_by_step(self) -> bool:
        """Whether what to do depends on the step."""
        return self.kind in _BY_STEP

    @property
    def n_states(self) -> int:
        """The number of states."""
        return int(self.action.shape[-1])

    @property
    def says(self) -> str:
        """What it is, in words."""
        text = _WORDS[self.kind]
        if self.kind == "behaviour":
            text += _HELP
            pure = self.statement.get("delta") == 0
            text += "." if pure else "; so does Laplace noise, without an order."
        return text + self._worth()

    def _worth(self) -> str:
        told = self.value
        if self.kind == "behaviour":
            return ""
        if told is None:
            if self.facts is None:
                return ""
            return (
                f" What was done before earned {_between(self.facts.done)} an episode; how much "
                "more the policy earns was not released. Ask evaluate_policy, of other persons."
            )
        if self.kind == "popular" and (self.facts is None or told.value == self.facts.done.value):
            return (
                f" What an episode is worth is not known: from {told.lower:.4g} to "
                f"{told.upper:.4g}, all that is possible. Ask evaluate_policy, of other persons."
            )
        text = f" An episode is worth {_between(told)}"
        if self.kind == "plan":
            text += " in the model; likely less in the world, as that is the largest of many values"
        return text + ", by what was released."

    def state_label(self, state: int) -> str:
        """Return what a state is called: its label, or its number."""
        return str(state) if self.state_names is None else self.state_names[state]

    def action_label(self, action: int) -> str:
        """Return what an action is called: its label, or its number, or "as before"."""
        if action < 0:
            return AS_BEFORE
        return str(action) if self.action_names is None else self.action_names[action]

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain data, as `save_policy` writes them.

        Raises
        ------
        ValueError
            If it was chosen among several.
        """
        check_file(self)
        facts = None if self.facts is None else asdict(self.facts)
        if facts is not None:
            facts["outcomes"] = dict(zip(self.outcomes, facts["outcomes"], strict=True))
        return {
            "format": _FORMAT,
            "kind": self.kind,
            "says": self.says,
            "statement": copy.deepcopy(self.statement),
            **self._verdict.said,
            "released": facts,
            "signal": self.signal,
            "value": None if self.value is None else asdict(self.value),
            "horizon": len(self.action) if self.is_by_step else None,
            "n_actions": self.n_actions,
            "action_names": None if self.action_names is None else list(self.action_names),
            "states": [self._state(state) for state in range(self.n_states)],
        }

    @property
    def _verdict(self) -> Verdict:
        return judge_by("policy.json", {"guarantee": self.statement})

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the policy that plain data describe; raise ValueError if they describe none."""
        data = check_page(data, _FORMAT, _ENTRIES)
        kind, states, horizon = data["kind"], data["states"], data["horizon"]
        by_step = kind in _BY_STEP
        if by_step != (horizon is not None):
            raise ValueError(
                f"horizon must be there where actions depend on it, got {shown(horizon)}."
            )
        if not isinstance(states, list) or not states:
            raise ValueError("states must be a list of states, one at least.")
        if not isinstance(data["says"], str):
            raise ValueError(f"says must be a text, got {shown(data['says'])}.")
        names: list[Any] = [
            each.get("label") if isinstance(each, dict) else None for each in states
        ]
        facts = _facts(data["released"])
        policy = cls(
            action=_actions(states, None if horizon is None else check_count("horizon", horizon)),
            n_actions=data["n_actions"],
            kind=kind,
            statement=data["statement"],
            state_names=None if names[0] is None else tuple(names),
            action_names=data["action_names"],
            facts=facts,
            outcomes=() if facts is None else tuple(data["released"]["outcomes"]),
            signal=data["signal"],
            value=None if data["value"] is None else _estimate("value", data["value"]),
        )
        check_said(data, policy._verdict)
        for number, (said, meant) in enumerate(
            zip(states, policy.to_dict()["states"], strict=True)
        ):
            if said != meant:
                raise ValueError(f"state {number} must be {shown(meant)}, got {shown(said)}.")
        return policy

    def _state(self, state: int) -> dict[str, Any]:
        """Return what is to be done in a state; of steps, those at which that changes."""
        entry: dict[str, Any] = {"state": state}
        if self.state_names is not None:
            entry["label"] = self.state_names[state]
        if not self.is_by_step:
            return entry | self._what(int(self.action[state]))
        column = self.action[:, state]
        changes = np.flatnonzero(np.diff(column, prepend=-2))
        entry["steps"] = [{"from": int(step)} | self._what(int(column[step])) for step in changes]
        return entry

    def _what(self, action: int) -> dict[str, Any]:
        return {"action": action, "do": self.action_label(action)}


def save_policy(path: str | PathLike[str], policy: ReleasedPolicy) -> None:
    """Write a policy to a JSON file, replacing it: a state a line, with labels.

    Raises
    ------
    ValueError
        If ``policy`` is none.
    """
    check_is("policy", policy, ReleasedPolicy, hint="ReleasedPolicy.of_log makes one")
    path = Path(path)
    save_all(path.parent, {path.name: policy_writer(policy)})


def load_policy(path: str | PathLike[str]) -> ReleasedPolicy:
    """Read a policy from a file that `save_policy` or ``privrl fit-policy`` wrote.

    Raises
    ------
    ValueError
        If it holds no policy, or a statement beside it, ``release.json``, is about another file of
        its name; the message begins with the file's name.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    try:
        content = read_bytes(path)
        check_stated(path, content)
        return ReleasedPolicy.from_dict(parse_json(content))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def policy_writer(policy: ReleasedPolicy) -> Write:
    """Return what writes a policy."""
    page = policy.to_dict()
    states = page.pop("states")
    head = json.dumps(page, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    lines = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in states)
    return text_writer(f'{head},\n "states": [\n  {lines}\n ]\n}}\n')


def _actions(states: list[Any], horizon: int | None) -> Any:
    """Return the actions of states: numbers, where they are, which is all that is checked."""
    if horizon is None:
        return np.array([_action(each, "action") for each in states])
    if horizon * len(states) > LONGEST:
        raise ValueError(f"horizon times states must be at most {LONGEST}, got {horizon}.")
    columns = []
    for each in states:
        steps = _entry(each, "steps", list)
        starts = [_action(step, "from") for step in steps]
        if starts[:1] != [0] or sorted(set(starts)) != starts or starts[-1] >= horizon:
            raise ValueError(f"steps must go on from 0 to below the horizon, got {starts}.")
        lengths = np.diff(starts, append=horizon)
        columns.append(np.repeat([_action(step, "action") for step in steps], lengths))
    return np.array(columns).T


def _action(entry: Any, name: str) -> int:
    number = _entry(entry, name, int)
    return check_count(name, number, least=-1)


def _entry(entry: Any, name: str, kind: type) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get(name), kind):
        raise ValueError(f"states must each say {shown(name)}, got {shown(entry)}.")
    return entry[name]


def _facts(data: Any) -> LogFacts | None:
    if data is None:
        return None
    names = [each.name for each in fields(LogFacts)]
    _check_entries("released", data, names)
    outcomes = data["outcomes"]
    if not isinstance(outcomes, dict):
        raise ValueError(f"outcomes must map labels to parts, got {shown(outcomes)}.")
    parts = tuple(_number("outcomes", each) for each in outcomes.values())
    numbers = {name: _number(name, data[name]) for name in names[:-1] if name != "outcomes"}
    return LogFacts(outcomes=parts, done=_estimate("done", data["done"]), **numbers)


def _between(told: Estimate) -> str:
    return f"{told.value:.4g} ({told.lower:.4g} to {told.upper:.4g})"


def _estimate(name: str, data: Any) -> Estimate:
    _check_entries(name, data, [each.name for each in fields(Estimate)])
    told = Estimate(**{each: _number(f"{name}.{each}", number) for each, number in data.items()})
    if not told.lower <= told.value <= told.upper:
        raise ValueError(f"{name} must be between its bounds, got {shown(data)}.")
    return told


def _check_entries(what: str, data: Any, wanted: Any) -> None:
    if not isinstance(data, dict) or set(data) != set(wanted):
        got = listed(data) if isinstance(data, dict) else shown(data)
        raise ValueError(f"{what} must be {listed(wanted)}, got {got}.")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ValueError(f"{name} must be a finite number, got {shown(value)}.")
    return float(value)


def statement_of(
    cost: Cost,
    epsilon: float,
    *,
    unit: str,
    order: float | None,
    released: str,
    randomness: str | None,
    caveats: Iterable[str] = (),
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the privacy statement of what left of persons.

    Parameters
    ----------
    cost : LaplaceCost or GaussianCost
        Of everything.
    epsilon, order
        The budget, as `privrl.offline.persons.person_cost` takes it.
    released : str
        What left, in words: sums, votes.
    randomness, caveats, details
        As `privrl.envs.privacy_statement` takes them.

    Returns
    -------
    dict
    """
    noise = "Laplace" if isinstance(cost, LaplaceCost) else "Gaussian"
    given: dict[str, Any] = {"delta": 0.0} if order is None else {"order": order}
    return privacy_statement(
        unit=unit_in_words(unit),
        relation=str(cost.relation),
        epsilon=epsilon,
        released=f"{released}, each scaled to a size of 1, with {noise} noise",
        randomness=randomness,
        caveats=caveats,
        details=details,
        **given,
    )
