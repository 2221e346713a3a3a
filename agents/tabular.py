"""The base of tabular agents: they count, release by schedule, and plan from released tables.

An agent observes steps or counts (`privrl.agents.observer`). Its policy is computed from released
tables alone. Agents differ in how they plan.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import DEFAULT_DELTA, ApproxDP, RenyiDP
from privrl.agents.checkpoints import Checkpointed, Draws, noise_of
from privrl.agents.policies import Action, Policy, Step
from privrl.agents.schedules import EveryEpisode, Schedule, schedule_named
from privrl.agents.setup import TabularSetup
from privrl.costs.base import Cost, is_fixed
from privrl.costs.relations import PaperStep
from privrl.envs.planning import best_actions, plan_support
from privrl.files.fixed import fixed
from privrl.files.html import table
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Draw, Posterior, Sampler

if TYPE_CHECKING:  # they train agents
    from privrl.agents.checkpoints import Checkpoint
    from privrl.agents.methods import Method, Task
    from privrl.agents.training import Callback, Environment

_STEPS_AT_ONCE = 2**12  # steps kept one by one between episodes; more are counted, while in cache
Paid = tuple[tuple[Cost, int], ...]
"""What draws cost, and how many in a row cost the same."""


class TabularAgent(Checkpointed, ABC):
    """Count transitions and rewards, release them when the schedule says, follow a policy.

    Parameters
    ----------
    setup : TabularSetup
        Public facts, samplers, schedule and accountant.

    Notes
    -----
    An agent that has observed or drawn anything cannot be copied: a copy would release the same
    records again, paid for once. A copy of an unused agent has separate samplers, accountant and
    random numbers. No agent can be pickled: two that are loaded from one file would have the same
    noise, and their difference would show what it hides. `save` and `load` resume one agent.

    Attributes
    ----------
    episodes_done : int
        The episodes of training so far.
    env : gymnasium.Env, gymnasium.vector.VectorEnv, TabularMDP or None
        The environment of `learn`; None before the first one.
    """

    remembered: ClassVar[tuple[str, ...]] = (
        "_sampler", "_draws", "_paid", "_released", "_behaviour", "_free", "_policy",
        "episodes_done",
    )  # fmt: skip
    derived: ClassVar[tuple[str, ...]] = ("_actions", "_deployed")
    schedule: Schedule = fixed()

    # What the command line, sweeps and pictures need to know of a class.
    title: ClassVar[str] = ""  # in tables and pictures; by default the name in AGENTS
    look: ClassVar[tuple[str, str, str] | None] = None  # colour, marker, line; None: the sampler's
    releases: ClassVar[bool] = True  # data, by a sampler; otherwise it makes no claim
    acts_randomly: ClassVar[bool] = False  # whatever it is told
    usual_sampler: ClassVar[str] = "noisy-counts"
    usual_schedule: ClassVar[str] = "geometric:1.05"
    has_own_schedule: ClassVar[bool] = False  # whatever schedule is named
    reward_model: ClassVar[str | None] = None  # the only one that it works with
    needs_counts: ClassVar[bool] = False  # from its sampler, and the size of their noise
    needs_tables: ClassVar[bool] = False  # of the environment
    needs_steps: ClassVar[bool] = False  # within episodes, so that it plays tables by `play`
    can_resample: ClassVar[bool] = False  # what was released, between draws
    side_by_side: ClassVar[bool] = False  # whether each budget of a batch draws its own numbers

    accountant: KeepsJournal = fixed()

    def __init__(self, setup: TabularSetup) -> None:
        super().__init__(setup)
        if setup.sampler is None:
            raise ValueError("sampler must be a sampler such as NoisyCounts, got None.")
        self.schedule = EveryEpisode() if setup.schedule is None else setup.schedule
        self.accountant = RdpAccountant() if setup.accountant is None else setup.accountant
        self._sampler = setup.sampler.fresh()
        self._known_rows = setup.known_rows
        self._draws = 0
        self._paid: Paid = ()
        self._target = setup.target
        self._released: tuple[Posterior, Posterior] | None = None
        self._behaviour: IntArray | None = None
        self._free: BoolArray | None = None
        self._policy: IntArray | None = None
        self._actions: list[list[int]] | None = None  # the policy once more, quicker to look up
        self._noise, self._lock = noise_of(self._rng), RLock()
        self._entered: Draws | None = None
        self._half_done: str | None = None  # what was begun and not ended
        self.episodes_done = 0
        self.env: Environment | None = None
        self._deployed: tuple[IntArray, Policy] | None = None  # of which array

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task; override it where ``__init__`` takes more."""
        del method, task
        return cls(setup)

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return the schedule of that name for a run of so many episodes."""
        del episodes, private
        return schedule_named(name)

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

        `behaviour` is the behaviour policy: it may follow one sample, or explore.
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

        A second call continues from the first one, under the same accountant: earlier draws are
        not paid again, and later ones are charged to the same budget.

        Parameters
        ----------
        episodes : int, optional
            How many more, >= 1; by default the rest of those that the agent was made for.
        env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP, optional
            Where, from now on; by default as before, or where `PSRL.private` made it for.
        rng : numpy.random.Generator, int or None
            The environment's randomness (the agent has its own); by default secret, see
            `privrl.secret_rng`.
        callback : callable, optional
            Is called with a `Stretch` after each stretch of episodes under one policy. The rewards
            in it are not private, and are kept nowhere else.
        checkpoint : Checkpoint, optional
            Where the run is saved and resumed, see `privrl.experiments.train`.

        Returns
        -------
        TabularAgent
            The same agent; `predict` returns actions of its policy.

        Raises
        ------
        BudgetExceeded
            If the agent's budget does not suffice.
        ValueError
            If there is no environment, it does not fit, the episodes need more draws than are
            planned for, or their number is not given.
        """
        from privrl.agents.training import run  # noqa: PLC0415 # it trains agents

        env = self.env if env is None else env
        if env is None:
            raise ValueError(
                "env must be given, since the agent was not made for one; learn(env=...), or make "
                "the agent with PSRL.private(env, epsilon=...)."
            )
        if episodes is None:
            episodes = _episodes_left(self)
        rng = as_rng(rng)
        self.env = env
        run(self, env, episodes, rng, callback=callback, checkpoint=checkpoint)
        return self

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
        return self._as_policy(_statement_of(self))

    def _as_policy(self, guarantee: dict[str, Any] | None) -> Policy:
        if self.batch_shape:
            raise ValueError(
                f"to_policy is for a single run, this agent has batch_shape={self.batch_shape}; "
                "make a Policy of the actions of one, in policy."
            )
        return Policy.of(self.policy, self.n_actions, self.env, guarantee=guarantee)

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
        If anything else interrupts the draw, such as Ctrl-C, the agent cannot be used again:
        charges and draws are unknown. `load` restores the last checkpoint.
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


def _with(paid: Paid, cost: Cost) -> Paid:
    """Return what was paid, and a draw of this cost."""
    if paid and is_fixed(cost) and paid[-1][0] == cost:
        return (*paid[:-1], (cost, paid[-1][1] + 1))
    return (*paid, (cost, 1))


def _charge_all(accountant: KeepsJournal, paid: Paid) -> None:
    for cost, count in paid:
        accountant.compose(cost, count)


def _statement_of(agent: TabularAgent) -> dict[str, Any] | None:
    """Return what the policy cost, as statements have it; None if nothing was released."""
    if not agent._paid or agent.batch_shape:
        return None
    target = agent._target or agent.accountant.budget
    delta = target.delta if isinstance(target, ApproxDP) else DEFAULT_DELTA
    own = agent.accountant.unlimited()
    _charge_all(own, agent._paid)
    epsilon = float(own.epsilon(delta))
    order, divergence = None, None
    if isinstance(target, RenyiDP):
        at_order = RdpAccountant(orders=[target.order])
        _charge_all(at_order, agent._paid)
        order, divergence = target.order, float(at_order.spent(target.order))
    relation = agent._paid[0][0].relation
    too_small = isinstance(relation, PaperStep)
    return {
        "relation": str(relation),
        "order": order,
        "epsilon": divergence,
        "delta": delta,
        "epsilon_delta": epsilon if epsilon < math.inf else None,
        "draws": agent.draws,
        "randomness": randomness_of(agent._rng),
        "caveats": ["the paper's sensitivity is too small"] if too_small else [],
    }


def _episodes_left(agent: TabularAgent) -> int:
    planned: int | None = getattr(agent, "episodes", None)
    if planned is None:
        raise ValueError("episodes must be given: the agent was made for no number of them.")
    if planned <= agent.episodes_done:
        raise ValueError(
            f"episodes must be given, since all {planned} that the agent was made for are done."
        )
    return planned - agent.episodes_done
