"""Sparse PSRL: optimistic exploration, then posterior sampling with a model of the noise."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from privrl.agents.psrl import PSRL
from privrl.agents.rewards import HatPosterior, HatRewards
from privrl.agents.schedules import Geometric, Schedule, schedule_named
from privrl.agents.setup import TabularSetup
from privrl.agents.sparse_model import SparseModel
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count
from privrl.numerics.randomness import secret_rng
from privrl.numerics.typing import FloatArray, IntArray
from privrl.samplers.base import Posterior, takes_cells
from privrl.samplers.noisy_counts import NoisyCounts, NoisyPosterior, NonPrivate
from privrl.samplers.sparse_counts import SparseCounts, SparsePosterior

_PLANS: Final = 1000  # plans in a whole run, approximately
_EXPLORING: Final = 1 / 7  # fraction of a run with optimistic plans
_SEARCHING: Final = 1 / 5  # fraction of optimistic plans after that, until rewards are found
_BEFORE: Final = 1 / 100  # fraction of a run before the first release
_RATIO: Final = 1.12
_RATIO_OF_EXACT: Final = 1.05  # without privacy; a smaller ratio gains nothing
_LARGE: Final = 2**21  # model entries times steps, at which a plan takes 0.1 s
_DOUBT: Final = 0.25  # pseudo-count of the unseen transitions of a row
_OF_COUNTS: Final = (NoisyCounts, NonPrivate, SparseCounts)  # which release counts


def sparse_schedule(episodes: int, *, private: bool) -> Schedule:
    """Return the recommended schedule of `SparsePSRL`.

    With privacy, the first draw is after 1 % of the episodes, then their number grows by 12 %
    between draws: more draws add noise, fewer draws slow down exploration. Without privacy, the
    first draw is before the first episode, and the growth is 5 %.
    """
    check_count("episodes", episodes)
    if private:
        return Geometric(_RATIO, first=min(max(1, round(_BEFORE * episodes)), episodes - 1))
    return Geometric(_RATIO_OF_EXACT)


if TYPE_CHECKING:
    from privrl.agents.methods import Method, Task


class SparsePSRL(PSRL):
    """Explore with optimism at first, then follow samples of a sparse posterior.

    The agent needs to know only the size of an environment, its horizon and its reward range. The
    algorithm is:

    1. Until the first release, actions are uniformly random.
    2. Each released cell of transitions and rewards has a probability that it is filled, given its
       noisy count and those of similar cells (`privrl.agents.sparse_model`).
    3. A run has about a thousand plans, each for a newly sampled model, which is free. (A very
       large model has one plan per release.) The fraction of optimistic plans falls from 1 to 0
       over the first seventh of the episodes. Afterwards it is 1/5 as long as no release shows a
       reward in the upper half of the declared range.
    4. An optimistic plan uses cells that are very probably filled. Unknown rows pay the most and
       lead to the best state (R-max, Brafman and Tennenholtz, 2002). Among unknown rows the action
       is random at each step. In the first seventh, each state postpones them half of the time.
       Later, if all actions of visited states are known, all actions are random: what is still
       hidden may be anywhere. Without noise, half of these plans are random anyway.
    5. Other plans sample cells with their probability of being filled. An unknown row resembles a
       known row, and leads to the best state with probability 0.03.
    6. The deployed policy, `policy`, is pessimistic and uses cells with probability above 1/2:
       favourable cells must be nearly certain, and unknown rows pay the least for the rest of the
       episode.

    Parameters
    ----------
    setup : TabularSetup
        See `TabularAgent`. The sampler releases counts: `privrl.samplers.NoisyCounts`,
        `privrl.samplers.SparseCounts` or `privrl.samplers.NonPrivate`. The rewards are
        `HatRewards`, from a sampler that releases all cells.
    episodes : int
        Planned number of episodes, public, >= 1. More episodes are allowed.
    bins : sequence of int, optional
        How many bins each coordinate has, if states are bins of real coordinates, the last changing
        fastest: a public fact. With noise, rows then share what they know with those of
        neighbouring bins (`privrl.agents.neighbours`).

    Raises
    ------
    ValueError
        If a sampler or the reward model has another type, or an argument is out of range; if the
        bins are for another number of states, or given beside a support.
    """

    title = "sparse PSRL"
    look = ("#882255", "d", "-")
    usual_sampler = "noisy-counts:buffered"
    usual_schedule = "auto"
    reward_model = "hat"
    needs_counts = True
    takes_cells = True
    can_resample = False  # it always samples new models between draws
    side_by_side = False
    remembered = ("_episode",)
    episodes: int = fixed()
    bins: tuple[int, ...] = fixed()
    derived = ("_model",)

    def __init__(self, setup: TabularSetup, *, episodes: int, bins: Sequence[int] = ()) -> None:
        self.episodes = check_count("episodes", episodes)
        self.bins = _checked_bins(bins, setup)
        if not isinstance(setup.rewards, HatRewards):
            raise ValueError(
                f"rewards must be HatRewards, got {shown(setup.rewards)}; its cost is the same."
            )
        super().__init__(setup)
        self._check_released()
        self._replans = self._plan_starts()
        self._model: SparseModel | None = None
        self._episode = 0

    def _check_released(self) -> None:
        """Check what samplers release, without data: after a charge it would be too late."""
        rng, row = secret_rng(), np.zeros((*self.batch_shape, 1, 1, self._rewards.width))
        _rows_of(self._rewards.fresh().update(row, rng))
        if type(self._sampler) not in _OF_COUNTS:  # their tables may be large
            new = self._new.transitions
            none: Any = new.filled if takes_cells(self._sampler) else new.total
            _counts_of(self._sampler.fresh().update(none, rng))

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task."""
        del method
        return cls(setup, episodes=task.episodes, bins=() if setup.support else task.bins)

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return the named schedule, or `sparse_schedule` for "auto"."""
        return (
            sparse_schedule(episodes, private=private) if name == "auto" else schedule_named(name)
        )

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes below ``episodes`` before which the policy may change, sorted."""
        draws = self.schedule.starts(episodes)
        return sorted({0, *draws, *(start for start in self._replans if start < episodes)})

    def _begin_episode(self, episode: int) -> None:
        self._episode = check_count("episode", episode, least=0)
        super()._begin_episode(episode)

    def _plan_starts(self) -> frozenset[int]:
        """Return the episodes of new plans, spread evenly between draws."""
        draws = list(self.schedule.starts(self.episodes))
        each = math.ceil(_PLANS / max(1, len(draws)))
        return frozenset(
            start + (end - start) * part // each
            for start, end in pairwise([*draws, self.episodes])
            for part in range(each)
        )

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        self._model = self._model_of(transition, reward)
        return self._sampled()

    def restored(self) -> None:
        """Rebuild the model from the released posteriors."""
        if self._released is not None:
            self._model = self._model_of(*self._released)

    def _model_of(self, transition: Posterior, reward: Posterior) -> SparseModel:
        counts, (rows, grid) = _counts_of(transition), _rows_of(reward)
        if isinstance(counts, NoisyPosterior):
            counts = self._flat(counts)
        paid = HatPosterior(self._flat(rows), grid)
        return SparseModel(counts, paid, self.horizon, self.support, self.bins)

    def _flat(self, rows: NoisyPosterior) -> NoisyPosterior:
        """Return the posterior with one leading axis, of runs."""
        one_axis = (-1, *rows.counts.shape[len(self.batch_shape) :])
        deviation = np.broadcast_to(rows.deviation, rows.counts.shape)
        return NoisyPosterior(
            rows.counts.reshape(one_axis), deviation.reshape(one_axis), rows.alpha
        )

    def _sampled(self) -> IntArray:
        assert self._model is not None
        chance = max(0.0, 1 - self._episode / (_EXPLORING * self.episodes))
        often = chance or _SEARCHING * ~self._model.found
        explore = self._rng.random(math.prod(self.batch_shape)) < often
        policy, free = self._model.plan(explore, _DOUBT, self._rng, search=chance == 0)
        # Where no action is free, -1 does not occur, so that any value is valid.
        free |= ~free.any(axis=-1, keepdims=True)
        self._free = free.reshape(*self.batch_shape, self.n_states, self.n_actions)
        return policy.reshape(*self.batch_shape, self.horizon, self.n_states)

    def _between_draws(self, episode: int) -> None:
        if self._model is None or episode not in self._replans:
            return
        if self._model.size <= _LARGE * math.prod(self.batch_shape):
            self._follow(self._sampled())

    def _plan_to_deploy(self) -> IntArray:
        if self._model is None:
            return super()._plan_to_deploy()  # raises an error
        policies = self._model.mean_plan()
        return policies.reshape(*self.batch_shape, self.horizon, self.n_states)


def _checked_bins(bins: Sequence[int], setup: TabularSetup) -> tuple[int, ...]:
    checked = tuple(check_count("bins", number) for number in bins)
    if checked and (math.prod(checked) != setup.n_states or setup.support is not None):
        raise ValueError(
            f"bins must multiply to the {setup.n_states} states, of a setup without a support, got "
            f"{shown(bins)}; leave them out where states have no order."
        )
    return checked


def _counts_of(transition: Posterior) -> NoisyPosterior | SparsePosterior:
    if isinstance(transition, NoisyPosterior | SparsePosterior):
        return transition
    raise ValueError("sampler must release counts; take NoisyCounts, or NonPrivate.")


def _rows_of(reward: Posterior) -> tuple[NoisyPosterior, FloatArray]:
    """Return the noisy counts of each row of rewards, and the reward of each cell."""
    if isinstance(reward, HatPosterior) and isinstance(reward.rows, NoisyPosterior):
        return reward.rows, reward.grid
    raise ValueError(
        "rewards must have a sampler that releases all counts; take NoisyCounts, or NonPrivate."
    )
