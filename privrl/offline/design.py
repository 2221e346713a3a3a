"""The constants of learning from logs, and on what they were chosen.

None follows from a log. Unless a class says otherwise, its constants were chosen on the sepsis
simulator (Oberst and Sontag 2019; 15, 30, 65 and 80 % random actions) and on seven random clinics:
``clinics("set")`` of ``docs/make/log_studies/worlds.py``. "Limitations" of ``docs/logs.md`` names
the worlds that judge. Shares are parts of each person's budget. "Deviations" count standard
deviations of the noise, and a signal is what an action is taken to do over that noise.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FactsDesign:
    """Facts of a log. The intervals are such that 95 of 100 hold; the page of results measures."""

    share: float = 0.02  # for the facts
    deviations: float = 2.2  # on each side of an interval, for normal laws and Laplace's
    chosen: float = 2.0  # times as far below, where a value is the largest of many noisy ones


@dataclass(frozen=True)
class LearningDesign:
    """The choice between the behaviour policy, votes, rounds and popular actions.

    ``by_returns`` was also chosen on ICU-Sepsis at epsilon 10, and the least signals also on logs
    with 5 and 50 % random actions, after those had been looked at.
    """

    moments: float = 0.01  # share, for how large differences are
    visits: float = 0.03  # share, for who was where; more from those who have more left,
    support: float = 0.1  # and where it also tells which actions there are
    effect: float = 0.15  # of a difference's deviation: how much what an action does differs
    in_all: float = 1 / 3  # of that: what an action does in all states alike
    of_states: float = 1.5  # times that: how much states differ
    step: float = 2.0  # how far values move, times what one step ahead says
    more: float = 2.0  # deviations of the values by which a person's sum may grow
    nothing: float = 0.004  # signal below which a behaviour is not looked at either
    faint: float = 0.02  # signal below which nothing is better than uniform actions,
    harmful: float = 0.07  # and below which votes may be worse than an expert
    weak: float = 0.3  # and below which an expert is trusted unless refuted
    # Rounds before the last, by the strength of the signal below which they are taken.
    rounds: tuple[tuple[float, tuple[float, ...]], ...] = (
        (0.7, ()),
        (1.5, (0.2,)),
        (float("inf"), (0.1, 0.1, 0.1)),
    )
    by_returns: tuple[float, float] = (0.7, 2.5)  # signals between which returns come first
    returns: float = 0.12  # share, for returns,
    after_returns: tuple[float, ...] = (0.15,)  # rounds after them, before the last,
    slope: float = 0.6  # and states differ by this much of what they did, when all do better
    rounds_without_privacy: int = 12
    unsure: float = 0.2  # doubt about the skew from which more is asked
    badly: float = 0.02  # share, for whether those who were treated fared badly
    confidence: float = 0.98  # of each bound: both hold in 95 of 100, and squares are noisy
    few_actions: int = 3  # of each state, where it is not known which there are
    gains: tuple[float, float] = (0.6, 1.7)  # what is gained, times what is promised at first order
    futures: int = 64  # of a vote
    # Shares for moves: without returns, with them, and with known propensities.
    kept: tuple[float, float, float] = (0.3, 0.5, 0.7)
    least: float = 1e-6  # of the largest reward: persons' sums are not smaller


@dataclass(frozen=True)
class PopularityDesign:
    """The choice to follow popular actions; also chosen on half-expert clinics a, c and e."""

    first: tuple[float, float] = (0.06, 0.1)  # shares, for a first look: more where noise is louder
    clear: float = 0.5  # noise on a state's mean number of visits, that a first look aims at
    skewed: float = 0.015  # skew, from 0 to 1, below which a behaviour policy counts as uniform
    even: float = 0.025  # skew, surely, below which actions count as taken uniformly
    expert: float = 0.15  # skew, surely, from which votes are worse than the most frequent action
    better: float = 4.0  # times what actions differ by: how much better frequent ones must be else
    leaning: float = 0.06  # share, for whether popular actions are better
    parts: tuple[float, float, float] = (0.6, 0.2, 0.2)  # of that, for its three sums
    confounded: float = 1 / 24  # of how far returns are: how much states differ in them
    leanings: float = 0.3  # of how far returns are from their mean: how large leanings are
    least: float = 1e-3  # deviations of a step by which popular actions are better, unless refuted


@dataclass(frozen=True)
class ReturnsDesign:
    """Returns as first values; also chosen on twelve more clinics of these laws."""

    differ: float = 0.2  # of the deviation of outcomes: how much states differ in what follows
    moves: float = 0.1  # weight of the moves of those who pay most for their outcome
    heard: float = 0.3  # of moves to a state, at the least: else few would speak for many
    iterations: int = 8


@dataclass(frozen=True)
class CountsDesign:
    """Plans from noisy counts, and when noise allows them."""

    points: int = 11  # of the range of rewards, between which each is split
    transitions: float = 2 / 3  # share, the rest is for rewards
    starts: float = 0.03  # share
    sizes: float = 0.02  # share, for how large persons are
    long: float = 2.0  # times the mean size of a person: what is counted of one
    shown: float = 2.5  # deviations above which a next state is there
    part: float = 0.1  # a next state of that chance
    shows: float = 2.0  # has to show in so many deviations
    dense: float = 20.0  # times that
    often: float = 100.0  # steps of each state and action, whatever the noise


@dataclass(frozen=True)
class EndingsDesign:
    """Episodes that pay by how they end."""

    frequent: float = 0.2  # share, paid for the cell of an outcome that is frequent
    against: float = 0.1  # of a cell, with which frequent outcomes count against the rarest
    rewards: float = 0.2  # of what is left, for rewards on the way
    iterations: int = 4
    doubt: float = 2.5  # deviations that a next state has to be above
    effect: float = 0.15  # of the deviation of what ends a step: how much actions differ


@dataclass(frozen=True)
class BehaviourDesign:
    """The estimated behaviour policy."""

    part: float = 0.5  # of the steps that a person has in the mean: so many are counted
    beyond: float = 0.05  # how far chances are from the model's
    points: int = 24  # of the grid of a leader's chance
    iterations: int = 30
    excess: tuple[float, float] = (0.3, 0.3)  # mean and deviation of squared chances, beforehand


@dataclass(frozen=True)
class EvaluationDesign:
    """Off-policy evaluation."""

    count: float = 0.05  # share, for how many persons and episodes there are
    squares: float = 0.15  # share, where squares cost something


FACTS: Final = FactsDesign()
LEARNING: Final = LearningDesign()
POPULARITY: Final = PopularityDesign()
RETURNS: Final = ReturnsDesign()
COUNTS: Final = CountsDesign()
ENDINGS: Final = EndingsDesign()
BEHAVIOUR: Final = BehaviourDesign()
EVALUATION: Final = EvaluationDesign()
