"""One private agent on one Gymnasium environment, from a specification to a private policy."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privrl._checks import check_between, check_count, check_positive
from privrl.accounting.targets import Rdp
from privrl.envs.arrival import Outcome, pays_on_arrival, rows_of, tables_hold
from privrl.envs.support import Support
from privrl.envs.toy_text import episode_limit, read_support
from privrl.experiments import names
from privrl.experiments.methods import SAMPLERS, Method, Task, make_agent
from privrl.experiments.training.loop import Progress, train

_NO_LIMIT = 100  # steps of an episode where the environment sets no limit


@dataclass(frozen=True)
class TrainSpec:
    """Everything that determines a training run; plain data.

    Parameters
    ----------
    env : str
        Gymnasium id of an environment with Discrete spaces.
    episodes : int
        Episodes to train for.
    horizon : int, optional
        Steps of an episode; by default the environment's own limit, or 100.
    sampler, schedule, relation : str
        Names, see `privrl.experiments.names`.
    epsilon, order : float
        Budget of the whole run: Rényi divergence (nats) of that order.
    delta : float
        At which the (epsilon, delta) is reported.
    alpha, reward_alpha : float
        Prior pseudo-counts of transitions and of reward successes and failures.
    reward_share : float
        Part of the budget that the rewards' table gets.
    reward_range : (float, float), optional
        Public range of the rewards; by default that of the environment's tables, or (0, 1). Tables
        say nothing where a wrapper may change states, actions or rewards.
    support : bool
        Whether it is public which next states are possible; then the environment's tables say so.
    seed : int, optional
        For repeatable research only: who knows it can undo the noise.

    Raises
    ------
    ValueError
        If a value is out of range or a name unknown.
    """

    env: str
    episodes: int = 1000
    horizon: int | None = None
    sampler: str = "noisy-counts"
    schedule: str = "geometric:1.05"
    epsilon: float = 1.0
    order: float = 2.0
    delta: float = 1e-5
    relation: str = "replace-step"
    alpha: float = 1.0
    reward_alpha: float = 1.0
    reward_share: float = 1 / 3
    reward_range: tuple[float, ...] | None = None
    support: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        names.lookup("sampler", self.sampler, SAMPLERS)
        names.schedule_named(self.schedule)
        names.lookup("relation", self.relation, names.RL_RELATIONS)
        check_count("episodes", self.episodes)
        if self.horizon is not None:
            check_count("horizon", self.horizon)
        Rdp(self.order, self.epsilon)
        for name in ("delta", "reward_share"):
            check_between(name, getattr(self, name), 0, 1)
        for name in ("alpha", "reward_alpha"):
            check_positive(name, getattr(self, name))
        if self.seed is not None:
            check_count("seed", self.seed, least=0)
        if self.reward_range is not None and not (
            len(self.reward_range) == 2
            and -math.inf < self.reward_range[0] < self.reward_range[1] < math.inf
        ):
            raise ValueError(
                f"reward_range must be LOW,HIGH with LOW < HIGH, got {self.reward_range!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class TrainResult:
    """What a training run leaves.

    Attributes
    ----------
    policy : array of int, shape (H, S)
        The private policy: an action for each step and state.
    record : pandas.DataFrame
        What the agent earned, see `privrl.experiments.training.loop.train`; not covered by the
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
    env = names.make_env(spec.env)
    try:
        horizon = spec.horizon or episode_limit(env) or _NO_LIMIT
        relation = names.rl_relation(
            spec.relation, horizon=horizon, arrival_rewards=_arrival_rewards(env)
        )
        private = spec.sampler != "non-private"
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
            support=_support(env) if spec.support else None,
        )
        method = Method(
            sampler=spec.sampler,
            schedule=spec.schedule,
            alpha=spec.alpha,
            reward_alpha=spec.reward_alpha,
            reward_share=spec.reward_share,
            support=spec.support,
        )
        agent = make_agent(method, task, [Rdp(spec.order, spec.epsilon) if private else None], rng)
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


def _arrival_rewards(env: gym.Env[Any, Any]) -> bool:
    """Whether rewards can depend on the next state: so it is taken unless tables rule it out."""
    return not tables_hold(env) or pays_on_arrival(env) is not False


def _support(env: gym.Env[Any, Any]) -> Support | None:
    return read_support(env, terminates=_can_terminate(env)) if tables_hold(env) else None


def _can_terminate(env: gym.Env[Any, Any]) -> bool:
    outcomes = _tables(env)
    return outcomes is None or any(terminated for _, _, _, terminated in outcomes)
