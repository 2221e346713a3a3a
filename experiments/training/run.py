"""One private agent on one Gymnasium environment, from a specification to a private policy."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privrl._checks import check_between, check_count
from privrl.accounting.targets import Rdp
from privrl.envs import TabularMDP
from privrl.envs.arrival import Outcome, pays_on_arrival, rows_of, tables_hold
from privrl.envs.support import Support
from privrl.envs.toy_text import episode_limit, read_support
from privrl.experiments.methods import Method, Task, make_agent
from privrl.experiments.names import RL_RELATIONS, lookup, make_env, rl_relation
from privrl.experiments.specs import Delta, Order, Spec, Unit
from privrl.experiments.training.loop import Progress, train

_NO_LIMIT = 100  # steps of an episode where the environment sets no limit


@dataclass(frozen=True, kw_only=True)
class TrainSpec(Spec):
    """Everything that determines a training run; plain data.

    Parameters
    ----------
    env : str
        Gymnasium id of an environment with Discrete spaces.
    method : Method
        How the agent learns.
    episodes : int
        Episodes to train for.
    horizon : int, optional
        Steps of an episode; by default the environment's own limit, or 100.
    epsilon, order : float
        Budget of the whole run: Rényi divergence (nats) of that order.
    delta : float
        At which the (epsilon, delta) is reported.
    relation : str
        What one neighbour changes, one of `privrl.experiments.names.RL_RELATIONS`.
    reward_range : (float, float), optional
        Public range of the rewards; by default that of the environment's tables, or (0, 1). Tables
        say nothing where a wrapper may change states, actions or rewards.
    seed : int, optional
        For repeatable research only: who knows it can undo the noise.

    Raises
    ------
    ValueError
        If a value is out of range or a name unknown.
    """

    env: Annotated[str, "Gymnasium id of an environment with Discrete spaces."]
    method: Method = field(default=Method())
    episodes: Annotated[int, "Episodes to train for."] = 1000
    horizon: Annotated[
        int | None, "Steps of an episode; by default the environment's limit, or 100."
    ] = None
    epsilon: Annotated[float, "Budget of the whole run, in nats."] = 1.0
    order: Order = 2.0
    delta: Delta = 1e-5
    relation: Unit = "replace-step"
    reward_range: Annotated[
        tuple[float, ...] | None,
        "Public range of the rewards, LOW,HIGH; by default that of the environment's tables, or "
        "0,1.",
    ] = None
    seed: Annotated[
        int | None,
        "For repeatable research only: who knows the seed can undo the noise. By default fresh "
        "randomness.",
    ] = None

    def __post_init__(self) -> None:
        lookup("relation", self.relation, RL_RELATIONS)
        check_count("episodes", self.episodes)
        if self.horizon is not None:
            check_count("horizon", self.horizon)
        Rdp(self.order, self.epsilon)
        check_between("delta", self.delta, 0, 1)
        if self.seed is not None:
            check_count("seed", self.seed, least=0)
        if self.reward_range is not None and not (
            len(self.reward_range) == 2
            and -math.inf < self.reward_range[0] < self.reward_range[1] < math.inf
        ):
            raise ValueError(
                f"reward_range must be LOW,HIGH with LOW < HIGH, got {self.reward_range!r}."
            )


@dataclass(frozen=True)
class TrainResult:
    """What a training run leaves.

    Attributes
    ----------
    policy : array of int, shape (H, S)
        The private policy: an action for each step and state.
    record : pandas.DataFrame
        What the agent earned, see `privrl.experiments.train`; not covered by the
        guarantee.
    guarantee : dict
        What the policy cost: relation, order and epsilon, delta and epsilon, draws, and
        caveats: reasons why this is no guarantee. Epsilons are None without privacy.
    """

    policy: NDArray[np.intp]
    record: pd.DataFrame
    guarantee: dict[str, Any]


def run_training(spec: TrainSpec, *, on_progress: Progress | None = None) -> TrainResult:
    """Train one agent.

    Raises
    ------
    ValueError
        If the environment does not exist, has other than Discrete spaces, or pays a reward
        outside the range.
    """
    env = make_env(spec.env)
    try:
        horizon = spec.horizon or episode_limit(env) or _NO_LIMIT
        relation = rl_relation(
            spec.relation, horizon=horizon, arrival_rewards=_arrival_rewards(env)
        )
        private = spec.method.is_private
        rng, env_rng = (
            np.random.default_rng(s) for s in np.random.SeedSequence(spec.seed).spawn(2)
        )
        task = Task(
            n_states=int(env.observation_space.n),  # type: ignore[attr-defined] # Discrete, checked
            n_actions=int(env.action_space.n),  # type: ignore[attr-defined]
            horizon=horizon,
            reward_range=_reward_range(spec, env),
            relation=relation,
            episodes=spec.episodes,
            terminates=_can_terminate(env),
            support=_support(env) if spec.method.support else None,
            **_told_by_tables(spec.method, env, horizon),
        )
        budget = Rdp(spec.order, spec.epsilon) if private else None
        agent = make_agent(spec.method, task, [budget], rng)
        record = train(agent, env, spec.episodes, env_rng, on_progress=on_progress)
    finally:
        env.close()
    spent = agent.accountant
    guarantee = {
        "relation": str(relation),
        "order": spec.order,
        "epsilon": float(spent.spent(spec.order)) if private else None,
        "delta": spec.delta,
        "epsilon_delta": float(spent.epsilon(spec.delta)) if private else None,
        "draws": agent.draws,
        "caveats": _caveats(spec),
    }
    return TrainResult(agent.policy, record, guarantee)


def _caveats(spec: TrainSpec) -> list[str]:
    caveats = []
    if spec.seed is not None:
        caveats.append("whoever knows the seed can undo the noise")
    if spec.relation == "paper-step":
        caveats.append("the paper's sensitivity is too small")
    return caveats


def _tables(env: gym.Env[Any, Any]) -> list[Outcome] | None:
    """Return what can happen by an environment's public tables, if they say what is learned of."""
    if not tables_hold(env):
        return None
    return [outcome for row in rows_of(env.unwrapped.P) for outcome in row]  # type: ignore[attr-defined] # it holds


def _reward_range(spec: TrainSpec, env: gym.Env[Any, Any]) -> tuple[float, float]:
    outcomes = _tables(env)
    if outcomes is None:
        low, high = spec.reward_range or (0.0, 1.0)
        return low, high
    rewards = [float(paid) for _, _, paid, _ in outcomes]
    low, high = spec.reward_range or (min(rewards), max(rewards))
    if not low <= min(rewards) <= max(rewards) <= high:
        raise ValueError(
            f"reward_range must hold all rewards of {spec.env!r}, from {min(rewards):g} to "
            f"{max(rewards):g}, got {low:g},{high:g}."
        )
    return low, high


def _told_by_tables(method: Method, env: gym.Env[Any, Any], horizon: int) -> dict[str, Any]:
    """Return the facts that only some methods take for public, from an environment's tables."""
    wanted = method.agent == "oracle" or method.rewards == "known"
    if not wanted or not tables_hold(env):
        return {}
    mdp = TabularMDP.from_gymnasium(env, horizon)
    states = int(env.observation_space.n)  # type: ignore[attr-defined] # an end may be appended
    policy, _ = mdp.plan()
    return {
        "expected_reward": mdp.expected_reward[:states],
        "best_policy": policy[:, :states],
    }


def _arrival_rewards(env: gym.Env[Any, Any]) -> bool:
    """Whether rewards can depend on the next state: so it is taken unless tables rule it out."""
    return not tables_hold(env) or pays_on_arrival(env) is not False


def _support(env: gym.Env[Any, Any]) -> Support | None:
    return read_support(env, terminates=_can_terminate(env)) if tables_hold(env) else None


def _can_terminate(env: gym.Env[Any, Any]) -> bool:
    outcomes = _tables(env)
    return outcomes is None or any(terminated for _, _, _, terminated in outcomes)
