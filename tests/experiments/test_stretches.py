"""A stretch of episodes is played by counts or step by step, with one law and one memory."""

import math
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from made import agent_of

from privrl.agents import PSRL, Geometric, NoisyRewards, TabularAgent, TabularSetup
from privrl.agents import training as stretches
from privrl.agents.training import play
from privrl.costs.relations import ReplaceStep
from privrl.envs import TabularMDP, TabularVectorEnv, riverswim
from privrl.envs.support import Support
from privrl.experiments.training.run import train
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

CHAIN = riverswim(30, 20)
ON_ARRIVAL = riverswim(30, 20, variant="dps")


class Fixed(PSRL):
    """An agent whose policy is given."""

    given: np.ndarray

    def _plan(self, transition, reward):
        return self.given


def agent(mdp: TabularMDP, *, known: bool, batch: tuple[int, ...]) -> TabularAgent:
    made = agent_of(
        Fixed,
        mdp.n_states, mdp.n_actions, mdp.horizon, sampler=NonPrivate(),
        rewards=NoisyRewards(NonPrivate()), rng=np.random.default_rng(0),
        support=mdp.support if known else None, batch_shape=batch,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    made.given = np.asarray(rng.random((*batch, mdp.horizon, mdp.n_states)) < 0.9, np.intp)
    made.begin_episode(0)
    return made


@pytest.mark.few(9)
@pytest.mark.parametrize("mdp", [CHAIN, ON_ARRIVAL], ids=["at once", "on arrival"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_both_ways_have_one_law(mdp, known, batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """800 episodes of each run: rewards of either way are within 5.5 deviations of the value."""
    monkeypatch.setattr(stretches, "_AT_ONCE", 900)
    for large, named in ((2**20, "observe_counts"), (0, "observe_steps")):
        monkeypatch.setattr(stretches, "_LARGE", large)
        made, earned = agent(mdp, known=known, batch=batch), []
        told, tell = [], getattr(made, named)
        monkeypatch.setattr(made, named, lambda *a, f=tell, t=told, **k: (t.append(1), f(*a, **k)))
        for seed in range(400):
            earned.append(play(made, mdp, 2, np.random.default_rng(seed)))
        assert len(told) == 400
        assert np.shape(earned) == (400, *batch)
        error = np.std(earned, axis=0) / math.sqrt(400)
        wanted = 2 * mdp.policy_value(made.given)
        assert (np.abs(np.mean(earned, axis=0) - wanted) < 5.5 * error + 1e-9).all()
        steps = 800 * mdp.horizon
        counts = made._new.counts.sum(axis=(-3, -2, -1))
        np.testing.assert_array_equal(counts, np.full(batch, steps))
        paid = made._new.rewards[..., 0].sum(axis=(-2, -1))
        np.testing.assert_allclose(paid, np.sum(earned, axis=0), atol=2**-16 * steps)


@pytest.mark.parametrize("large", [2**20, 0])
def test_either_way_refuses_rewards_that_are_not_covered(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "_LARGE", large)
    made = agent(ON_ARRIVAL, known=False, batch=())
    made._uncovered = ReplaceStep()
    with pytest.raises(ValueError, match="does not cover rewards that depend on the next state"):
        play(made, ON_ARRIVAL, 2, np.random.default_rng(0))
    assert not made._new.counts.any()


def test_many_episodes_are_played_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_LARGE", 0)
    monkeypatch.setattr(stretches, "_AT_ONCE", 50)
    made = agent(CHAIN, known=False, batch=())
    play(made, CHAIN, 21, np.random.default_rng(0))  # two at a time
    assert made._new.counts.sum() == 21 * 20


@pytest.mark.parametrize(
    ("large", "env", "named"),
    [
        (2**20, CHAIN, "observe_counts"),
        (0, CHAIN, "observe_steps"),
        (2**20, TabularVectorEnv(3, CHAIN), "observe_steps"),
    ],
)
def test_an_interrupted_stretch_counts_all_episodes_that_it_recorded(
    large: int, env: TabularMDP, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the rest would add more users to a batch than local noise is planned for."""
    monkeypatch.setattr(stretches, "_LARGE", large)
    monkeypatch.setattr(stretches, "_AT_ONCE", 60)
    made = PSRL(
        TabularSetup(
            30, 2, 20, sampler=NonPrivate(), rewards=NoisyRewards(NonPrivate()),
            schedule=Geometric(2.0), rng=0,
        )
    )  # fmt: skip
    tell, told = getattr(made, named), []

    def interrupted(*given: object, **more: object) -> None:
        tell(*given, **more)
        told.append(made._new.counts.sum() / 20)
        if told[-1] > 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(made, named, interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(made, env, 63, 0)
    draws = made.schedule.starts(made.episodes_done)
    assert told[-1] == made.episodes_done - draws[-1]


@pytest.mark.parametrize("large", [2**20, 0])
@pytest.mark.parametrize(
    ("terminates", "mask", "words"),
    [
        (True, np.ones((3, 2, 4), bool), "no support with terminates=True on tables"),
        (False, np.eye(3, dtype=bool)[:, None].repeat(2, 1), "every transition that can happen"),
    ],
)
def test_a_support_that_does_not_fit_is_refused_before_the_first_draw(
    terminates: bool, mask: np.ndarray, words: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "_LARGE", large)
    made = PSRL(
        TabularSetup(
            3, 2, 4, sampler=NoisyCounts(sigma=9.0, updates=5), terminates=terminates,
            rewards=NoisyRewards(NonPrivate()), support=Support.from_mask(mask),
        )
    )  # fmt: skip
    with pytest.raises(ValueError, match=words):
        train(made, riverswim(3, 4), 5, 0)
    assert made.draws == 0
    assert not made.accountant.journal


def test_no_table_is_made_of_what_is_hardly_touched() -> None:
    """A table of 29 MB: 200 episodes between draws take less than 3."""
    n_states = 1200
    ring = np.zeros((n_states, 3, n_states))
    for action in range(3):
        ring[np.arange(n_states), action, (np.arange(n_states) + action) % n_states] = 1
    mdp = TabularMDP(ring, np.full((n_states, 3), 0.5), np.full(n_states, 1 / n_states), 20)
    made = agent(mdp, known=False, batch=())
    play(made, mdp, 1, np.random.default_rng(0))
    tracemalloc.start()
    play(made, mdp, 200, np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6
    assert made._new.counts.sum() == 201 * 20


def test_training_on_a_large_table_plays_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_LARGE", 0)
    made = agent(CHAIN, known=False, batch=())
    monkeypatch.setattr(TabularMDP, "rollout_counts", None)
    record = train(made, CHAIN, 5, np.random.default_rng(0))
    assert record["reward"].sum() == pytest.approx(
        made._rewards._sampler._total[..., 0].sum() + made._new.rewards[..., 0].sum(), abs=0.01
    )


WHEEL = os.environ.get("PRIVRL_ICU_SEPSIS")
ICU = """
import resource, sys
import numpy as np
from privrl.agents import PSRL, Geometric, NoisyRewards
from privrl.envs.icu_sepsis import icu_sepsis
from privrl.experiments import train
from privrl.samplers import NonPrivate

class Careless(PSRL):
    def _plan(self, transition, reward):
        return self._rng.integers(25, size=(20, 716))

agent = agent_of(
    Careless,
    716, 25, 20, sampler=NonPrivate(), rewards=NoisyRewards(NonPrivate()),
    rng=np.random.default_rng(0), schedule=Geometric(1.12),
)
train(agent, icu_sepsis(sys.argv[1]), 100_000, np.random.default_rng(1))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not WHEEL,
    reason="no ICU-Sepsis: 'pip download --no-deps icu-sepsis', and PRIVRL_ICU_SEPSIS says where",
)
def test_icu_sepsis_leaves_room_for_a_plan() -> None:
    """100,000 episodes, released 87 times, in a process of less than 0.75 GB."""
    done = subprocess.run(
        [sys.executable, "-c", ICU, str(WHEEL)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.75e9
