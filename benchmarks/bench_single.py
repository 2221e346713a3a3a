"""One run on one Gymnasium environment: what the agent adds to the environment's own stepping."""

import gymnasium as gym
import numpy as np
import pytest

from privrl.agents import PSRL, BetaRewards, Geometric, NoisyRewards, TabularSetup
from privrl.costs import ReplaceStep
from privrl.experiments import train
from privrl.samplers import Diffuse, NoisyCounts

_HORIZON = 100
_SCHEDULE = Geometric(1.05)
_PAID = {"relation": ReplaceStep(arrival_rewards=True)}  # as FrozenLake does


class _Recording(gym.Wrapper):
    """Keep the actions of every episode."""

    def __init__(self, env):
        super().__init__(env)
        self.played = []

    def reset(self, *, seed=None, options=None):
        self.played.append([])
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        self.played[-1].append(action)
        return self.env.step(action)


def _agent(kind, episodes):
    draws = len(_SCHEDULE.starts(episodes))
    sampler, paid = (
        Diffuse(weight=0.1, **_PAID),
        BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards", **_PAID)),
    )
    if kind == "noisy counts":
        sampler = NoisyCounts(sigma=5.0, updates=draws, **_PAID)
        paid = NoisyRewards(NoisyCounts(sigma=5.0, updates=draws, table="rewards", **_PAID))
    return PSRL(
        TabularSetup(
            16,
            4,
            _HORIZON,
            sampler=sampler,
            rewards=paid,
            rng=np.random.default_rng(0),
            schedule=_SCHEDULE,
            terminates=True,
        )
    )


@pytest.fixture(
    scope="module",
    params=[
        (kind, episodes)
        for kind in ("noisy counts", "Dirichlet draws")
        for episodes in (1000, 3000, 10_000)
    ],
    ids=str,
)
def played(request, quick):
    """Return the kind of agent, how many episodes, and the actions it takes in them."""
    kind, episodes = request.param
    if quick and episodes > 3000:
        pytest.skip("a quick run plays fewer")
    env = _Recording(gym.make("FrozenLake-v1"))
    train(_agent(kind, episodes), env, episodes, np.random.default_rng(1))
    return kind, episodes, env.played


def test_train(measure, played):
    kind, episodes, actions = played

    def learn() -> None:
        agent = _agent(kind, episodes)
        train(agent, gym.make("FrozenLake-v1"), episodes, np.random.default_rng(1))

    measure(f"train, {kind}", learn, at=episodes, work=sum(map(len, actions)), rounds=3)


def test_own(measure, played):
    """The same actions from the same seed, so the same episodes, in a loop without an agent."""
    kind, episodes, actions = played
    seed = int(np.random.default_rng(1).integers(2**31))  # as train draws it

    def replay() -> None:
        env = gym.make("FrozenLake-v1")
        env.reset(seed=seed)
        for i, episode in enumerate(actions):
            if i:
                env.reset()
            for action in episode:
                _, _, terminated, truncated, _ = env.step(action)
            assert terminated or truncated, "these are other episodes than those of train"

    measure(f"own, {kind}", replay, at=episodes, work=sum(map(len, actions)), rounds=3)
