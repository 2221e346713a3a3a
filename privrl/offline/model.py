"""A model, as an environment, from a log of persons."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from privrl.accounting.base import Accountant
from privrl.accounting.targets import DEFAULT_DELTA
from privrl.costs.relations import Relation
from privrl.data.logs import Log
from privrl.data.logs.log import LogSpace
from privrl.data.logs.partitions import PartitionedLog
from privrl.envs.released import MOST_CELLS, Released, check_labels
from privrl.envs.tabular import TabularMDP
from privrl.files.chosen import paid_by
from privrl.numerics.checks import check_is
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.offline.behaviour import estimated_behaviour, release_visits
from privrl.offline.counts import (
    LONGEST,
    ReleasedCounts,
    belief_of,
    by_outcome,
    counts_show,
    of_rewards,
    of_rows,
    release_counts,
)
from privrl.offline.design import FACTS
from privrl.offline.endings import Endings, release_endings
from privrl.offline.facts import release_facts
from privrl.offline.persons import PersonStream, paid_stream, person_cost
from privrl.offline.planning import best_plan
from privrl.offline.saving import statement_of
from privrl.offline.support import check_support
from privrl.offline.synthetic import UNKNOWN, behaviour_in_counts

_RARE: Final = 1e-3  # the least chance of an action that is allowed
_VISITS: Final = 0.06  # of the budget, for how often actions were taken: as `fit_policy` has it
_OVER: Final = "over"  # where the log has no outcomes


def fit_model(
    log: Log | PartitionedLog,
    *,
    epsilon: float | None,
    delta: float = DEFAULT_DELTA,
    order: float | None = None,
    relation: Relation | None = None,
    admissible: BoolArray | None = None,
    behaviour: FloatArray | str | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    rng: Rng = None,
    accountant: Accountant | None = None,
) -> Released:
    """Return a model of what a log's persons went through, to be shared and to be played.

    Parameters
    ----------
    log, epsilon, delta, order, relation, admissible, behaviour, rng, accountant
        As for `fit_policy`.
    state_names, action_names : sequence of str, optional
        Public labels.

    Returns
    -------
    Released
        An environment of ``most_steps`` steps. Where the log is long for its states and actions, it
        has counts of all transitions and rewards; what none shows leads to the outcome "unknown",
        and pays the least. Otherwise, where episodes have outcomes, it has the chances of these by
        state and action, and the next states, by state alone.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If an argument is out of range, or a model of this size cannot be had.
    """
    rng = as_rng(rng)
    # Once: what is left of an iterator after the check is nothing.
    states = None if state_names is None else check_labels("state_names", state_names)
    actions = None if action_names is None else check_labels("action_names", action_names)
    cost = person_cost(epsilon, relation, delta=delta, order=order)
    allowed, chances, uniform = check_support(log, admissible, behaviour)
    if uniform and chances is None:
        chances = np.full((log.n_states, log.n_actions), 1 / log.n_actions)
    if epsilon is None:
        raise ValueError(
            "epsilon must be a number to make a model that can be shared, got None; what is "
            "released without privacy is the data."
        )
    check_model(log, states, actions)
    with paid_stream(log, cost, rng, accountant) as stream:
        tables, said = _released(stream, log, allowed, chances)
        made = Released(
            **tables,
            statement=statement_of(
                stream.cost,
                epsilon,
                unit=log.unit,
                order=order,
                released="sums over persons",
                randomness=randomness_of(rng),
                details=said,
            ),
            state_names=states,
            action_names=actions,
        )
        return paid_by(accountant, made)


def _released(
    stream: PersonStream, log: LogSpace, allowed: BoolArray | None, chances: FloatArray | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables of a `Released`, by name, and what is said of them."""
    facts = release_facts(stream, log)
    means: dict[str, float] = {"persons": round(facts.persons)}
    if log.most_episodes > 1:
        means |= {"episodes": round(facts.episodes, 4)}
    if not log.outcomes or counts_show(stream, log, facts, allowed):
        counts = release_counts(stream, log, facts, 1 - FACTS.share)
        said = {"model": "counts", "noise": _plain(counts.noise)} | means
        mdp, outcomes, deviations, seen = _of_counts(log, counts)
        if chances is None:
            chances = behaviour_in_counts(seen, mdp, facts.episodes)
        chances = _with_outcomes(chances, mdp.n_states)
        tables: dict[str, Any] = {"mdp": mdp, "outcomes": outcomes, "deviations": deviations}
        return tables | {"behaviour": chances}, said
    shown = np.ones((log.n_states, log.n_actions), np.bool_) if allowed is None else allowed
    share = 1 - FACTS.share
    if chances is None:
        share -= _VISITS
        visits, noise = release_visits(stream, log, facts, _VISITS, by_action=True)
        chances = _estimated(visits, noise, shown)
    endings = release_endings(stream, log, facts, share=share, allowed=shown, chances=chances)
    mdp, outcomes, deviations = _of_endings(log, endings)
    tables = {"mdp": mdp, "outcomes": outcomes, "deviations": deviations}
    if allowed is not None:
        rest = np.ones((len(outcomes), log.n_actions), np.bool_)
        tables["admissible"] = np.concatenate([allowed, rest])
    tables["behaviour"] = _with_outcomes(chances, mdp.n_states)
    return tables, {"model": "endings"} | means


def _estimated(visits: FloatArray, noise: float, shown: BoolArray) -> FloatArray:
    """Return chances of actions from noisy visits, none of which is zero where it is allowed."""
    chances = estimated_behaviour(visits, noise, shown).chances
    floored = np.where(shown, np.maximum(chances, _RARE), 0.0)
    return floored / floored.sum(axis=1, keepdims=True)


def _with_outcomes(chances: FloatArray, n_states: int) -> FloatArray:
    """Return chances of actions with a row for each outcome, where nothing is done."""
    n_before, n_actions = chances.shape
    even = np.full((n_states - n_before, n_actions), 1 / n_actions)
    return np.concatenate([chances / chances.sum(axis=1, keepdims=True), even])


def check_model(
    log: LogSpace,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
) -> None:
    """Check what is public of a log, before a model is made from it.

    Raises
    ------
    ValueError
        If a model would be too large, or labels are not what `Released` takes: none is that of an
        outcome, and no outcome is "unknown".
    """
    check_is("log", log, LogSpace, hint="fit_continuous_model takes a ContinuousLog")
    names = log.outcomes or (_OVER,)
    n_states = log.n_states + len(names) + 1
    if n_states**2 * log.n_actions > MOST_CELLS:
        raise ValueError(
            f"log must have at most {MOST_CELLS} transitions to make a model of, got "
            f"{n_states} states and {log.n_actions} actions; fit_policy needs none."
        )
    if log.most_steps * n_states > LONGEST:
        raise ValueError(
            f"most_steps times states must be at most {LONGEST}, got {log.most_steps} and "
            f"{n_states}; let episodes be shorter."
        )
    outcomes = check_labels("outcomes", names)
    if UNKNOWN in outcomes:
        raise ValueError(
            f"outcomes must not be {UNKNOWN!r}, which is how episodes of a model end where no "
            "count shows how; call it otherwise."
        )
    if state_names is not None:
        check_labels("state_names", [*state_names, *outcomes, UNKNOWN], n_states)
    if action_names is not None:
        check_labels("action_names", action_names, log.n_actions)


def _of_counts(
    log: LogSpace, counts: ReleasedCounts
) -> tuple[TabularMDP, tuple[str, ...], FloatArray, FloatArray]:
    """Return the model, its outcomes, deviations, and how often each action was taken."""
    belief = belief_of(counts, log.most_steps)
    rows, reward, known = belief.likely()
    rows = by_outcome(counts, rows)
    with_unknown = np.concatenate([rows, ~known[..., None]], axis=-1)
    least = min(log.reward_range[0], 0.0) * log.most_steps
    mdp = _with_ends(log, with_unknown, np.where(known, reward, least), counts.start)
    deviation = np.where(known, _left_by_noise(log, counts, rows, mdp), 0.0)
    shown = counts.transition * (rows[..., : counts.transition.shape[-1]] > 0)
    often = np.maximum(shown.sum(axis=-1), 0.0)
    return mdp, (*(log.outcomes or (_OVER,)), UNKNOWN), _padded(deviation, mdp.n_states), often


def _left_by_noise(
    log: LogSpace, counts: ReleasedCounts, rows: FloatArray, mdp: TabularMDP
) -> FloatArray:
    """Return what noise and chance leave in what a step is worth, if the best plan follows."""
    n_states = len(counts.start)
    ahead = best_plan(mdp, np.zeros((mdp.n_states, mdp.n_actions)))[1][min(1, mdp.horizon)]
    ahead = ahead[:-1].copy()
    ahead[n_states:] = log.outcome_rewards or 0.0  # what is paid for them is worth that
    variance = of_rows(counts, rows, ahead) + of_rewards(log, counts)
    return np.sqrt(variance)


def _of_endings(log: LogSpace, endings: Endings) -> tuple[TabularMDP, tuple[str, ...], FloatArray]:
    going = 1 - endings.ends.sum(axis=-1)
    onwards = going[..., None] * endings.following[:, None]
    rows = np.concatenate([onwards, endings.ends], axis=-1)
    reward = endings.reward + endings.ends @ np.array(log.outcome_rewards)
    mdp = _with_ends(log, rows, reward, endings.start)
    return mdp, log.outcomes, _padded(endings.deviation, mdp.n_states)


def _with_ends(
    log: LogSpace, rows: FloatArray, reward: FloatArray, started: FloatArray
) -> TabularMDP:
    """Return the model of rows, shape (S, A, size): states from S on are ends, which stay."""
    n_states, n_actions, size = rows.shape
    ends = np.arange(n_states, size)
    transition = np.zeros((size, n_actions, size))
    transition[:n_states] = rows / rows.sum(axis=-1, keepdims=True)
    transition[ends, :, ends] = 1.0
    start = np.maximum(started, 0.0)
    start = np.pad(start if start.sum() > 0 else np.ones(n_states), (0, len(ends)))
    return TabularMDP(transition, _padded(reward, size), start / start.sum(), log.most_steps)


def _padded(values: FloatArray, size: int) -> FloatArray:
    """Return values of states and actions, and 0 for ends."""
    return np.pad(values, ((0, size - len(values)), (0, 0)))


def _plain(values: Sequence[float]) -> list[float]:
    return list(map(float, values))  # rounded, noise might look larger
