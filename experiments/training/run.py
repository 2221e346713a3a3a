"""One private agent on one Gymnasium environment, from a specification to a private policy."""

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import Annotated, Any, Final, TypeVar

import gymnasium as gym
import numpy as np
import pandas as pd

from privrl.accounting.targets import DEFAULT_DELTA, Target, target_of
from privrl.agents.checkpoints import Checkpoint
from privrl.agents.continuous import ContinuousAgent, train_continuous
from privrl.agents.methods import Method, Task, make_agent
from privrl.agents.policies import Policy
from privrl.agents.released import learns_in
from privrl.agents.tabular import TabularAgent
from privrl.agents.training import Callback, Earned, Environment, run
from privrl.continuous import ContinuousPolicy
from privrl.envs import Ranged, TabularMDP
from privrl.envs.bins import PUBLIC, check_bins
from privrl.envs.facts import PublicFacts, limits_of, public_facts, tables_hold
from privrl.envs.labels import grid_of
from privrl.envs.ranges import check_ranges
from privrl.envs.support import Support
from privrl.envs.toy_text import read_support
from privrl.envs.worth import Worth, worth
from privrl.envs.wrappers import InRange
from privrl.experiments.memory import check_memory
from privrl.experiments.names import RL_RELATIONS, make_env, named_values, rl_relation
from privrl.experiments.specs import Delta, RenyiOrder, Spec, Unit
from privrl.files.chosen import check_file, made_of
from privrl.files.fixed import read_only
from privrl.files.html import InHtml
from privrl.files.plain import lookup
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.randomness import Rng, as_rng, randomness_of, secret_rng

_Result = TypeVar("_Result")
_USUAL: Final = Method(agent="sparse-psrl")


@dataclass(frozen=True, kw_only=True)
class TrainSpec(Spec):
    """Everything that determines a training run; plain data.

    Parameters
    ----------
    env : str
        Gymnasium id of an environment, or ``module:id``; see `privrl.experiments.names.make_env`.
    env_args : tuple of str
        What it is made with, each ``name=value``.
    bins : str, optional
        What each coordinate of continuous observations is cut into, see
        `privrl.envs.bins.edges_of`, or ``"public"`` for `privrl.envs.bins.PUBLIC_BINS`. By default
        the default method learns without bins, and others use ``"public"``.
    ranges : str, optional
        Public ranges of continuous observations without bins, see `privrl.envs.Ranged`.
    method : Method
        How the agent learns.
    episodes : int
        Episodes to train for.
    horizon : int, optional
        Steps of an episode; by default the environment's own limit, or 100. The environment is
        made with this limit in place of the one that it is registered with.
    epsilon, delta : float
        The privacy of the whole run: (epsilon, delta)-differential privacy, epsilon in nats; a
        delta of 0 is pure privacy.
    renyi_order : float, optional
        In place of delta: makes the budget a Renyi divergence of this order, > 1.
    relation : str
        What one neighbour changes, one of `privrl.experiments.names.RL_RELATIONS`.
    reward_range : (float, float), optional
        Public range of the rewards; by default that of the environment's tables or its
        ``reward_range``, or what is well known, or (0, 1); see `privrl.envs.facts.public_facts`.
    seed : int, optional
        For repeatable research only: who knows it can undo the noise.

    Raises
    ------
    ValueError
        If a value is out of range or a name unknown.
    """

    env: Annotated[str, "Gymnasium id of an environment, or module:id."]
    method: Method = field(default=_USUAL)
    env_args: Annotated[
        tuple[str, ...], "What it is made with, name=value; give it again for each."
    ] = ()
    bins: Annotated[
        str | None,
        "What continuous observations are cut into: public, 12, or LOW:HIGH:NUMBER or EDGE/EDGE "
        "for each coordinate, with commas between. Without, the default agent needs none.",
    ] = None
    ranges: Annotated[
        str | None,
        "Public ranges of continuous observations: LOW:HIGH for each coordinate, or angle for a "
        "cosine and a sine, with commas between.",
    ] = None
    episodes: Annotated[int, "Episodes to train for."] = 1000
    horizon: Annotated[
        int | None, "Steps of an episode; by default the environment's limit, or 100."
    ] = None
    epsilon: Annotated[float, "The privacy budget of the whole run, in nats."] = 1.0
    delta: Delta = DEFAULT_DELTA
    renyi_order: RenyiOrder = None
    relation: Unit = "replace-step"
    reward_range: Annotated[
        tuple[float, ...] | None,
        "Public range of the rewards, LOW,HIGH; by default what the environment tells, or 0,1.",
    ] = None
    seed: Annotated[
        int | None,
        "For repeatable research only, with --reproducible: who knows the seed can undo the noise. "
        "By default randomness is secret.",
    ] = None

    def __post_init__(self) -> None:
        lookup("relation", self.relation, RL_RELATIONS)
        named_values(self.env_args)
        if self.bins not in (None, PUBLIC):
            check_bins(self.bins)
        if self.ranges is not None:
            check_ranges(self.ranges)
        check_count("episodes", self.episodes)
        if self.horizon is not None:
            check_count("horizon", self.horizon)
        if self.renyi_order is not None and self.delta != DEFAULT_DELTA:
            raise ValueError(
                "delta must be left out with renyi_order, which bounds a divergence; it is "
                f"reported at 1e-5, got {shown(self.delta)}."
            )
        self.target  # noqa: B018 # checks its numbers
        if self.seed is not None:
            check_count("seed", self.seed, least=0)
        if self.reward_range is not None and not (
            len(self.reward_range) == 2
            and -math.inf < self.reward_range[0] < self.reward_range[1] < math.inf
        ):
            raise ValueError(
                f"reward_range must be LOW,HIGH with LOW < HIGH, got {shown(self.reward_range)}."
            )

    @property
    def target(self) -> Target:
        """The privacy of the whole run."""
        return target_of(self.epsilon, self.delta, self.renyi_order)

    @property
    def takes_numbers(self) -> bool:
        """Whether continuous observations are learned from without bins."""
        return self.bins is None and self.method == _USUAL


@dataclass(frozen=True)
class TrainResult(InHtml):
    """The result of a training run.

    Attributes
    ----------
    policy : Policy or ContinuousPolicy
        The private policy: an action for each step and state, and what it cost.
    record : pandas.DataFrame
        The agent's rewards, see `privrl.experiments.train`; the guarantee does not cover them.
    guarantee : dict
        What the policy cost: relation, order and epsilon, delta and epsilon, draws, randomness, and
        caveats: reasons why this is no guarantee. Epsilons are None without privacy.
    worth : Worth or None
        What the policy is worth by the environment's tables, beside optimum and chance; None
        where it has none. As the tables are public, it tells no more than the policy does.
    grid : tuple of str, or None
        Rows of the map, a letter a cell, where the states are its cells: public.
    """

    policy: Policy | ContinuousPolicy
    record: pd.DataFrame
    guarantee: dict[str, Any]
    worth: Worth | None
    grid: tuple[str, ...] | None


def run_training(
    spec: TrainSpec, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None
) -> TrainResult:
    """Train one agent; see `privrl.experiments.train` for what a checkpoint is.

    Raises
    ------
    ValueError
        If the environment does not exist, its spaces cannot be numbered, its episodes are shorter
        than the horizon, or it pays a reward outside the range.
    """
    check_is("spec", spec, TrainSpec)
    env = make_env(
        spec.env,
        spec.env_args,
        bins=spec.bins,
        horizon=spec.horizon,
        ranges=spec.ranges,
        continuous=spec.takes_numbers,
    )
    try:
        if isinstance(env, Ranged):
            return _run_continuous(spec, env, callback, checkpoint)
        facts = public_facts(env, horizon=spec.horizon, reward_range=_two(spec.reward_range))
        relation = rl_relation(
            spec.relation, horizon=facts.horizon, arrival_rewards=facts.arrival_rewards
        )
        rng, env_rng = _generators(spec.seed)
        task = Task.of(
            facts,
            relation=relation,
            episodes=spec.episodes,
            support=_support(env, facts) if spec.method.support else None,
            **_told_by_tables(spec.method, env, facts.horizon),
        )
        width = task.support.width if task.support else task.n_states + task.terminates
        check_memory(spec.method, (task.n_states, task.n_actions, width), spec.episodes)
        agent = make_agent(
            spec.method, task, [spec.target if spec.method.is_private else None], rng
        )
        learns_in(agent, env)
        _check_files(agent)
        checked = InRange(env, *facts.reward_range)
        nowhere = np.zeros((1, agent.n_states), np.intp)  # what fails here has cost nothing yet
        named, grid = Policy.of(nowhere, agent.n_actions, env), grid_of(env)
        record = train(
            agent, checked, spec.episodes, env_rng, callback=callback, checkpoint=checkpoint
        )
        policy = agent.to_policy()
        value = _or_warning("its tables give no value", lambda: _worth(env, policy))
    finally:
        _or_warning("it could not be closed", env.close)
    nothing: dict[str, Any] = {
        "relation": str(relation),
        "order": None,
        "epsilon": None,
        "delta": DEFAULT_DELTA,
        "epsilon_delta": None,
        "draws": agent.draws,
        "randomness": randomness_of(rng),
        "caveats": [],
    }
    guarantee = _with_seed(policy.guarantee or nothing, spec.seed)
    policy = made_of(policy, replace(named, actions=policy.actions, guarantee=guarantee))
    return TrainResult(policy, record, guarantee, value, grid)


def _run_continuous(
    spec: TrainSpec, env: Ranged, callback: Callback | None, checkpoint: Checkpoint | None
) -> TrainResult:
    steps, _ = limits_of(env, spec.horizon)
    rng, env_rng = _generators(spec.seed)
    agent = ContinuousAgent.private(
        env,
        target=spec.target,
        episodes=spec.episodes,
        horizon=spec.horizon,
        reward_range=_two(spec.reward_range),
        relation=rl_relation(spec.relation, horizon=steps, arrival_rewards=True),
        rng=rng,
    )
    _check_files(agent)
    record = train(agent, env, spec.episodes, env_rng, callback=callback, checkpoint=checkpoint)
    guarantee = _with_seed(agent.guarantee(), spec.seed)
    policy = agent.to_policy(guarantee["caveats"])
    return TrainResult(policy, record, guarantee, None, None)


def _check_files(agent: TabularAgent | ContinuousAgent) -> None:
    """Check, before anything is spent, that files may hold what an agent learns."""
    check_file(agent)
    if None in agent._environments:
        raise ValueError(
            "env must hold a model that was released with privacy: what is learned in a fit "
            "without privacy is private data, and no file may hold it."
        )


def _worth(env: gym.Env[Any, Any], policy: Policy) -> Worth | None:
    with np.errstate(all="ignore"):
        found = worth(env, policy.actions)
    if found is not None and not np.isfinite(astuple(found)).all():
        raise OverflowError  # no file holds it
    return found


def _or_warning(said: str, call: Callable[[], _Result]) -> _Result | None:
    """Return what a call returns; its errors must not lose a policy that was paid for."""
    try:
        return call()
    except (Exception, SystemExit) as error:
        with suppress(UserWarning):  # raised where warnings are errors
            # Its own text may hold the state that it is in.
            warnings.warn(f"env: {said}: {type(error).__name__}", stacklevel=3)
        return None


def _with_seed(guarantee: Mapping[str, Any], seed: int | None) -> Any:
    said = [] if seed is None else ["whoever knows the seed can undo the noise"]
    return read_only({**guarantee, "caveats": [*said, *guarantee["caveats"]]})


def _generators(seed: int | None) -> list[np.random.Generator]:
    """Return the agent's randomness and the environment's."""
    if seed is None:
        return [secret_rng(), secret_rng()]
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)]


def _two(reward_range: tuple[float, ...] | None) -> tuple[float, float] | None:
    return None if reward_range is None else (reward_range[0], reward_range[1])


def _told_by_tables(method: Method, env: gym.Env[Any, Any], horizon: int) -> dict[str, Any]:
    """Return the facts that only some methods take for public, from an environment's tables."""
    if not method.needs_tables or not tables_hold(env):
        return {}
    mdp = TabularMDP.from_gymnasium(env, horizon)
    states = int(env.observation_space.n)  # type: ignore[attr-defined] # an end may be appended
    policy, _ = mdp.plan()
    return {"expected_reward": mdp.expected_reward[:states], "best_policy": policy[:, :states]}


def _support(env: gym.Env[Any, Any], facts: PublicFacts) -> Support | None:
    return read_support(env, terminates=facts.terminates) if tables_hold(env) else None


def train(
    agent: TabularAgent | ContinuousAgent,
    env: Environment,
    episodes: int,
    rng: Rng = None,
    *,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> pd.DataFrame:
    """Train an agent and record what it earned.

    A second call continues the first: episodes, the schedule and, in the same environment, the
    random numbers continue. Two calls equal one call with all their episodes: bit for bit in a
    single Gymnasium environment, and elsewhere if the first call ends with a stretch; otherwise
    in distribution. Plan budget and draws for the total when you make the agent.

    Parameters
    ----------
    agent : TabularAgent or ContinuousAgent
        Learns; its policy afterwards is ``agent.policy``.
    env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP
        Where it learns. A Gymnasium environment needs Discrete spaces, and a single run. In a
        vector environment, whatever its autoreset mode, an agent with ``batch_shape ==
        (num_envs,)`` learns an independent run in each environment; the environments of an
        agent that is a single run play its episodes side by side, as many at once as the
        policy stays for. They also begin episodes that do not count, while others play on: a
        reset must not take the next person's record.
    episodes : int
        How many more in each run, >= 1.
    rng : numpy.random.Generator, int or None
        The environment's randomness (the agent has its own).
    callback : callable, optional
        Is called with a `privrl.agents.training.Stretch` after each stretch of episodes under one
        policy; see `privrl.experiments.callbacks`.
    checkpoint : Checkpoint, optional
        Where the run is saved. If the file exists, the run resumes from it, with an unused agent
        of the same settings: the same call after a stop gives the same results, bit for bit. (The
        environment is then seeded before every episode, and must follow from its seeds.)

    Returns
    -------
    pandas.DataFrame
        A row for each stretch of episodes under one policy (in a single Gymnasium environment,
        for each episode) and each run: ``run`` (0 for a single one), ``episode`` the first of the
        stretch, ``episodes`` their number, ``reward`` their sum, ``draws`` made so far. This
        is the researcher's view: the guarantee covers the policy, not this record.

    Raises
    ------
    BudgetExceeded
        If the agent's budget does not last.
    ValueError
        If agent and environment do not fit together, so many episodes take more draws than the
        agent's sampler has left, a reward leaves the declared range, or rewards may be paid on
        arrival and the agent's relation does not cover that. That they are not is shown by the
        environment's public tables (``P``, or a `TabularMDP`) or declared by its attribute
        ``arrival_rewards = False``, if no unknown wrapper changes rewards.
    """
    more: Any = {"callback": callback, "checkpoint": checkpoint}
    if isinstance(agent, ContinuousAgent):
        if not isinstance(env, Ranged):
            env = Ranged(env)  # type: ignore[arg-type] # it refuses what is no environment
        return _record(train_continuous(agent, env, episodes, as_rng(rng), **more))
    return _record(run(agent, env, episodes, as_rng(rng), **more))


def _record(earned: Earned) -> pd.DataFrame:
    """Return a row for each stretch and run."""
    starts, runs = earned.starts, earned.reward.shape[1]
    return pd.DataFrame(
        {
            "run": np.tile(np.arange(runs), len(starts)),
            "episode": np.repeat(starts, runs),
            "episodes": np.repeat(np.diff([*starts, earned.last]), runs),
            "reward": earned.reward.ravel(),
            "draws": np.repeat(earned.draws, runs),
        }
    )
