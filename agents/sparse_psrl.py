"""PSRL for any environment: what noise hides is modelled, and exploring comes before following."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from privrl.agents.psrl import PSRL
from privrl.agents.rewards import HatPosterior, HatRewards, has_dirichlet
from privrl.agents.schedules import Geometric, Schedule, schedule_named
from privrl.agents.setup import TabularSetup
from privrl.agents.sparse_model import SparseModel
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior

_PLANS: Final = 1000  # in a whole run, about
_EXPLORING: Final = 1 / 7  # of a run
_BEFORE: Final = 1 / 100  # of a run, before anything is released
_RATIO: Final = 1.12
_RATIO_OF_EXACT: Final = 1.05  # without privacy; more often gains nothing
_LARGE: Final = 2**21  # entries of a model times steps: a plan takes a tenth of a second
_DOUBT: Final = 0.25  # pseudo-count of what a row has not shown yet


def sparse_schedule(episodes: int, *, private: bool) -> Schedule:
    """Return before which of so many episodes `SparsePSRL` had best draw.

    With privacy, first after a hundredth of them, then whenever they have grown by 12 %; more
    often would cost noise, and less often starve exploration. Without, from the first episode on,
    whenever they have grown by 5 %.
    """
    check_count("episodes", episodes)
    if private:
        return Geometric(_RATIO, first=min(max(1, round(_BEFORE * episodes)), episodes - 1))
    return Geometric(_RATIO_OF_EXACT)


if TYPE_CHECKING:
    from privrl.agents.methods import Method, Task


class SparsePSRL(PSRL):
    """Explore with optimism at first, then follow samples of a sparse posterior.

    The agent for environments of which nothing is known but their size, their horizon and the
    range of their rewards. Its rule:

    1. Up to the first release, actions are uniformly random.
    2. Each released cell, of transitions and of rewards, is filled with a probability that its
       noisy count tells, and what cells like it tell (`privrl.agents.sparse_model`).
    3. About a thousand plans are made in a run, each for a model sampled afresh, which is free (of
       a very large model, one for each release). At first all of them explore, after a seventh of
       the episodes none does.
    4. A plan that explores counts on cells that are probably filled, and takes every row of which
       nothing is known to pay the most and to lead to the best state (R-max, Brafman and
       Tennenholtz, 2002); between such rows chance decides, at every step anew, and each state
       has turns in which they are put off.
    5. A plan that follows takes cells with the probability that they are filled, and a row of which
       nothing is known for one like a known row, one in thirty leading to the best state.
    6. What is deployed, `policy`, is the plan for all that is likelier than not, and pessimistic:
       a cell that does good has to be sure, and a row of which nothing is known pays the least for
       the rest of the episode.

    Parameters
    ----------
    setup : TabularSetup
        See `TabularAgent`. The sampler releases counts: `privrl.samplers.NoisyCounts`, or
        `privrl.samplers.NonPrivate`. The rewards are `HatRewards`, from a sampler of the same kind.
    episodes : int
        How many there will be, a public number >= 1; the agent may be told of more.

    Raises
    ------
    ValueError
        If a sampler or reward model is of another kind, or an argument out of range.
    """

    title = "sparse PSRL"
    look = ("#882255", "d", "-")
    usual_sampler = "noisy-counts:buffered"
    usual_schedule = "auto"
    reward_model = "hat"
    needs_counts = True
    can_resample = False  # it plans afresh between draws by itself
    side_by_side = False
    remembered = ("_episode",)
    episodes: int = fixed()
    derived = ("_model",)

    def __init__(self, setup: TabularSetup, *, episodes: int) -> None:
        self.episodes = check_count("episodes", episodes)
        if not isinstance(setup.rewards, HatRewards):
            raise ValueError(
                f"rewards must be HatRewards, got {shown(setup.rewards)}; it has the same price."
            )
        super().__init__(setup)
        if has_dirichlet(self._sampler.cost):  # said before anything is paid for
            raise _no_counts()
        self._replans = self._plan_starts()
        self._model: SparseModel | None = None
        self._episode = 0

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task."""
        del method
        return cls(setup, episodes=task.episodes)

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return the schedule of that name; its own for "auto"."""
        return (
            sparse_schedule(episodes, private=private) if name == "auto" else schedule_named(name)
        )

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes, of a run of so many, before which the policy may change."""
        draws = self.schedule.starts(episodes)
        return sorted({0, *draws, *(start for start in self._replans if start < episodes)})

    def begin_episode(self, episode: int) -> None:
        """See `TabularAgent.begin_episode`."""
        self._episode = episode
        super().begin_episode(episode)

    def _plan_starts(self) -> frozenset[int]:
        """Return the episodes before which there is a new plan, spread evenly between draws."""
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
        """Make the model once more of what was released."""
        if self._released is not None:
            self._model = self._model_of(*self._released)

    def _model_of(self, transition: Posterior, reward: Posterior) -> SparseModel:
        if not (
            isinstance(transition, NoisyPosterior)
            and isinstance(reward, HatPosterior)
            and isinstance(reward.rows, NoisyPosterior)
        ):
            raise _no_counts()
        paid = HatPosterior(self._flat(reward.rows), reward.grid)
        return SparseModel(self._flat(transition), paid, self.horizon, self.support)

    def _flat(self, rows: NoisyPosterior) -> NoisyPosterior:
        """Return the same with one leading axis, of runs."""
        one_axis = (-1, *rows.counts.shape[len(self.batch_shape) :])
        deviation = np.broadcast_to(rows.deviation, rows.counts.shape)
        return NoisyPosterior(
            rows.counts.reshape(one_axis), deviation.reshape(one_axis), rows.alpha
        )

    def _sampled(self) -> IntArray:
        assert self._model is not None
        chance = max(0.0, 1 - self._episode / (_EXPLORING * self.episodes))
        explore = self._rng.random(math.prod(self.batch_shape)) < chance
        policy, free = self._model.plan(explore, _DOUBT, self._rng)
        # Where no action is free none is left to chance, and any will do.
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
            return super()._plan_to_deploy()  # which refuses
        policies = self._model.mean_plan()
        return policies.reshape(*self.batch_shape, self.horizon, self.n_states)


def _no_counts() -> ValueError:
    return ValueError("sampler must release counts; take NoisyCounts, or NonPrivate.")
