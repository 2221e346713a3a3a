"""The setup of a tabular agent: public facts of the task, samplers, schedule and accountant."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.targets import ApproxDP, Target
from privrl.agents.rewards import RewardModel
from privrl.agents.schedules import Schedule, check_schedule
from privrl.costs.base import BatchCost, Cost
from privrl.costs.relations import ReplaceEpisode, check_name, steps_of
from privrl.envs.support import Support
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_count, check_does, check_is, check_truth
from privrl.numerics.randomness import Rng
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.samplers.base import Sampler, check_table, damps


@dataclass(frozen=True, eq=False)
class TabularSetup:
    """The settings that all tabular agents share.

    Settings of one agent only are arguments of its class.

    Parameters
    ----------
    n_states, n_actions, horizon : int
        Public facts of the task.
    sampler : Sampler
        Releases the transition counts. The agent works on a fresh copy. Agents that release
        nothing need none.
    rewards : RewardModel
        Releases the rewards, or knows them. The agent works on a fresh copy. Agents that release
        nothing need none.
    rng : numpy.random.Generator, int or None
        Source of all randomness of the agent.
    schedule : Schedule, optional
        Episodes before which to draw; by default all.
    accountant : RdpAccountant, PldAccountant or LedgerAccountant, optional
        Holds the budget, and is charged before each draw. By default the agent makes one without a
        budget. Several agents may share an accountant; their charges add up.
    target : Target, optional
        Target of the calibration. The agent's statement uses its delta.
    batch_shape : tuple of int
        Leading axes of independent runs, starting with the axes of the samplers. Each run has
        separate data (two runs on the same data would spend twice) and a separate policy.
    terminates : bool
        Whether an episode can end before the horizon. If so, each row of the transition table
        has one more cell, "the episode is over", with value 0.
    support : Support, optional
        The possible next states, a public fact. Tables then have cells for these only, which means
        fewer cells to learn and less noise.
    known_rows : array, shape (S, A, K), optional
        Public transition probabilities over the K cells of a row; NaN in rows to be learned.

    Raises
    ------
    ValueError
        If a size is not an integer >= 1, or another argument has the wrong type; if the cost of a
        sampler is for another table or for shorter episodes; or if the support or the known rows
        have the wrong size or are not probabilities.
    """

    n_states: int
    n_actions: int
    horizon: int
    _: KW_ONLY
    sampler: Sampler | None = None
    rewards: RewardModel | None = None
    rng: Rng = None
    schedule: Schedule | None = None
    accountant: KeepsJournal | None = None
    target: Target | None = None
    batch_shape: tuple[int, ...] = ()
    terminates: bool = False
    support: Support | None = None
    known_rows: ArrayLike | None = None

    def __post_init__(self) -> None:
        for name in ("n_states", "n_actions", "horizon"):
            self._put(name, check_count(name, getattr(self, name)))
        self._put("batch_shape", tuple(check_count("batch_shape", n) for n in self.batch_shape))
        check_truth("terminates", self.terminates)
        if self.rewards is not None:
            check_does(
                "rewards",
                self.rewards,
                "a reward model, such as KnownRewards or HatRewards",
                "fresh",
                "encode",
            )
            self._check_relation(self.rewards.fresh().cost)
        if self.sampler is not None:
            check_table("sampler", self.sampler, "transitions")
            self._check_relation(self.sampler.fresh().cost)
        if self.schedule is not None:
            check_schedule("schedule", self.schedule)
        if self.accountant is not None:
            check_is("accountant", self.accountant, KeepsJournal, hint="RdpAccountant() is one")
            if isinstance(self.target, ApproxDP):  # at whose delta a policy states its cost
                with np.errstate(all="ignore"):
                    self.accountant.unlimited().epsilon(self.target.delta)
        if self.support is not None:
            self._check_support(self.support)
        if self.known_rows is not None:
            self._put("known_rows", self._checked_rows(self.known_rows))
        self._check_loops()

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def cells(self) -> int:
        """Number of cells in a row of the transition table."""
        return self.n_states + self.terminates if self.support is None else self.support.width

    @property
    def is_damped(self) -> bool:
        """Whether the cost of the sampler assumes damped self-loops."""
        return getattr(self.sampler, "loops", None) is not None or damps(self.sampler)

    def _check_support(self, support: Support) -> None:
        check_is("support", support, Support, hint="privrl.envs.Support.from_mask(mask) makes one")
        sizes = (*support.next_states.shape[:2], support.n_next)
        wanted = (self.n_states, self.n_actions, self.n_states + self.terminates)
        if sizes != wanted:
            raise ValueError(
                f"support must be for the agent's states, actions and next states, {wanted}, got "
                f"{sizes}."
            )

    def _checked_rows(self, known_rows: ArrayLike) -> FloatArray:
        rows = as_floats("known_rows", known_rows).copy()
        shape = self.n_states, self.n_actions, self.cells
        if rows.shape != shape:
            raise ValueError(f"known_rows must have shape {shape}, got {rows.shape}.")
        known = rows[~np.isnan(rows).any(axis=-1)]
        whole = np.isnan(rows).any(axis=-1) == np.isnan(rows).all(axis=-1)
        if not whole.all() or not ((known >= 0).all() and np.allclose(known.sum(-1), 1, atol=1e-9)):
            raise ValueError(
                "known_rows must be probabilities that sum to 1, or NaN in the whole row; "
                "normalise them."
            )
        rows.flags.writeable = False
        return rows

    def _check_loops(self) -> None:
        """Check the cells damped by the sampler, which its guarantee depends on."""
        if damps(self.sampler) and self.support is not None:
            raise ValueError(
                "sampler must get the loops of a table of possible next states, got "
                f"{shown(self.sampler)}; take NoisyCounts with a support."
            )
        if not self.is_damped or damps(self.sampler):
            return
        mine = self_loops(
            self.n_states, self.n_actions, terminates=self.terminates, support=self.support
        )
        if not np.array_equal(getattr(self.sampler, "loops"), mine):  # noqa: B009 # is_damped
            raise ValueError(
                "sampler must have the loops of the agent's own transition table; make them with "
                "privrl.agents.setup.self_loops."
            )

    def _check_relation(self, cost: Cost | None) -> None:
        """Check that a relation is what its name says, and covers episodes of this length.

        And that each row of a stack of samplers is for a run, not for a state.
        """
        if cost is None:
            return
        if isinstance(cost, BatchCost) and self.batch_shape[:1] != (len(cost.rows),):
            raise ValueError(
                f"batch_shape must begin with {len(cost.rows)}, the runs of the stacked samplers, "
                f"got {self.batch_shape}."
            )
        relation = check_name(cost.relation)
        by_name = steps_of(relation.name)  # a relation of any class may have that name
        lengths = [] if by_name is None else [by_name]
        lengths += [relation.horizon] if isinstance(relation, ReplaceEpisode) else []
        if any(length < self.horizon for length in lengths):
            raise ValueError(
                f"relation must be about episodes of at least {self.horizon} steps, got "
                f"{str(relation)!r}; use ReplaceEpisode({self.horizon})."
            )


def with_public_facts(
    rows: FloatArray, support: Support | None, known_rows: ArrayLike | None
) -> FloatArray:
    """Return rows, shape (..., S, A, K), with public zeros and public rows filled in."""
    if support is not None:
        valid = support.valid
        rows = np.where(valid, rows, 0.0)
        total = rows.sum(axis=-1, keepdims=True)
        # Up to rounding, a draw may put all its mass on cells outside the support.
        rows = np.where(total > 0, rows, valid)
        rows /= rows.sum(axis=-1, keepdims=True)
    if known_rows is not None:
        rows = np.where(np.isnan(known_rows), rows, known_rows)
    return rows


def self_loops(
    n_states: int, n_actions: int, *, terminates: bool = False, support: Support | None = None
) -> BoolArray:
    """Return the cells of self-loops in a transition table, bool of shape (S, A, K).

    Raises
    ------
    ValueError
        If the support is for other states or actions.
    """
    if support is not None:
        check_is("support", support, Support)
        if support.next_states.shape[:2] != (n_states, n_actions):
            raise ValueError(
                f"support must be for {n_states} states and {n_actions} actions, got "
                f"{support.next_states.shape[:2]}."
            )
        return support.next_states == np.arange(n_states)[:, None, None]
    check_count("n_states", n_states)
    check_count("n_actions", n_actions)
    check_truth("terminates", terminates)
    same = np.eye(n_states, n_states + terminates, dtype=np.bool_)
    return np.repeat(same[:, None], n_actions, axis=1)
