"""The example in one file against the library: the same numbers, and the same policies."""

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import RenyiDP
from privrl.agents import Geometric, TabularAgent
from privrl.agents.methods import Method, Task, make_agent
from privrl.agents.setup import self_loops
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import DAMPED, ReplaceStep
from privrl.envs import plan, riverswim
from privrl.samplers import noisy_counts
from privrl.samplers.factorisations import Factorisation, factorise
from privrl.samplers.innovations import Innovations
from privrl.samplers.noisy_counts import NoisyCounts, NoisyPosterior

FILE = Path(__file__).parents[2] / "examples" / "one_file_psrl.py"
RIVER = riverswim(6, 30)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_it_needs_numpy_alone() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    imported = [line for line in lines if line.startswith(("import", "from"))]
    assert imported == ["import math", "import numpy as np"]


def test_the_task_is_the_library_s() -> None:
    chance, reward = example.riverswim()
    np.testing.assert_array_equal(chance, RIVER.transition)
    np.testing.assert_array_equal(reward, RIVER.reward)
    assert RIVER.start[0] == 1
    assert RIVER.horizon == example.HORIZON


def test_the_planner_is_the_library_s() -> None:
    for seed in range(20):
        chance = rng(seed).dirichlet(np.ones(6), (6, 2))
        reward = rng(100 + seed).random((6, 2))
        policy, value = example.plan(chance, reward)
        best, values = plan(chance, reward, 30)
        np.testing.assert_array_equal(policy, best)
        assert value == pytest.approx(values[0], rel=1e-12)


@pytest.mark.slow
def test_playing_has_the_law_of_the_river() -> None:
    """The mean reward of 100,000 episodes, within 6 standard errors of the exact value.

    An episode pays 0 to 30, so that the variance is at most ``value * (30 − value)``. The power
    check: a chance of 0.37 in place of 0.35 is noticed.
    """
    episodes = 100_000
    policy, value = RIVER.plan()
    wrong = RIVER.transition.copy()
    wrong[1:-1, 1] += 0.02 * (np.eye(6, k=1) - np.eye(6))[1:-1]

    def off(chance: np.ndarray) -> float:
        counts = example.play(chance, policy, episodes, rng(2))
        assert counts.sum() == episodes * 30
        return abs(float((counts.sum(-1) * RIVER.reward).sum()) / episodes - value)

    reach = 6 * math.sqrt(value * (30 - value) / episodes)
    assert off(RIVER.transition) < reach < off(wrong)


@pytest.mark.parametrize("episodes", [1, 2, 100, 9_999, 10_000])
def test_the_schedule_is_the_library_s(episodes: int) -> None:
    assert example.draw_starts(episodes) == Geometric(example.GROWTH).starts(episodes)


@pytest.mark.parametrize("n", [1, 2, 7, 32, 300])
def test_the_factorisation_is_the_library_s(n: int) -> None:
    """But for the last sum, in which the library has less noise."""
    root = example.square_root(n)
    np.testing.assert_array_equal(root[:-1], factorise("square-root", n).left[:-1])
    np.testing.assert_allclose(root @ root, np.tril(np.ones((n, n))), atol=1e-13)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("table", ["transitions", "rewards"])
def test_the_noise_is_as_the_library_calibrates_it(table: str, epsilon: float) -> None:
    change = example.STEP_CHANGE if table == "transitions" else example.REWARD_CHANGE
    loops = self_loops(6, 2) if table == "transitions" else None
    sampler = NoisyCounts.calibrated(
        RenyiDP(example.ORDER, epsilon), draws=32, relation=ReplaceStep(), table=table, loops=loops
    )
    sigma = example.noise_size(epsilon, change)
    assert sigma == pytest.approx(float(sampler.sigma), rel=1e-11)
    root = example.square_root(32)
    norm = math.sqrt((root**2).sum(axis=0).max())
    deviations = norm * sigma * np.sqrt((root**2).sum(axis=1))
    # The library rounds, and makes its noise louder by what that might show.
    np.testing.assert_allclose(deviations[:-1], sampler.deviations[:-1], rtol=1e-9)
    np.testing.assert_array_equal(example.LOUDER[..., :] > 1, self_loops(6, 2)[:, :1])


def test_a_step_changes_no_more_than_the_example_says() -> None:
    for table, change in ((DAMPED, example.STEP_CHANGE), ("rewards", example.REWARD_CHANGE)):
        norms = [math.hypot(*vector) for vector in ReplaceStep().changes(table)]
        assert max(norms) == pytest.approx(change, rel=1e-15)


def test_the_posterior_is_the_library_s() -> None:
    noisy, deviation = rng(3).normal(3, 9, (6, 2, 6)), 2.5 * example.LOUDER
    alpha = example.posterior(noisy, deviation)
    prior = np.full((1, 1, 1), example.PRIOR)
    released = NoisyPosterior(noisy, deviation, prior, example.THRESHOLD)
    np.testing.assert_array_equal(alpha / alpha.sum(-1, keepdims=True), released.mean)
    # The library keeps 30 bits of what it draws.
    np.testing.assert_allclose(
        example.sample(alpha, rng(4)), released.sample(rng(4)), rtol=2**-28, atol=0
    )


def agent(seed: int, episodes: int, epsilon: float) -> TabularAgent:
    method = Method(schedule=f"geometric:{example.GROWTH}", reward_share=example.REWARD_SHARE)
    task = Task(
        n_states=6,
        n_actions=2,
        horizon=30,
        reward_range=(0.0, 1.0),
        relation=ReplaceStep(),
        episodes=episodes,
    )
    return make_agent(method, task, [RenyiDP(example.ORDER, epsilon)], rng(seed))


def floats(
    innovations: Innovations, factors: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Fresh noise as the example draws it, in floats: the library's own is exact and discrete."""
    (size, _), loops = innovations._groups[0], innovations._loops
    louder = 1.0 if loops is None else np.where(loops, np.sqrt(2.0), 1.0)
    noise = generator.standard_normal((len(factors), *innovations.shape)) * louder * size
    return noise * factors.reshape(-1, *[1] * len(innovations.shape))


@pytest.mark.few(15)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_library_follows_the_same_policies(
    epsilon: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a run that each of them plays by itself, from equal generators, with the same noise.

    The library gets the example's noise in the last sum, too.
    """

    def toeplitz(name: str, n: int) -> Factorisation:
        del name
        return Factorisation(example.square_root(n), example.square_root(n))

    monkeypatch.setattr(noisy_counts, "factorise", toeplitz)
    monkeypatch.setattr(Innovations, "draw", floats)
    episodes = 2000
    policies, earned = example.learn(episodes, epsilon, rng(seed), rng(100 + seed))
    learner, world, total = agent(seed, episodes, epsilon), rng(100 + seed), 0.0
    starts = list(learner.starts(episodes))
    for policy, start, end in zip(policies, starts, [*starts[1:], episodes], strict=True):
        learner.begin_episode(start)
        np.testing.assert_array_equal(learner.behaviour, policy)
        counts = example.play(RIVER.transition, learner.behaviour, end - start, world)
        learner.observe_counts(counts.astype(np.int64), RIVER.reward_table)
        total += float((counts * RIVER.reward_table).sum())
    assert earned == pytest.approx(total / episodes, rel=1e-12)
    assert float(learner.accountant.spent(example.ORDER)) == pytest.approx(epsilon, rel=1e-9)

    others, _ = example.learn(episodes, 1.1 * epsilon, rng(seed), rng(100 + seed))
    assert not np.array_equal(policies, others)  # what is compared depends on the noise


def test_what_it_prints_is_no_less_than_the_library_s_account(
    capsys: pytest.CaptureFixture[str],
) -> None:
    example.main(7)
    shown = capsys.readouterr().out
    share = float(shown.partition(" policies: ")[2].partition("%")[0])
    assert share > 90
    accountant = RdpAccountant()
    for table, part in ((DAMPED, 1 - example.REWARD_SHARE), ("rewards", example.REWARD_SHARE)):
        change = example.STEP_CHANGE if table == DAMPED else example.REWARD_CHANGE
        sigma = example.noise_size(part * example.EPSILON, change)
        accountant.compose(GaussianCost(sigma=sigma, relation=ReplaceStep(), table=table))
    spent = float(accountant.spent(example.ORDER))
    assert spent == pytest.approx(example.EPSILON, rel=1e-9)
    epsilon = float(accountant.epsilon(1e-5))
    printed = float(shown.rpartition("(")[2].partition(",")[0])
    assert 0.8 * printed < epsilon <= printed
