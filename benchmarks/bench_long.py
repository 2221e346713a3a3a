"""Very many episodes under geometric schedules: simulated as counts, not one by one."""

import numpy as np
import pytest

from privrl.accounting import RenyiDP
from privrl.agents import PSRL, BetaRewards, Geometric, KnownRewards, NoisyRewards, TabularSetup
from privrl.agents.training import learn_counts
from privrl.envs import riverswim
from privrl.samplers import Diffuse, NoisyCounts

_RUNS = 200


@pytest.mark.parametrize("ratio", [1.05, 1.2])
@pytest.mark.parametrize("kind", ["known rewards", "private rewards", "noisy counts"])
def test_billion(measure, kind, ratio):
    _learn(measure, f"{kind}, {ratio}", kind, ratio, 10**9)


@pytest.mark.parametrize("exponent", range(3, 11))
@pytest.mark.parametrize("kind", ["known rewards", "noisy counts"])
def test_episodes(measure, quick, kind, exponent):
    if quick and exponent not in (3, 6, 9):
        pytest.skip("a quick run measures a few")
    _learn(measure, f"{kind} by episodes", kind, 1.2, 10**exponent)


def _learn(measure, what, kind, ratio, episodes):
    mdp = riverswim()
    draws = len(Geometric(ratio).starts(episodes))

    def agent():
        sampler, rewards = Diffuse(weight=0.1), KnownRewards(mdp.expected_reward)
        if kind == "private rewards":
            rewards = BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"))
        elif kind == "noisy counts":
            sampler = NoisyCounts.calibrated(RenyiDP(2, 1.0), draws=draws)
            paid = NoisyCounts.calibrated(RenyiDP(2, 0.5), draws=draws, table="rewards")
            rewards = NoisyRewards(paid)
        return PSRL(
            TabularSetup(
                mdp.n_states,
                mdp.n_actions,
                mdp.horizon,
                sampler=sampler,
                rewards=rewards,
                rng=np.random.default_rng(0),
                batch_shape=(_RUNS,),
                schedule=Geometric(ratio),
            )
        )

    def learn(agent) -> None:
        learn_counts(agent, mdp, episodes, np.random.default_rng(1))

    measure(what, learn, at=episodes, work=draws, setup=agent, rounds=1)
