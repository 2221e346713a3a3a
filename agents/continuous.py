"""The agent for observations that are real numbers: it learns a model and plans, without bins.

It keeps the steps of a batch of episodes, releases noisy moments of them on a public schedule
(`privrl.samplers.moments`), and plans for the mean of the posterior (`privrl.continuous.online`).
Until the noise leaves enough of the model, it acts at random. In the first half of its episodes,
every third one is random as well: steps that no plan chose keep the model right elsewhere. If no
reward is above 0, every second random episode repeats its actions, to get farther.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from operator import index as as_int
from threading import RLock
from typing import Any, NamedTuple, NoReturn, Self

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import DEFAULT_DELTA, ApproxDP, RenyiDP, Target
from privrl.agents.released import Stated, learns_in, with_environments
from privrl.agents.schedules import Geometric
from privrl.agents.training import Callback, Earned, Stretch
from privrl.continuous.design import ONLINE
from privrl.continuous.log import ContinuousLog
from privrl.continuous.online import Belief, order_for
from privrl.continuous.planning import MOST_ON_GRID, Grid, check_plannable
from privrl.continuous.policy import ContinuousPolicy
from privrl.continuous.schema import Choice, ContinuousSchema, Number
from privrl.costs.relations import Relation, ReplaceEpisode, ReplaceStep, ReplaceTransition
from privrl.envs.facts import check_steps_alone, limits_of
from privrl.envs.ranges import LEVELS, Ranged
from privrl.envs.released import privacy_statement
from privrl.envs.wrappers import clipped
from privrl.files.chosen import caveats_of, made_of
from privrl.files.fixed import fixed
from privrl.files.sharing import BESIDE
from privrl.numerics.checks import (
    check_count,
    check_is,
    check_numbers,
    check_rng,
    plain_array,
    plain_float,
)
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.typing import FloatArray
from privrl.samplers.base import Draw
from privrl.samplers.moments import MomentSampler


class ContinuousStep(NamedTuple):
    """One step of an episode: states within public ranges, and the number of the action."""

    state: FloatArray
    action: int
    reward: float
    next_state: FloatArray
    terminated: bool = False


class _Choose:
    """What `ContinuousPolicy.act` does on a grid, faster for one state within its ranges."""

    def __init__(self, policy: ContinuousPolicy) -> None:
        axes = Grid.of(policy.schema, policy.core).axes
        self._axes = [axis.tolist() for axis in axes]
        sizes = [len(axis) for axis in axes]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        # Of each corner of a cell: for each axis, whether it is the upper one.
        upper = np.array(list(np.ndindex(*[2] * len(sizes))), np.intp)
        self._strides, self._offsets, self._worth = strides, upper @ strides, policy.worth

    def __call__(self, state: FloatArray) -> int:
        first, weights = 0, [1.0]
        for axis, stride, value in zip(self._axes, self._strides, state.tolist(), strict=True):
            place = min(max(bisect_right(axis, value) - 1, 0), len(axis) - 2)
            part = (value - axis[place]) / (axis[place + 1] - axis[place])
            part = min(max(part, 0.0), 1.0)
            first += place * stride
            weights = [each * w for each in weights for w in (1 - part, part)]
        worth = np.array(weights) @ self._worth[first + self._offsets]
        return int(worth.argmax())


class ContinuousAgent:
    """Learn in an environment with continuous observations, privately.

    `PSRL.private` makes one. Its policy is computed from released moments alone.

    Parameters
    ----------
    schema : ContinuousSchema
        Public ranges of states, actions and rewards.
    horizon, episodes : int
        Steps of an episode at most, and how many episodes are planned.
    target : Target
        The privacy of all episodes together.
    relation : Relation
        `ReplaceStep`, `ReplaceTransition` or `ReplaceEpisode`.
    rng : numpy.random.Generator, int or None
        All of the agent's randomness.
    accountant : KeepsJournal, optional
        Is charged before the first draw, which pays for all.

    Raises
    ------
    ValueError
        If an argument is out of range, or the target cannot be met.
    """

    schema: ContinuousSchema = fixed()
    horizon: int = fixed()
    episodes: int = fixed()
    accountant: KeepsJournal = fixed()
    schedule: Geometric = fixed()

    def __init__(
        self,
        schema: ContinuousSchema,
        *,
        horizon: int,
        episodes: int,
        target: Target,
        relation: Relation,
        rng: Rng = None,
        accountant: KeepsJournal | None = None,
    ) -> None:
        check_is("schema", schema, ContinuousSchema)
        self.schema = schema
        self.horizon = check_count("horizon", horizon)
        # The first draw tells how large changes are, and the second one makes a plan.
        self.episodes = check_count("episodes", episodes, 2)
        if schema.n_state > MOST_ON_GRID:
            raise ValueError(
                f"env must have at most {MOST_ON_GRID} numbers in a state to be planned in, got "
                f"{schema.n_state}; pass bins, which may ignore some."
            )
        check_plannable(schema)
        self._by_episode = isinstance(relation, ReplaceEpisode)
        self._unit = "an episode" if self._by_episode else "a step of an episode"
        if isinstance(relation, ReplaceTransition):
            self._unit = "the next state of a step"
        if isinstance(relation, ReplaceEpisode) and relation.horizon < horizon:
            raise ValueError(
                f"relation must be about episodes of at least {horizon} steps, got "
                f"{str(relation)!r}; use ReplaceEpisode({horizon})."
            )
        self.schedule = Geometric(ONLINE.ratio, max(1, episodes // ONLINE.first))
        updates = len(self.schedule.starts(episodes)) + 1  # and one after the last episode
        sigma = MomentSampler.calibrated(
            target, updates=updates, columns=1, cells=1, relation=relation
        ).sigma
        steps = episodes * (8 if self._by_episode else horizon)
        self._belief = Belief.of(schema, order_for(schema, sigma, steps))
        self._sampler = MomentSampler(
            sigma=sigma,
            updates=updates,
            columns=self._belief.columns,
            cells=self._belief.cells,
            relation=relation,
        )
        cost = self._sampler.cost
        assert cost is not None
        self._cost, self._target = cost, target
        self.accountant = RdpAccountant(budget=target) if accountant is None else accountant
        self._rng, self._made_in, self._lock = as_rng(rng), this_process(), RLock()
        self._steps: list[tuple[int, FloatArray, int, float, FloatArray, bool]] = []
        self._half_done: str | None = None
        self._unplanned: int | None = None  # an episode whose draw is made, and whose plan is not
        self._policy: ContinuousPolicy | None = None
        self._choose: _Choose | None = None
        self._random, self._repeats, self._action = True, False, -1
        self._step, self._ended = 0, True
        self._episode = self._draws = 0
        self._environments: Stated = ()
        self.env: Ranged | None = None

    def __repr__(self) -> str:  # of nothing private
        return (
            f"<ContinuousAgent {self.schema.n_state} numbers, {self.schema.n_actions} actions, "
            f"{self.horizon} steps, done: {self.episodes_done:,} episodes, {self.draws} draws>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an agent cannot be copied or pickled: two of them would release the same records. "
            "Make another one, which pays again."
        )

    @classmethod
    def private(
        cls,
        env: gym.Env[Any, Any],
        *,
        target: Target,
        episodes: int,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        relation: Relation | None = None,
        accountant: KeepsJournal | None = None,
        rng: Rng = None,
    ) -> Self:
        """Return the agent for an environment; see `PSRL.private`."""
        ranged = env if isinstance(env, Ranged) else Ranged(env)
        steps, rewards = limits_of(ranged, horizon, reward_range)
        agent = cls(
            schema_of(ranged, rewards),
            horizon=steps,
            episodes=episodes,
            target=target,
            relation=ReplaceStep(arrival_rewards=True) if relation is None else relation,
            rng=rng,
            accountant=accountant,
        )
        agent.env = ranged
        learns_in(agent, ranged)
        return agent

    @property
    def episodes_done(self) -> int:
        """Number of episodes begun so far."""
        return self._episode

    @property
    def draws(self) -> int:
        """Number of draws so far."""
        return self._draws

    @property
    def policy(self) -> ContinuousPolicy:
        """The plan for the mean of the posterior.

        Raises
        ------
        ValueError
            Before the second draw: the first one only tells how large changes are.
        """
        if self._policy is None:
            raise ValueError("policy does not exist before the second draw; call learn first.")
        policy: ContinuousPolicy = made_of(self, self._policy)
        return policy

    def to_policy(self, caveats: Sequence[str] = ()) -> ContinuousPolicy:
        """Return `policy`, which can be saved, with caveats in its statement."""
        planned = self.policy
        if planned.statement is None:
            return planned
        said = dict.fromkeys((*planned.statement["caveats"], *caveats))
        return replace(planned, statement={**planned.statement, "caveats": list(said)})

    def learn(
        self,
        episodes: int | None = None,
        *,
        env: gym.Env[Any, Any] | None = None,
        rng: Rng = None,
        callback: Callback | None = None,
        checkpoint: object = None,
    ) -> Self:
        """Learn in an environment, and return the agent.

        Arguments are those of `TabularAgent.learn`, but there are no checkpoints. A second call
        continues.
        """
        if env is not None:
            self.env = env if isinstance(env, Ranged) else Ranged(env)
        if self.env is None:
            raise ValueError("env must be given: call learn(env=...).")
        left = self.episodes - self.episodes_done
        if not left and episodes is None and not self._is_over:
            self.end()  # an interrupt came in the last episode, or after it
            return self
        train_continuous(
            self,
            self.env,
            left if episodes is None else episodes,
            as_rng(rng),
            callback=callback,
            checkpoint=checkpoint,
        )
        return self

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, Any]:
        """Return the action of `policy` for an observation of the environment, and ``state``."""
        del episode_start, deterministic
        if self.env is None:
            raise ValueError("env must be given before: call learn(env=...).")
        number = int(self.policy.act(self.env.state_of(observation)))
        return self.env.action_of(number), state

    def begin_episode(self, episode: int) -> None:
        """Draw and plan if the schedule is due at this episode (the first is 0).

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover all draws. Nothing is drawn or spent.
        ValueError
            If the process was forked after the agent was made, or a draw failed midway.
        """
        with self._lock:
            self._check_usable()
            self._ended = True  # no step of the episode before may come after a draw
            if self.schedule.is_due(episode):
                self._draw_and_plan(episode)
            early = 2 * episode < self.episodes and episode % ONLINE.random == 0
            self._random = early or not self._belief.is_solid
            self._repeats = self._belief.far_is_good and episode % 2 == 1
            self._action, self._step, self._ended = -1, 0, False
            self._episode = episode + 1

    @property
    def _is_over(self) -> bool:
        return self.draws == self._sampler.updates and self._unplanned is None

    def end(self) -> None:
        """Draw and plan once more, after the last planned episode; the episode is over."""
        with self._lock:
            self._check_usable()
            self._ended = True
            if not self._is_over:
                self._draw_and_plan(self.episodes)

    def act(self, state: FloatArray, step: int) -> int:
        """Return the number of the action in a state."""
        del step
        if not self._random and self._choose is not None:
            return self._choose(state)
        if self._action < 0 or not self._repeats or self._rng.random() > ONLINE.repeats:
            self._action = int(self._rng.integers(self.schema.n_actions))
        return self._action

    def observe(self, seen: ContinuousStep) -> None:
        """Record one step.

        Raises
        ------
        ValueError
            If the episode has ended or has ``horizon`` steps, or a value is not finite or out of
            range. Errors do not show it.
        """
        # Copies, which nobody can write to: in one array for all, one state would be in all rows.
        state, after = (check_numbers("state", each) for each in (seen.state, seen.next_state))
        wrong = state.shape != (self.schema.n_state,) or state.shape != after.shape
        if wrong or not (np.isfinite(state).all() and np.isfinite(after).all()):
            raise ValueError(f"states must be {self.schema.n_state} finite numbers.")
        plain_array("action", seen.action)
        ended = plain_array("terminated", seen.terminated)
        if ended.ndim or ended.dtype.kind not in "biuf":
            raise ValueError("terminated must be True or False.")
        try:
            action = as_int(seen.action)
        except TypeError:
            action = -1
        if not 0 <= action < self.schema.n_actions:
            raise ValueError(f"action must be in 0..{self.schema.n_actions - 1}.")
        assert self.schema.reward is not None
        low, high = self.schema.reward.low, self.schema.reward.high
        if check_numbers("reward", seen.reward).shape != ():
            raise ValueError("reward must be a number.")
        reward, inside = clipped(seen.reward, low, high)
        if not inside:
            raise ValueError(
                f"reward_range must hold every reward, and one is outside {low:g},{high:g}."
            )
        # All conversions come before the checks: one could run code that observes as well.
        terminated = bool(seen.terminated)
        with self._lock:
            if self._ended or self._step >= self.horizon:
                raise ValueError(
                    f"an episode has at most {self.horizon} steps and none after its end; call "
                    "begin_episode first."
                )
            self._step, self._ended = self._step + 1, terminated
            step = (self._episode, state, action, float(reward), after, self._ended)
            self._steps.append(step)

    def guarantee(self) -> dict[str, Any]:
        """Return what the policy costs, as `train` reports it."""
        target = self._target
        delta = target.delta if isinstance(target, ApproxDP) else DEFAULT_DELTA
        renyi = target if isinstance(target, RenyiDP) else None
        spent = None if renyi is None else float(self._cost.rdp(np.array([renyi.order]))[0])
        own = {
            "relation": str(self._cost.relation),
            "order": None if renyi is None else renyi.order,
            "epsilon": spent,
            "delta": delta,
            "epsilon_delta": float(self._cost.epsilon(delta)),
            "draws": self.draws,
            "randomness": randomness_of(self._rng),
            "caveats": caveats_of(self),
        }
        nothing = own | {"order": None, "epsilon": None, "epsilon_delta": None}
        return with_environments(own, self._environments) or nothing

    def _statement(self) -> dict[str, Any] | None:
        said = self.guarantee()
        if said["epsilon_delta"] is None:
            return None
        if said["order"] is None:
            budget = {"epsilon": said["epsilon_delta"], "delta": said["delta"]}
        else:
            budget = {"epsilon": said["epsilon"], "order": said["order"]}
        stated = privacy_statement(
            unit=self._unit,
            relation=said["relation"],
            released="moments of features and changes of state, with discrete Gaussian noise",
            randomness=said["randomness"],
            caveats=said["caveats"],
            **budget,
        )
        return stated | {name: said[name] for name in BESIDE if name in said}

    def _check_usable(self) -> None:
        if self._made_in != this_process():
            raise ValueError(
                "agent must be used in the process that made it: after a fork, two agents have the "
                "same records, and the difference of their releases reveals them."
            )
        check_rng(self._rng)
        if self._half_done is not None:
            raise ValueError(
                f"agent must not be used after {self._half_done} that failed midway; make a new "
                "agent, which is charged again."
            )

    def _draw_and_plan(self, episode: int) -> None:
        if self._unplanned != episode:  # else planning was interrupted, and the draw is there
            self._draw(episode)
        self._replan()
        self._unplanned = None

    def _draw(self, episode: int) -> None:
        data = self._belief.contributions(self._log(), by_episode=self._by_episode)
        sampler: Any = self._sampler  # its posterior is one of moments
        draw = Draw(self.accountant, [(sampler, data)], self._rng)
        steps = self._steps
        # Cleared before the draw: if it fails, neither steps nor noise are used twice.
        self._steps, self._half_done = [], "a draw"
        try:
            made: list[Any] = draw.make()
        except BaseException:
            if draw.is_untouched:
                self._steps, self._half_done = steps, None
            raise
        (seen,) = made
        try:
            self._draws += 1
            with np.errstate(all="ignore"):  # as the draw
                self._belief = self._belief.after(
                    seen.matrix, seen.counts, seen.noise, by_episode=self._by_episode
                )
        except BaseException as error:
            error.add_note("The budget was charged for this release, and it is lost.")
            raise
        # Planning is free, and an interrupt leaves the plan before.
        self._unplanned, self._half_done = episode, None

    def _replan(self) -> None:
        if self._belief.batches > 1:
            worth = self._belief.worth(discount=ONLINE.discount, horizon=self.horizon)
            self._policy = ContinuousPolicy(
                schema=self.schema,
                kind="grid",
                worth=worth,
                core=self._ranges,
                discount=ONLINE.discount,
                statement=self._statement(),
            )
            self._choose = _Choose(self._policy)

    @property
    def _ranges(self) -> FloatArray:
        """The public range of each number, shape (n_state, 2)."""
        columns = self.schema.state.values()
        return np.array([(c.low, c.high) for c in columns if isinstance(c, Number)])

    def _log(self) -> ContinuousLog:
        """Return the steps since the last draw; its "persons" are episodes."""
        n, steps = self.schema.n_state, self._steps
        episode = np.array([step[0] for step in steps], np.intp)
        state = np.array([step[1] for step in steps]).reshape(-1, n)
        action = self.schema.levels[np.array([step[2] for step in steps], np.intp)]
        reward = np.array([step[3] for step in steps], np.float64)
        after = np.array([step[4] for step in steps]).reshape(-1, n)
        starts = np.flatnonzero(np.diff(episode, prepend=-1))
        return ContinuousLog(
            schema=self.schema,
            state=self.schema.inside(state),
            action=action,
            next_state=self.schema.inside(after),
            reward=reward,
            terminated=np.array([step[5] for step in steps], np.bool_),
            offsets=np.append(starts, len(steps)),
        )


def schema_of(env: Ranged, reward_range: tuple[float, float]) -> ContinuousSchema:
    """Return the public ranges of an environment."""
    state = {
        f"x{i}": Number(low=axis.low, high=axis.high, periodic=axis.is_angle)
        for i, axis in enumerate(env.axes)
    }
    action: dict[str, Number | Choice]
    if env.actions is not None:
        bounds = zip(env.actions.min(axis=0), env.actions.max(axis=0), strict=True)
        action = {
            f"action{i}": Number(low=float(low), high=float(high), levels=LEVELS)
            for i, (low, high) in enumerate(bounds)
        }
    else:
        n = int(getattr(env.action_space, "n", 0))
        if n < 2:
            raise ValueError("env must have at least 2 actions to choose between, got 1.")
        action = {"action": Choice(values=tuple(map(str, range(n))))}
    low, high = reward_range
    return ContinuousSchema(
        state=state, action=action, reward=Number(low=low, high=high), terminates=True
    )


def train_continuous(
    agent: ContinuousAgent,
    env: Ranged,
    episodes: int,
    rng: np.random.Generator,
    *,
    callback: Callback | None = None,
    checkpoint: object = None,
) -> Earned:
    """Train an agent for some episodes, and return what it earned in each; not private.

    Raises
    ------
    ValueError
        If more episodes are asked for than are planned and left, the environment does not fit, or
        a checkpoint is asked for.
    """
    if checkpoint is not None:
        raise ValueError(
            "checkpoint must be None for the agent that learns without bins; leave out "
            "--checkpoint-every, or pass --bins."
        )
    check_steps_alone(env, by_episode=agent._by_episode)
    states, n = (agent.schema.n_state,), getattr(env.action_space, "n", None)
    if env.observation_space.shape != states or n != agent.schema.n_actions:
        raise ValueError(
            f"env must have the agent's {states[0]} numbers and {agent.schema.n_actions} actions, "
            f"got {env.observation_space} and {env.action_space}."
        )
    rewards, draws = [], []
    with agent._lock:  # one at a time: an episode has the steps of one environment
        first, left = agent.episodes_done, agent.episodes - agent.episodes_done
        if check_count("episodes", episodes) > left:
            raise ValueError(
                f"episodes must be at most {left}, which are left of the {agent.episodes} that the "
                f"agent is planned for, got {episodes}; plan for the total when you make the "
                "agent: PSRL.private(env, episodes=...)."
            )
        learns_in(agent, env)
        for episode in range(first, first + episodes):
            agent.begin_episode(episode)
            seed = int(rng.integers(2**31)) if episode == first else None
            rewards.append(_one_episode(agent, env, seed))
            draws.append(agent.draws)
            if callback:
                done = episode + 1 - first
                callback(Stretch(episode, 1, done, episodes, agent.draws, np.array(rewards[-1:])))
        if agent.episodes_done == agent.episodes:
            agent.end()
    starts = list(range(first, first + episodes))
    return Earned(starts, first + episodes, np.array(rewards)[:, None], np.array(draws, np.int64))


def _one_episode(agent: ContinuousAgent, env: Ranged, seed: int | None) -> float:
    state: NDArray[np.float64] = env.reset(seed=seed)[0]
    earned = 0.0
    for step in range(agent.horizon):
        action = agent.act(state, step)
        after, reward, terminated, truncated, _ = env.step(action)
        try:
            paid = plain_float("reward", reward)
        except ValueError:
            raise ValueError(
                "env must pay numbers, and a reward is none; check its step."
            ) from None
        agent.observe(ContinuousStep(state, action, paid, after, terminated))
        earned += paid
        state = after
        if terminated or truncated:
            break
    return earned
