"""What tabular agents share: they count, release by schedule, and plan from what was released.

An agent is told what happened (`privrl.agents.observer`), and its policy is computed from released
tables alone. What distinguishes agents is how they plan.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from os import PathLike
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.ledger import Ledger
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import DEFAULT_DELTA, ApproxDP, RenyiDP, Target
from privrl.agents import checkpoints
from privrl.agents.observer import Observer
from privrl.agents.policies import Action, Policy, Step
from privrl.agents.rewards import RewardModel
from privrl.agents.schedules import EveryEpisode, Schedule, check_schedule
from privrl.costs.base import Cost, is_fixed
from privrl.costs.relations import PaperStep, ReplaceEpisode
from privrl.envs.planning import best_actions, plan_support
from privrl.envs.support import Support
from privrl.files.fixed import fixed
from privrl.files.html import table
from privrl.numerics.checks import as_floats, check_count, check_is, check_rng, check_truth
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import SECRET, Rng, as_rng, randomness_of, secret_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Draw, Posterior, Sampler, check_table

if TYPE_CHECKING:  # they train agents
    from privrl.agents.resuming import Checkpoint
    from privrl.agents.training import Callback, Environment

_STEPS_AT_ONCE = 2**12  # steps kept one by one between episodes; more are counted, while in cache
Paid = tuple[tuple[Cost, int], ...]
"""What draws cost, and how many in a row cost the same."""


class TabularAgent(Observer, ABC):
    """Count transitions and rewards, release them when the schedule says, follow a policy.

    Parameters
    ----------
    n_states, n_actions, horizon : int
        Public facts of the task.
    sampler : Sampler
        Releases the transition counts. The agent works on a fresh copy.
    rewards : RewardModel
        Releases the rewards, or knows them. The agent works on a fresh copy.
    rng : numpy.random.Generator, int or None
        All of the agent's randomness.
    schedule : Schedule
        Before which episodes to draw.
    accountant : RdpAccountant, PldAccountant or LedgerAccountant, optional
        Is charged for every draw before the draw is made, and holds the budget. By default one
        without a budget. Several agents may share it: each adds to the same total.
    batch_shape : tuple of int
        Leading axes of independent runs, each with data of its own (two runs on the same data
        would spend twice) and its own policy; the samplers' axes come first among them.
    terminates : bool
        Whether an episode can end before the horizon. If so, every row of the transition table
        has one more cell, "the episode is over", worth nothing from there on.
    support : Support, optional
        Which next states are possible, a public fact. Tables then have a cell for each of
        those only: fewer cells to learn, and less noise.
    known_rows : array, shape (S, A, K), optional
        Transition probabilities that are public, over the K cells of a row; NaN in rows that
        are to be learned.

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, or another argument of the wrong kind; if
        the samplers state what they cost for another table, or for shorter episodes; or if the
        support or the known rows are of another size or no probabilities.

    Notes
    -----
    An agent that has observed or drawn anything is not copied: a copy would go on with what one
    has paid for, and enter its records once more. A copy of an unused one has samplers, an
    accountant and random numbers of its own. None is pickled: two that are loaded from one file
    would have the same noise, and what noise hides, their difference would show. `save` and `load`
    are for one agent that goes on from where it was.

    Attributes
    ----------
    episodes_done : int
        How many episodes it has been trained for, as whoever trains it has counted.
    env : gymnasium.Env, gymnasium.vector.VectorEnv, TabularMDP or None
        Where `learn` lets it learn; None if that was never said.
    """

    remembered: ClassVar[tuple[str, ...]] = (
        "_sampler", "_draws", "_paid", "_released", "_behaviour", "_free", "_policy",
        "episodes_done",
    )  # fmt: skip
    derived: ClassVar[tuple[str, ...]] = ("_actions", "_deployed")
    schedule: Schedule = fixed()
    accountant: KeepsJournal = fixed()

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        horizon: int,
        *,
        sampler: Sampler,
        rewards: RewardModel,
        rng: Rng = None,
        schedule: Schedule | None = None,
        accountant: KeepsJournal | None = None,
        batch_shape: tuple[int, ...] = (),
        terminates: bool = False,
        support: Support | None = None,
        known_rows: ArrayLike | None = None,
    ) -> None:
        super().__init__(
            n_states,
            n_actions,
            horizon,
            rewards=rewards,
            rng=rng,
            batch_shape=batch_shape,
            terminates=terminates,
            support=support,
        )
        self.schedule = check_schedule("schedule", EveryEpisode() if schedule is None else schedule)
        self.accountant = RdpAccountant() if accountant is None else accountant
        check_is("accountant", self.accountant, KeepsJournal, hint="RdpAccountant() is one")
        check_table("sampler", sampler, "transitions")
        self._sampler = sampler.fresh()
        self._check_relation(self._sampler.cost, self._rewards.cost)
        self._damped |= self._check_loops(sampler)
        self._known_rows = None if known_rows is None else self._check_rows(known_rows)
        self._draws = 0
        self._paid: Paid = ()
        self._target: Target | None = None  # what its noise is calibrated to, if that is known
        self._released: tuple[Posterior, Posterior] | None = None
        self._behaviour: IntArray | None = None
        self._free: BoolArray | None = None
        self._policy: IntArray | None = None
        self._actions: list[list[int]] | None = None  # the policy once more, quicker to look up
        self._noise, self._lock = _noise_of(self._rng), RLock()
        self._entered: checkpoints.Draws | None = None
        self._half_done: str | None = None  # what was begun and not ended
        self.episodes_done = 0
        self.env: Environment | None = None
        self._deployed: tuple[IntArray, Policy] | None = None  # of which array

    def _facts(self) -> dict[str, str]:
        """Return what is public of it, for people."""
        return {
            "sizes": f"{self.n_states} states, {self.n_actions} actions, {self.horizon} steps",
            "done": f"{self.episodes_done:,} episodes, {self.draws} draws",
            **self.accountant.facts(),
        }

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {fact}" for name, fact in self._facts().items())
        return f"<{type(self).__name__} {shown}>"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._facts().items())

    @property
    def sampler(self) -> Sampler:
        """A sampler of the transitions with the agent's settings that has seen nothing."""
        return self._sampler.fresh()

    @property
    def draws(self) -> int:
        """How often the agent has drawn."""
        return self._draws

    @property
    def free(self) -> BoolArray | None:
        """Which actions -1 in the policy stands for, shape (..., S, A); None for all."""
        return self._free

    @property
    def behaviour(self) -> IntArray:
        """Actions in force by step and state, shape (..., H, S); post-processing of releases.

        -1 stands for any action that is `free`, uniformly at random.
        """
        if self._behaviour is None:
            raise ValueError("behaviour does not exist yet; call begin_episode(0) first.")
        return self._behaviour

    @property
    def policy(self) -> IntArray:
        """What to deploy, shape (..., H, S): the best policy for the mean of what was released.

        Not what the agent does now, which may be one sample, or exploring: that is `behaviour`.
        """
        if self._policy is None:
            self._policy = self._plan_to_deploy()
        return self._policy

    @property
    def released(self) -> tuple[Posterior, Posterior] | None:
        """The last released posteriors of transitions and of rewards, or None before the first."""
        return self._released

    @property
    def rng(self) -> np.random.Generator:
        """The agent's randomness."""
        return self._rng

    def learn(
        self,
        episodes: int | None = None,
        *,
        env: "Environment | None" = None,
        rng: Rng = None,
        callback: "Callback | None" = None,
        checkpoint: "Checkpoint | None" = None,
    ) -> Self:
        """Learn in an environment, and return the agent.

        A second call goes on where the first one stopped, under the same accountant: what was paid
        for is not paid again, and what comes is charged to the same budget.

        Parameters
        ----------
        episodes : int, optional
            How many more, >= 1; by default what is left of those that the agent was made for.
        env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP, optional
            Where, from now on; by default as before, or where `PSRL.private` made it for.
        rng : numpy.random.Generator, int or None
            The environment's randomness (the agent has its own); by default secret, see
            `privrl.secret_rng`.
        callback : callable, optional
            Is called with a `Stretch` after each stretch of episodes under one policy. What was
            earned is kept nowhere else: it is not private.
        checkpoint : Checkpoint, optional
            Where it is saved, and gone on with, see `privrl.experiments.train`.

        Returns
        -------
        TabularAgent
            The same agent; `predict` asks its policy.

        Raises
        ------
        BudgetExceeded
            If the agent's budget does not last.
        ValueError
            If there is no environment, it does not fit, so many episodes need more draws than are
            planned for, or nothing says how many.
        """
        from privrl.agents.training import run  # noqa: PLC0415 # it trains agents

        env = self.env if env is None else env
        if env is None:
            raise ValueError(
                "env must be given, since the agent was not made for one; learn(env=...), or make "
                "the agent with PSRL.private(env, epsilon=...)."
            )
        if episodes is None:
            episodes = self._episodes_left()
        rng = as_rng(rng)
        self.env = env
        run(self, env, episodes, rng, callback=callback, checkpoint=checkpoint)
        return self

    def _episodes_left(self) -> int:
        planned: int | None = getattr(self, "episodes", None)
        if planned is None:
            raise ValueError("episodes must be given: the agent was made for no number of them.")
        if planned <= self.episodes_done:
            raise ValueError(
                f"episodes must be given, since all {planned} that the agent was made for are done."
            )
        return planned - self.episodes_done

    def predict(
        self,
        observation: ArrayLike,
        state: ArrayLike | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,  # as others call it
    ) -> tuple[Action, Step]:
        """Return the action of `policy` for an observation, and what to pass with the next one.

        See `Policy.predict`; `to_policy` has the policy apart from the agent.
        """
        actions = self.policy
        if self._deployed is None or self._deployed[0] is not actions:
            self._deployed = actions, self._as_policy(None)
        return self._deployed[1].predict(observation, state, episode_start, deterministic)

    def to_policy(self) -> Policy:
        """Return `policy` apart from the agent, in its environment's numbers, to be saved.

        It states what this agent's own draws cost together, as (epsilon, delta): at the delta that
        the agent was made for, or that of its accountant's budget, or else 1e-5. What others
        charged to the same accountant is not part of it. If they released the same data, the total
        is ``agent.accountant.epsilon(delta)``.

        Raises
        ------
        ValueError
            If there is none yet, or the agent is a batch.
        """
        return self._as_policy(self._guarantee())

    def _as_policy(self, guarantee: dict[str, Any] | None) -> Policy:
        if self.batch_shape:
            raise ValueError(
                f"to_policy is for a single run, this agent has batch_shape={self.batch_shape}; "
                "make a Policy of the actions of one, in policy."
            )
        return Policy.of(self.policy, self.n_actions, self.env, guarantee=guarantee)

    def _guarantee(self) -> dict[str, Any] | None:
        """Return what the policy cost, as statements have it; None if nothing was released."""
        if not self._paid or self.batch_shape:
            return None
        target = self._target or self.accountant.budget
        delta = target.delta if isinstance(target, ApproxDP) else DEFAULT_DELTA
        own = self.accountant.unlimited()
        _charge_all(own, self._paid)
        epsilon = float(own.epsilon(delta))
        order, divergence = None, None
        if isinstance(target, RenyiDP):
            at_order = RdpAccountant(orders=[target.order])
            _charge_all(at_order, self._paid)
            order, divergence = target.order, float(at_order.spent(target.order))
        relation = self._paid[0][0].relation
        too_small = isinstance(relation, PaperStep)
        return {
            "relation": str(relation),
            "order": order,
            "epsilon": divergence,
            "delta": delta,
            "epsilon_delta": epsilon if epsilon < math.inf else None,
            "draws": self.draws,
            "randomness": randomness_of(self._rng),
            "caveats": ["the paper's sensitivity is too small"] if too_small else [],
        }

    def begin_episode(self, episode: int) -> None:
        """Draw a new model and plan, if the schedule says so for this episode (the first is 0).

        Raises
        ------
        BudgetExceeded
            If the draw would exceed the accountant's budget; nothing is drawn or spent, and
            the policy stays as it was.
        LedgerError
            If the draw has to be entered in a ledger and cannot be, or was made before of other
            data; likewise.
        ValueError
            If a reward observed since the last draw lies outside its declared range; likewise. And
            if the agent, or its generator, is from before a fork, or a draw failed midway.

        Notes
        -----
        If anything else interrupts the draw, such as Ctrl-C, the agent refuses to go on: nobody
        knows what was charged or drawn. `load` restores the last checkpoint.
        """
        self._check_made_here()
        with self._lock:  # no two threads have one place for their draws
            self._check_whole()
            self._begin_episode(episode)

    def _begin_episode(self, episode: int) -> None:
        self._begin()
        due = self.schedule.is_due(episode)
        if self._behaviour is None and not due:
            due = len(self.schedule.starts(episode + 1)) > 0  # one was due before
            if not due:
                self._follow(self._uniform())
        if due or len(self._new.steps) > _STEPS_AT_ONCE:
            self._count_steps()
        if not due:
            self._between_draws(episode)
            return
        new = self._new
        updates = [(self._sampler, new.counts), (self._rewards, new.rewards)]
        draw = Draw(self.accountant, updates, self._noise, self._entered, note=self._will_pay)
        paid = self._paid
        # Until it is made: whatever goes wrong in a draw, no count and no noise is used twice.
        self._new, self._half_done = self._nothing(), "a draw"
        try:
            transition, reward = draw.make()
        except BaseException:
            if draw.is_untouched:  # the records wait for the next draw
                self._new, self._paid, self._half_done = new, paid, None
            raise
        self._draws += 1
        self._released, self._policy = (transition, reward), None
        self._half_done = None
        self._follow(self._plan(transition, reward))

    def _will_pay(self, cost: Cost | None) -> None:
        """Note what a draw is charged, before it is.

        If the draw is interrupted, the statement includes it: it is never too small.
        """
        if cost is not None and not self.batch_shape:  # of a batch there is no statement
            self._paid = _with(self._paid, cost)

    def act(self, state: int, step: int) -> int:
        """Return the action for a state at a step of the episode (the first is 0).

        Raises
        ------
        ValueError
            If the agent is a batch, no episode has begun, or there is no such state or step.
        """
        if self._actions is None:
            if self.batch_shape:
                raise ValueError(
                    f"act is for a single run, this agent has batch_shape={self.batch_shape}; "
                    "look its actions up in behaviour."
                )
            self._actions = self.behaviour.tolist()
        try:
            if state < 0 or step < 0:  # Python would count from the end
                raise IndexError
            action = self._actions[step][state]
        except (IndexError, TypeError):
            raise ValueError(
                f"state and step must be whole numbers in 0..{self.n_states - 1} and "
                f"0..{self.horizon - 1}, and one is not."
            ) from None
        return self._any_of(state) if action < 0 else action

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes, of a run of so many, before which the policy may change."""
        return self.schedule.starts(episodes)

    @abstractmethod
    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        """Return a policy, shape (..., H, S), from what was released."""

    def _follow(self, policy: IntArray) -> None:
        self._behaviour, self._actions = policy, None

    def _uniform(self) -> IntArray:
        """Return the policy of uniformly random actions."""
        return np.full((*self.batch_shape, self.horizon, self.n_states), -1, np.intp)

    def _any_of(self, state: int) -> int:
        """Return one of a state's free actions."""
        if self._free is None:
            return int(self._rng.integers(self.n_actions))
        return int(self._rng.choice(np.flatnonzero(self._free[state])))

    def _plan_to_deploy(self) -> IntArray:
        """Return what `policy` is."""
        if self._released is None:
            raise ValueError(
                "policy does not exist before the first draw; let it learn, or begin its episode."
            )
        transition, reward = self._released
        return self._best_policy(transition.mean, reward.mean)

    def _between_draws(self, episode: int) -> None:
        """Change the policy before an episode without a draw, if the agent does such things."""
        del episode  # by default it stays

    def _with_public_facts(self, rows: FloatArray) -> FloatArray:
        """Give sampled rows, shape (..., S, A, K), what is public: zeros, and whole rows."""
        if self.support is not None:
            valid = self.support.valid
            rows = np.where(valid, rows, 0.0)
            total = rows.sum(axis=-1, keepdims=True)
            # A draw may have put all its mass, to rounding, on cells that stand for nothing.
            rows = np.where(total > 0, rows, valid)
            rows /= rows.sum(axis=-1, keepdims=True)
        if self._known_rows is not None:
            rows = np.where(np.isnan(self._known_rows), rows, self._known_rows)
        return rows

    def _best_policy(self, rows: FloatArray, reward: FloatArray) -> IntArray:
        """Return the best policy for one sample of the released posteriors."""
        rows = self._with_public_facts(rows)
        if self.support is not None:
            return plan_support(rows, self.support, reward, self.horizon)[0]
        # Without its last cell, "over", a row sums to less than 1: what is lost is worth nothing.
        return best_actions(rows[..., : self.n_states], reward, self.horizon)

    def _check_rows(self, known_rows: ArrayLike) -> FloatArray:
        rows = as_floats("known_rows", known_rows).copy()
        shape = self._new.counts.shape[-3:]
        if rows.shape != shape:
            raise ValueError(f"known_rows must have shape {shape}, got {rows.shape}.")
        known = rows[~np.isnan(rows).any(axis=-1)]
        whole = np.isnan(rows).any(axis=-1) == np.isnan(rows).all(axis=-1)
        if not whole.all() or not ((known >= 0).all() and np.allclose(known.sum(-1), 1, atol=1e-9)):
            raise ValueError(
                "known_rows must be probabilities that sum to 1, or NaN in the whole row; "
                "normalise them."
            )
        return rows

    def _check_loops(self, sampler: Sampler) -> bool:
        """Return whether a sampler damps self-loops, if it has them right.

        Its guarantee rests on them.
        """
        loops = getattr(sampler, "loops", None)
        if loops is None:
            return False
        mine = self_loops(
            self.n_states, self.n_actions, terminates=self.terminates, support=self.support
        )
        if not np.array_equal(loops, mine):
            raise ValueError(
                "sampler must have the loops of the agent's own transition table; make them with "
                "privrl.agents.self_loops."
            )
        return True

    def _check_relation(self, *costs: Cost | None) -> None:
        """Check that a relation about whole episodes is about episodes as long as these."""
        for cost in costs:
            relation = None if cost is None else cost.relation
            if isinstance(relation, ReplaceEpisode) and relation.horizon < self.horizon:
                raise ValueError(
                    f"relation must be about episodes of at least {self.horizon} steps, got "
                    f"{str(relation)!r}; use ReplaceEpisode({self.horizon})."
                )

    def _check_made_here(self) -> None:
        if self._made_in != this_process():
            raise ValueError(
                "agent must be used in the process that made it: two that go on from a fork have "
                "the same records and budget, and their difference shows what noise hides. Make "
                "it where it is used."
            )
        check_rng(self._rng)

    def _check_whole(self) -> None:
        """Raise ValueError if a draw or a load failed midway."""
        if self._half_done is not None:
            raise ValueError(
                f"agent must not be used after {self._half_done} that failed midway; make another "
                "one, which pays anew, or restore the last checkpoint."
            )

    def save(self, path: str | PathLike[str], *, ledger: Ledger | None = None) -> None:
        """Write a checkpoint, from which an agent made alike goes on as this one would.

        It is **not private**: it holds raw counts and the state of the noise. The file is for its
        owner alone (mode 0600), replaces one that was there, and is whole or not there.

        Parameters
        ----------
        path : str or path-like
            The file.
        ledger : Ledger, optional
            Where draws are entered from the first checkpoint on, so that no draw is repeated with
            other data by whoever goes on from one of them; by default the user's own. Not for an
            agent whose generator is seeded: it makes no claim.

        Raises
        ------
        ValueError
            If a sampler, reward model or accountant is not known: a class that names the attributes
            that change in its use, in a tuple ``remembered``, is, and what its updates return, if
            that is a dataclass in a tuple ``released_as``.
        OSError
            If the file cannot be written, or the ledger not used.
        """
        self._check_made_here()
        with self._lock:
            self._check_whole()
            checkpoints.save(self, path, ledger=ledger)

    def load(self, path: str | PathLike[str], *, ledger: Ledger | None = None) -> None:
        """Go on from a checkpoint: records, releases, noise, accountant and random numbers.

        To be called on an unused agent that was made with the same settings, by the same versions.
        What was saved between two draws goes on bit for bit. A draw that was made after the
        checkpoint is made once more if its data are the same, and refused if they are not.

        Parameters
        ----------
        path : str or path-like
            What `save` wrote.
        ledger : Ledger, optional
            The one that was given to `save`.

        Raises
        ------
        ValueError
            If the agent was used, the file is damaged, no checkpoint, of an agent with other
            settings or made with other versions, or the ledger is another one.
        OSError
            If the file or the ledger cannot be read.
        """
        self._check_made_here()
        with self._lock:
            self._check_whole()
            checkpoints.load(self, path, ledger=ledger)

    def check_unused(self, otherwise: str) -> None:
        """Raise ValueError with these words if the agent has observed or drawn anything."""
        new = self._new
        if self._draws or self._step or new.steps or new.counts.any() or new.rewards.any():
            raise ValueError(otherwise)

    def __copy__(self) -> Self:
        """Return an unused agent like this one, with random numbers of its own."""
        self._check_made_here()
        self._check_whole()
        self.check_unused(
            "agent must not be copied once it has observed or drawn anything: its records would be "
            "released twice and paid for once. Make another one, which pays anew."
        )
        other = object.__new__(type(self))
        other.__dict__.update(vars(self) | {"accountant": copy(self.accountant)})
        other._sampler, other._rewards = self._sampler.fresh(), self._rewards.fresh()
        other._rng = self._rng.spawn(1)[0]
        other._new, other._lock = self._nothing(), RLock()
        other._noise, other._entered = _noise_of(other._rng), None
        other._deployed = None
        return other

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        raise ValueError(
            "agent must not be pickled: all that are loaded from one file would have the same "
            "noise, and their difference would show what it hides. Make it where it is used."
        )


def _with(paid: Paid, cost: Cost) -> Paid:
    """Return what was paid, and a draw of this cost."""
    if paid and is_fixed(cost) and paid[-1][0] == cost:
        return (*paid[:-1], (cost, paid[-1][1] + 1))
    return (*paid, (cost, 1))


def _charge_all(accountant: KeepsJournal, paid: Paid) -> None:
    for cost, count in paid:
        accountant.compose(cost, count)


def _noise_of(rng: np.random.Generator) -> np.random.Generator:
    """Return where the noise of draws comes from.

    Secret noise has a generator of its own: whoever saw which random actions were taken learns
    nothing of it.
    """
    return secret_rng() if randomness_of(rng) == SECRET else rng


def self_loops(
    n_states: int, n_actions: int, *, terminates: bool = False, support: Support | None = None
) -> BoolArray:
    """Return in which cells of a transition table a state follows itself, shape (S, A, K).

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
