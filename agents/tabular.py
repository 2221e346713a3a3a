"""Base class of tabular agents, which count, release on a schedule, and plan.

An agent observes steps or counts (`privrl.agents.observer`). Its policy is computed from released
tables alone. Subclasses differ in how they plan.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import is_not
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import DEFAULT_DELTA, RenyiDP
from privrl.agents.checkpoints import Checkpointed, Draws
from privrl.agents.policies import Action, Policy, Step
from privrl.agents.released import Stated, with_environments
from privrl.agents.schedules import EveryEpisode, Schedule, schedule_named
from privrl.agents.setup import TabularSetup, with_public_facts
from privrl.costs.base import Cost, is_fixed
from privrl.costs.relations import PaperStep
from privrl.envs.planning import best_actions, plan_support
from privrl.files.chosen import made_of
from privrl.files.fixed import fixed
from privrl.files.html import table
from privrl.numerics.cells import Cells
from privrl.numerics.randomness import Rng, as_rng, own_rng, randomness_of
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Draw, Posterior, Sampler, takes_cells

if TYPE_CHECKING:  # these modules import this one
    from privrl.agents.checkpoints import Checkpoint
    from privrl.agents.methods import Method, Task
    from privrl.agents.training import Callback, Environment

_STEPS_AT_ONCE = 2**12  # steps in the buffer, which is counted while in cache
Paid = tuple[tuple[Cost, int], ...]
"""Costs of the draws so far, each with the number of consecutive draws at that cost."""


class TabularAgent(Checkpointed, ABC):
    """Count transitions and rewards, release them on a schedule, and follow a policy.

    Parameters
    ----------
    setup : TabularSetup
        Public facts, samplers, schedule and accountant.

    Notes
    -----
    A used agent cannot be copied: the copy would release the same records again without a charge.
    A copy of an unused agent has separate samplers, accountant and random numbers. Agents cannot be
    pickled: two agents loaded from one file would draw the same noise, and the difference of their
    releases would reveal the data. Use `save` and `load` to resume an agent.

    Attributes
    ----------
    episodes_done : int
        Number of training episodes so far.
    env : gymnasium.Env, gymnasium.vector.VectorEnv, TabularMDP or None
        The environment of the last call of `learn`; None before the first call.
    """

    remembered: ClassVar[tuple[str, ...]] = (
        "_sampler", "_draws", "_paid", "_released", "_behaviour", "_free", "episodes_done",
        "_unplanned", "_environments",
    )  # fmt: skip
    derived: ClassVar[tuple[str, ...]] = ("_actions", "_deployed", "_policy")
    schedule: Schedule = fixed()

    # Facts about the class for the command line, sweeps and figures.
    title: ClassVar[str] = ""  # in tables and figures; default: the name in AGENTS
    look: ClassVar[tuple[str, str, str] | None] = None  # colour, marker, line; None: as the sampler
    releases: ClassVar[bool] = True  # False: nothing is released, no privacy claim
    acts_randomly: ClassVar[bool] = False  # whatever it observes
    usual_sampler: ClassVar[str] = "noisy-counts"
    usual_schedule: ClassVar[str] = "geometric:1.05"
    has_own_schedule: ClassVar[bool] = False  # the named schedule is ignored
    reward_model: ClassVar[str | None] = None  # the only one supported
    needs_counts: ClassVar[bool] = False  # and their noise scale, from the sampler
    takes_cells: ClassVar[bool] = False  # counts may also be some cells of a large table
    needs_tables: ClassVar[bool] = False  # the environment's
    needs_steps: ClassVar[bool] = False  # learns within episodes; on tables through `play`
    can_resample: ClassVar[bool] = False  # the released posterior, between draws
    side_by_side: ClassVar[bool] = False  # each budget of a batch draws its own numbers

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
        self._policy: tuple[tuple[Any, Any], IntArray] | None = None  # and what it was made for
        self._noise = own_rng(self._rng)  # so that random actions reveal nothing about it
        self._entered: Draws | None = None
        self._half_done: str | None = None  # an operation that did not finish
        self._unplanned: int | None = None  # an episode whose draw is made, and whose plan is not
        self.episodes_done = 0
        self._environments: Stated = ()
        self.env: Environment | None = None
        self._deployed: tuple[IntArray, Policy] | None = None  # for this array

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task; override it where ``__init__`` takes more."""
        del method, task
        return cls(setup)

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return the named schedule for a run of ``episodes`` episodes."""
        del episodes, private
        return schedule_named(name)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {fact}" for name, fact in _facts_of(self).items())
        return f"<{type(self).__name__} {shown}>"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, _facts_of(self).items())

    @property
    def sampler(self) -> Sampler:
        """An unused transition sampler with the agent's settings."""
        return self._sampler.fresh()

    @property
    def draws(self) -> int:
        """Number of draws so far."""
        return self._draws

    @property
    def free(self) -> BoolArray | None:
        """Actions that -1 in the policy stands for, bool of shape (..., S, A); None for all."""
        return self._free

    @property
    def behaviour(self) -> IntArray:
        """The behaviour policy: actions by step and state, shape (..., H, S).

        It is post-processing of releases. -1 stands for a uniformly random `free` action.
        """
        if self._behaviour is None:
            raise ValueError("behaviour does not exist yet; call begin_episode(0) first.")
        return self._behaviour

    @property
    def policy(self) -> IntArray:
        """The policy to deploy, shape (..., H, S): the best one for the mean of the posterior.

        The behaviour policy, `behaviour`, may instead follow one sample or explore.
        """
        # Read before planning, and in this order: a thread may draw and plan meanwhile.
        now, made = (self._released, self._unplanned), self._policy
        if made is None or any(map(is_not, made[0], now)):
            made = self._policy = now, self._plan_to_deploy()
        return made[1]

    @property
    def released(self) -> tuple[Posterior, Posterior] | None:
        """The last released posteriors of transitions and rewards; None before the first draw."""
        return self._released

    @property
    def rng(self) -> np.random.Generator:
        """The agent's random number generator."""
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

        A second call continues training under the same accountant: earlier draws are not charged
        again, and later draws are charged to the same budget.

        Parameters
        ----------
        episodes : int, optional
            Number of further episodes, >= 1; by default the remaining planned ones.
        env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP, optional
            The environment from now on; by default the previous one, or that of `PSRL.private`.
        rng : numpy.random.Generator, int or None
            Randomness of the environment; the agent has a separate generator. By default secret,
            see `privrl.secret_rng`.
        callback : callable, optional
            Called with a `Stretch` after each stretch of episodes under one policy. Its rewards
            are not private, and are stored nowhere else.
        checkpoint : Checkpoint, optional
            The file for saving and resuming the run, see `privrl.experiments.train`.

        Returns
        -------
        TabularAgent
            The same agent; `predict` returns actions of its policy.

        Raises
        ------
        BudgetExceeded
            If a draw would exceed the agent's budget.
        ValueError
            If the environment is missing or does not fit, the number of episodes is missing, or
            the episodes need more draws than planned.
        """
        from privrl.agents.training import run  # noqa: PLC0415 # avoids a cycle

        env = self.env if env is None else env
        if env is None:
            raise ValueError(
                "env must be given, since the agent was not made for one: call learn(env=...), or "
                "make the agent with PSRL.private(env, epsilon=...)."
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
        deterministic: bool = True,  # for compatibility
    ) -> tuple[Action, Step]:
        """Return the action of `policy` for an observation, and the ``state`` of the next call.

        See `Policy.predict`. `to_policy` returns the policy without the agent.
        """
        actions = self.policy
        if self._deployed is None or self._deployed[0] is not actions:
            self._deployed = actions, _as_policy(self, stated=False)
        return self._deployed[1].predict(observation, state, episode_start, deterministic)

    def to_policy(self) -> Policy:
        """Return `policy` without the agent, in the numbering of its environment.

        The policy states the total (epsilon, delta) of this agent's draws. Delta is that of the
        agent's target, else of its accountant's budget, else 1e-5. Charges of other agents to the
        same accountant are excluded. If those agents released the same data, the total is
        ``agent.accountant.epsilon(delta)``.

        Raises
        ------
        ValueError
            If the policy does not exist yet, or the agent is a batch.
        """
        return _as_policy(self, stated=True)

    def begin_episode(self, episode: int) -> None:
        """Draw a new model and plan if the schedule is due at this episode (the first is 0).

        Raises
        ------
        BudgetExceeded
            If the draw would exceed the accountant's budget. Nothing is drawn or spent, and
            the policy does not change.
        LedgerError
            If the draw cannot be entered in its ledger, or the ledger has it with other data.
            Again nothing is drawn or spent.
        ValueError
            If a reward observed since the last draw is outside its declared range; nothing is
            drawn or spent. Also if the process was forked after the agent or its generator was
            made, or if a draw failed midway.

        Notes
        -----
        After any other interruption of the draw, such as Ctrl-C, the agent cannot be used again,
        because the state of charges and noise is unknown. `load` restores the last checkpoint.
        """
        self._check_made_here()
        with self._lock:  # two threads must share neither a draw's number nor its records
            self._check_whole()
            self._begin_episode(episode)

    def _begin_episode(self, episode: int) -> None:
        self._begin()
        due = self.schedule.is_due(episode)
        if self._behaviour is None and not due:
            due = len(self.schedule.starts(episode + 1)) > 0  # missed
            if not due:
                shape = *self.batch_shape, self.horizon, self.n_states
                self._follow(np.full(shape, -1, np.intp))
        if due or len(self._new.steps) > _STEPS_AT_ONCE:
            self._count_steps()
        if not due:
            self._between_draws(episode)
        else:
            if self._unplanned != episode:  # else planning was interrupted, and the draw is there
                self._draw(episode)
            assert self._released is not None
            with np.errstate(all="ignore"):  # as the draw: a plan that raised would lose it
                self._follow(self._plan(*self._released))
            self._unplanned = None

    def _draw(self, episode: int) -> None:
        new = self._new
        counts = new.transitions.filled if takes_cells(self._sampler) else new.counts
        updates: list[tuple[Sampler, FloatArray | Cells]]
        updates = [(self._sampler, counts), (self._rewards, new.rewards)]
        draw = Draw(self.accountant, updates, self._noise, self._entered, note=self._will_pay)
        paid = self._paid
        # Cleared before the draw: if it fails, neither counts nor noise are used twice.
        self._new, self._half_done = self._nothing(), "a draw"
        try:
            transition, reward = draw.make()
        except BaseException:
            if draw.is_untouched:  # the records wait for the next draw
                self._new, self._paid, self._half_done = new, paid, None
            raise
        self._draws += 1
        self._unplanned = episode  # first: a thread may look at the policy now
        self._released, self._half_done = (transition, reward), None

    def _will_pay(self, cost: Cost | None) -> None:
        """Record the cost of a draw before it is charged.

        The statement then covers an interrupted draw as well, so it is never too small.
        """
        if cost is not None and not self.batch_shape:  # batches make no statement
            self._paid = _with(self._paid, cost)

    def act(self, state: int, step: int) -> int:
        """Return the action for a state at a step of the episode (the first is 0).

        Raises
        ------
        ValueError
            If the agent is a batch, no episode has begun, or state or step is out of range.
        """
        if self.batch_shape:
            raise ValueError(
                f"act is for a single run, this agent has batch_shape={self.batch_shape}; "
                "look up its actions in behaviour."
            )
        policy = self.behaviour if self._behaviour is None else self._behaviour
        try:
            if state < 0 or step < 0:  # as indices they count from the end
                raise IndexError
            action = policy.item(step, state)
        except (IndexError, OverflowError, TypeError):
            raise ValueError(
                f"state and step must be whole numbers in 0..{self.n_states - 1} and "
                f"0..{self.horizon - 1}, and one is not."
            ) from None
        if action >= 0:
            return action
        if self._free is None:
            return int(self._rng.integers(self.n_actions))
        return int(self._rng.choice(np.flatnonzero(self._free[state])))

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes below ``episodes`` before which the policy may change, sorted."""
        return self.schedule.starts(episodes)

    @abstractmethod
    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        """Return a policy, shape (..., H, S), for the released posteriors."""

    def _follow(self, policy: IntArray) -> None:
        self._behaviour = policy

    def _plan_to_deploy(self) -> IntArray:
        """Return the policy to deploy; `policy` caches it."""
        if self._released is None:
            raise ValueError(
                "policy does not exist before the first draw; call learn or begin_episode first."
            )
        transition, reward = self._released
        return self._best_policy(transition.mean, reward.mean)

    def _between_draws(self, episode: int) -> None:
        """Change the policy before an episode without a draw; by default keep it."""
        del episode

    def _best_policy(self, rows: FloatArray, reward: FloatArray) -> IntArray:
        """Return the optimal policy of a model: transition rows and mean rewards."""
        rows = with_public_facts(rows, self.support, self._known_rows)
        if self.support is not None:
            return plan_support(rows, self.support, reward, self.horizon)[0]
        # Without the last cell, "over", a row sums to less than 1: the rest has value 0.
        return best_actions(rows[..., : self.n_states], reward, self.horizon)


def _facts_of(agent: TabularAgent) -> dict[str, str]:
    """Return public facts of an agent to display."""
    return {
        "sizes": f"{agent.n_states} states, {agent.n_actions} actions, {agent.horizon} steps",
        "done": f"{agent.episodes_done:,} episodes, {agent.draws} draws",
        **agent.accountant.facts(),
    }


def _as_policy(agent: TabularAgent, *, stated: bool) -> Policy:
    if agent.batch_shape:
        raise ValueError(
            f"to_policy is for a single run, this agent has batch_shape={agent.batch_shape}; make "
            "a Policy from one run of its policy array."
        )
    actions = agent.policy  # first: if a thread draws meanwhile, the statement covers that as well
    guarantee = _statement_of(agent) if stated else None
    made: Policy = made_of(
        agent, Policy.of(actions, agent.n_actions, agent.env, guarantee=guarantee)
    )
    return made


def _with(paid: Paid, cost: Cost) -> Paid:
    """Return the costs with one more draw."""
    if paid and is_fixed(cost) and paid[-1][0] == cost:
        return (*paid[:-1], (cost, paid[-1][1] + 1))
    return (*paid, (cost, 1))


def _charge_all(accountant: KeepsJournal, paid: Paid) -> None:
    for cost, count in paid:
        accountant.compose(cost, count)


def _statement_of(agent: TabularAgent) -> dict[str, Any] | None:
    """Return the statement of what the policy cost; None if nothing was released."""
    if not agent._paid or agent.batch_shape:
        return None
    target = agent._target or agent.accountant.budget
    delta = getattr(target, "delta", None) or DEFAULT_DELTA  # of a budget of the ledger, too
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
    said = {
        "relation": str(relation),
        "order": order,
        "epsilon": divergence,
        "delta": delta,
        "epsilon_delta": epsilon if epsilon < math.inf else None,
        "draws": agent.draws,
        "randomness": randomness_of(agent._rng),
        "caveats": ["the paper's sensitivity is too small"] if too_small else [],
    }
    return with_environments(said, agent._environments)


def _episodes_left(agent: TabularAgent) -> int:
    planned: int | None = getattr(agent, "episodes", None)
    if planned is None:
        raise ValueError("episodes must be given, since the agent was not made for a fixed number.")
    if planned <= agent.episodes_done:
        raise ValueError(
            f"episodes must be given, since all {planned} that the agent was made for are done."
        )
    return planned - agent.episodes_done
