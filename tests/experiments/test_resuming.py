"""Training that goes on: two calls are one of all their episodes."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from made import agent_of

from privrl.accounting import BudgetExceeded, RdpAccountant, RenyiDP
from privrl.agents import (
    PSRL,
    EveryEpisode,
    Geometric,
    KnownRewards,
    NoisyRewards,
    TabularAgent,
)
from privrl.envs import riverswim
from privrl.envs.exploration import deep_sea
from privrl.envs.riverswim import RiverSwimEnv
from privrl.envs.vector import RiverSwimVectorEnv
from privrl.experiments import train
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts

SIZES = {"n_states": 4, "n_actions": 2, "horizon": 6}
SCHEDULE = Geometric(1.5)
PLANNED = len(SCHEDULE.starts(40))


def learner(sizes: dict[str, int] = SIZES, **options: Any) -> PSRL:
    def counts(table: str) -> NoisyCounts:
        return NoisyCounts(sigma=0.5, updates=PLANNED, table=table)

    return agent_of(
        PSRL,
        **sizes,
        rng=np.random.default_rng(1),
        **{
            "sampler": counts("transitions"),
            "rewards": NoisyRewards(counts("rewards"), low=-1.0),
            "schedule": SCHEDULE,
            "accountant": RdpAccountant(),
            **options,
        },
    )


def parts(agent: TabularAgent, make: Callable[[], Any], *episodes: int) -> pd.DataFrame:
    env, rng = make(), np.random.default_rng(2)
    return pd.concat([train(agent, env, each, rng) for each in episodes], ignore_index=True)


def alone() -> Any:
    return gym.make("privrl/RiverSwim-v0", n_states=4, horizon=6)


def side_by_side() -> Any:
    return RiverSwimVectorEnv(3, n_states=4, horizon=6)


def tables() -> Any:
    return riverswim(4, 6)


SPLITS = {
    "alone": (alone, {}, (1, 8, 13)),
    "tables": (tables, {}, (SCHEDULE.starts(40)[4],)),
    "tables, several runs": (tables, {"batch_shape": (5,)}, (SCHEDULE.starts(40)[3],)),
    "side by side": (side_by_side, {}, (SCHEDULE.starts(40)[4],)),
    "side by side, several runs": (side_by_side, {"batch_shape": (3,)}, (SCHEDULE.starts(40)[4],)),
}


@pytest.mark.parametrize(("make", "options", "firsts"), SPLITS.values(), ids=SPLITS)
def test_two_calls_are_one(
    make: Callable[[], Any], options: dict[str, Any], firsts: tuple[int, ...]
) -> None:
    whole, split = learner(**options), learner(**options)
    at_once = parts(whole, make, 40)
    in_parts = parts(split, make, *firsts, 40 - sum(firsts))
    pd.testing.assert_frame_equal(in_parts, at_once)
    np.testing.assert_array_equal(split.policy, whole.policy)
    assert split.draws == whole.draws == PLANNED
    np.testing.assert_array_equal(split.accountant.rdp, whole.accountant.rdp)


def test_a_stretch_may_be_split() -> None:
    """In a task without chance not even the law can differ: there is but one way to play."""
    sizes = {"n_states": 17, "n_actions": 2, "horizon": 4}
    start, end = SCHEDULE.starts(40)[-2:]
    middle = (start + end) // 2
    whole, split = learner(sizes), learner(sizes)
    at_once = parts(whole, lambda: deep_sea(4), 40)
    in_parts = parts(split, lambda: deep_sea(4), middle, 40 - middle)
    np.testing.assert_array_equal(split.policy, whole.policy)
    assert split.draws == whole.draws
    joined = in_parts["episode"].replace(middle, start)
    summed = in_parts.groupby(joined)[["episodes", "reward"]].sum()
    wanted = at_once.groupby("episode")[["episodes", "reward"]].sum()
    pd.testing.assert_frame_equal(summed, wanted)


@pytest.mark.parametrize("make", [alone, side_by_side, tables])
def test_what_is_planned_is_the_total(make: Callable[[], Any]) -> None:
    agent = learner()
    parts(agent, make, 30)
    spent, draws, most = agent.accountant.rdp, agent.draws, SCHEDULE.starts(1000)[PLANNED]
    with pytest.raises(ValueError, match=f"episodes must be at most {most - 30} more") as refused:
        parts(agent, make, most - 30 + 1)
    assert f"{draws} of the {PLANNED} draws" in str(refused.value)
    np.testing.assert_array_equal(agent.accountant.rdp, spent)
    parts(agent, make, most - 30)
    assert agent.draws == PLANNED
    with pytest.raises(ValueError, match="episodes must be at most 0 more"):
        parts(agent, make, 1)


def test_a_budget_that_is_used_up_is_said() -> None:
    """Of draws that are paid for one by one the accountant knows when there is enough."""
    row = Diffuse.calibrated(RenyiDP(2.0, 1.0), draws=10, alpha=1.0, table="transitions")
    agent = learner(
        sampler=row,
        rewards=KnownRewards(np.zeros((4, 2))),
        schedule=EveryEpisode(),
        accountant=RdpAccountant(budget=RenyiDP(2.0, 1.0)),
    )
    parts(agent, tables, 4, 6)
    with pytest.raises(BudgetExceeded):
        parts(agent, tables, 1)
    assert agent.draws == 10


def test_another_environment_is_seeded() -> None:
    """So that all that happens follows from the generators, whichever environments there are."""
    records = []
    for _ in range(2):
        agent, rng = learner(), np.random.default_rng(2)
        train(agent, alone(), 9, rng)
        records.append(train(agent, alone(), 30, rng))
        train(agent, alone(), 1, rng)
    pd.testing.assert_frame_equal(*records)
    assert records[0]["episode"].tolist() == list(range(9, 39))


def test_another_agent_starts_afresh() -> None:
    env = alone()
    first = train(learner(), env, 9, np.random.default_rng(2))
    pd.testing.assert_frame_equal(train(learner(), env, 9, np.random.default_rng(2)), first)


class Failing(RiverSwimEnv):
    """Is interrupted in the middle of its twelfth episode."""

    arrival_rewards = False
    steps_left = 6 * 11 + 3

    def step(self, action: Any) -> Any:
        self.steps_left -= 1
        if not self.steps_left:
            raise KeyboardInterrupt
        return super().step(action)


def test_after_an_interrupt_it_goes_on_with_the_next_episode() -> None:
    """The one that was begun is over, and its draw is not made again."""
    agent, rng, env = learner(), np.random.default_rng(2), Failing(n_states=4, horizon=6)
    assert SCHEDULE.is_due(11)
    with pytest.raises(KeyboardInterrupt):
        train(agent, env, 40, rng)
    assert train(agent, env, 28, rng)["episode"].tolist() == list(range(12, 40))
    assert agent.draws == PLANNED
