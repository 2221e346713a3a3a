"""A policy from a log of persons, by one of several ways that released facts choose between.

Counts of all transitions are planned for, where they show. Else the most frequent action is
followed where that is expected to gain most (`privrl.offline.popularity`), or values are learned in
rounds (`privrl.offline.learning`). Where noise hides which action is best, the behaviour policy
stays.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from privrl.accounting.base import Accountant
from privrl.accounting.targets import DEFAULT_DELTA
from privrl.costs.base import Cost
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import Relation
from privrl.data.logs import Log
from privrl.data.logs.log import LogSpace
from privrl.data.logs.partitions import PartitionedLog
from privrl.files.chosen import MayBeChosen, paid_by
from privrl.files.fixed import own_arrays
from privrl.files.html import InHtml
from privrl.numerics.checks import check_is
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.counts import (
    LARGEST,
    LONGEST,
    ReleasedCounts,
    belief_of,
    counts_show,
    release_counts,
    table_size,
    value_in_counts,
)
from privrl.offline.design import FACTS
from privrl.offline.facts import Estimate, LogFacts, Task, release_facts
from privrl.offline.learning import Kind, Learned, learn
from privrl.offline.persons import PersonStream, paid_stream, person_cost
from privrl.offline.support import check_discount, check_support

_RARITY = 0.4  # of the range of rewards, by the root of how often an action was taken


@dataclass(frozen=True, eq=False)
class LoggedPolicy(MayBeChosen, InHtml):
    """A policy from a log, and what left on the way to it.

    Attributes
    ----------
    action : array of int, shape (S,) or, of kind "counts", (H, S)
        What to do in each state; -1 for the behaviour policy.
    kind : "behaviour", "popular", "vote", "rounds" or "counts"
        How it was made. "behaviour": noise hides which action is best, so nothing is recommended.
        "popular": the action that the behaviour policy takes most often, where it is clear which
        that is. "vote": from one vote. "rounds": values were learned first. "counts": all
        transitions were counted, and planned for.
    values : array, shape (S,)
        The values that the last table was summed under; NaN of kind "counts".
    allowed : array of bool, shape (S, A)
        Between which actions it chose.
    facts : LogFacts
        What else left; ``facts.done`` is the mean return of the behaviour policy.
    value : Estimate or None
        What an episode earns, from what left alone: see the notes. None where only a vote left, or
        with a discount.
    signal : float
        What an action is taken to do over the noise on it, in the first round.
    cost : Cost
        Of everything, for a person.
    unit : str
        What a person is, see `LogSpace`.
    randomness : str, optional
        The kind of generator, from `privrl.numerics.randomness.randomness_of`.

    Notes
    -----
    Values are of the same persons that the policy was chosen by; `evaluate_policy` asks others. Of
    kind "counts" a value is that of the plan in the likely world of the counts, with what noise and
    chance leave, to first order. Of kind "rounds" it is what was done and, beyond it, what the
    smoothed sums promise for the chosen actions where persons were: also to first order, because
    the policy takes persons elsewhere: bounds allow for 0.6 to 1.7 times that beside the noise, and
    ``docs/results/logs.md`` says how often they hold. That is so for ``behaviour="uniform"``; for
    other behaviour policies nothing bounds how far off it is, and the bounds are all that is
    possible. So they are of kind "popular", but where propensities are public: then leftover
    budgets pay for importance sampling, as in `evaluate_policy`. Of kind "behaviour" it is the
    value of the behaviour policy.
    """

    action: IntArray
    kind: Kind
    values: FloatArray
    allowed: BoolArray
    facts: LogFacts
    value: Estimate | None
    signal: float
    cost: Cost
    unit: str = "person"
    randomness: str | None = None

    def __post_init__(self) -> None:
        own_arrays(self, "action", "values", "allowed")


def fit_policy(
    log: Log | PartitionedLog,
    *,
    epsilon: float | None,
    delta: float = DEFAULT_DELTA,
    order: float | None = None,
    relation: Relation | None = None,
    discount: float = 1.0,
    admissible: BoolArray | None = None,
    behaviour: FloatArray | Literal["uniform"] | None = None,
    rng: Rng = None,
    accountant: Accountant | None = None,
) -> LoggedPolicy:
    """Return a policy that improves on the behaviour policy, as far as the log shows.

    Parameters
    ----------
    log : Log or PartitionedLog
        What persons went through.
    epsilon, delta, order, relation
        The budget of a person, with all of their episodes, see `person_cost`. By default (epsilon,
        1e-5), and a person is added or removed.
    discount : float
        In (0, 1]: what a reward counts one step later.
    admissible : array of bool, shape (S, A), optional
        Which actions are admissible in each state, if that is public. By default those that the log
        shows, as far as noise lets it.
    behaviour : array, shape (S, A), or "uniform", optional
        The chances of actions that were followed, if that is public, as in a trial: ``"uniform"``
        over admissible ones. By default they are estimated.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged once, before anything leaves.

    Returns
    -------
    LoggedPolicy

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If an argument is out of range, or has another shape.
    """
    rng = as_rng(rng)
    cost = person_cost(epsilon, relation, delta=delta, order=order)
    discount = check_discount(discount)
    check_policy(log, cost, discount)
    allowed, chances, uniform = check_support(log, admissible, behaviour)
    with paid_stream(log, cost, rng, accountant) as stream:
        facts = release_facts(stream, log)
        if discount == 1 and counts_show(stream, log, facts, allowed):
            learned = _by_counts(log, stream, facts, allowed)
        elif not stream.sums:
            learned = _nothing(log, facts, allowed)
        else:
            task = Task(stream, log, facts, discount, allowed, chances)
            learned = learn(task, log, balanced=uniform)
        policy = LoggedPolicy(**vars(learned), facts=facts, cost=stream.cost, unit=log.unit)
        return paid_by(accountant, replace(policy, randomness=randomness_of(rng)))


def check_policy(log: LogSpace, cost: Cost, discount: float) -> None:
    """Check what is public of a log, before a policy is made from it.

    Raises
    ------
    ValueError
        If the noise does not go with the discount or the sizes, a plan would be too long, or
        nothing is earned.
    """
    check_is("log", log, LogSpace, hint="fit_continuous_model takes a ContinuousLog")
    if not any((*log.step_rewards, *log.outcome_rewards)):
        raise ValueError(
            "log must have rewards, got none that is not 0: no action is better than others; give "
            "a column of them, or outcome_rewards."
        )
    if log.n_states * log.n_actions > LONGEST:
        raise ValueError(
            f"states times actions must be at most {LONGEST}, got {log.n_states} and "
            f"{log.n_actions}; make them coarser."
        )
    counts = table_size(log) <= LARGEST and discount == 1
    if isinstance(cost, GaussianCost) and not counts:
        raise ValueError(
            f"order must be left out for a discount or more than {LARGEST} possible "
            f"transitions, got {log.n_states} states, {log.n_actions} actions and a discount of "
            f"{discount:g}; Laplace noise hides what does not need all of them."
        )
    if counts and log.most_steps * log.n_states > LONGEST:
        raise ValueError(
            f"most_steps times states must be at most {LONGEST} where a plan for each step may be "
            f"made, got {log.most_steps} and {log.n_states}; let episodes be shorter."
        )


def _by_counts(
    log: LogSpace, stream: PersonStream, facts: LogFacts, allowed: BoolArray | None
) -> Learned:
    """Plan for released counts, pessimistically where they show nothing."""
    counts = release_counts(stream, log, facts, 1 - FACTS.share)
    belief = belief_of(counts, log.most_steps, allowed)
    allowed = np.ones((log.n_states, log.n_actions), np.bool_) if allowed is None else allowed
    action = belief.mean_plan(_rarity(log, counts).T[:, None])[0]
    # Where nothing is known an action that is not there may be as good as any.
    action = np.where(allowed[np.arange(log.n_states), action], action, -1)
    value = value_in_counts(log, counts, belief, action)
    return Learned(action, "counts", _no_values(log), allowed, math.inf, value)


def _rarity(log: LogSpace, counts: ReleasedCounts) -> FloatArray:
    """Return by how much less is to be expected of an action for being rare, shape (S, A).

    Else what was tried a few times and went well by chance would be preferred to what was done in
    most cases. Actions that are at least half as frequent as the most frequent one are not rare.
    """
    low, high = log.reward_range
    often = np.maximum(counts.transition.sum(axis=-1), max(1.0, counts.noise[0]))
    error = 1 / np.sqrt(often)
    beyond = np.maximum(error - math.sqrt(2) * error.min(axis=1, keepdims=True), 0.0)
    return _RARITY * (high - low) * beyond


def _nothing(log: LogSpace, facts: LogFacts, allowed: BoolArray | None) -> Learned:
    allowed = np.ones((log.n_states, log.n_actions), np.bool_) if allowed is None else allowed
    action = np.full(log.n_states, -1, np.intp)
    return Learned(action, "behaviour", _no_values(log), allowed, 0.0, facts.done)


def _no_values(log: LogSpace) -> FloatArray:
    return np.full(log.n_states, np.nan)
