"""The example of continuous states: its network learns, and all of it runs."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tasks import TASKS

EXAMPLE = Path(__file__).parents[2] / "examples" / "continuous.py"


@pytest.fixture
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE), run_name="example")


def test_the_slope_is_that_of_hubers_loss(example: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    network = example["Network"](3, 2, rng)
    x, action, wanted = rng.normal(size=(5, 3)), np.array([0, 1, 1, 0, 1]), rng.normal(size=5)

    def loss(weights: np.ndarray) -> float:
        network.weights = weights
        gap = np.abs(network.layers(x)[-1][np.arange(5), action] - wanted)
        return float(np.where(gap < 1, gap**2 / 2, gap - 0.5).mean())

    start = network.weights.copy()
    some = rng.choice(len(start), 200, replace=False)
    slope = np.empty(len(some))
    for place, k in enumerate(some):
        near = np.zeros(len(start))
        near[k] = 1e-6
        slope[place] = (loss(start + near) - loss(start - near)) / 2e-6
    network.weights = start.copy()
    network.learn(x, action, wanted)
    np.testing.assert_allclose(network.mean[some], 0.1 * slope, atol=1e-7)  # of Adam, one step
    moved = (network.weights - start)[some]
    clear = np.abs(slope) > 1e-4
    np.testing.assert_allclose(moved[clear], -1e-3 * np.sign(slope[clear]), rtol=1e-2)


@pytest.mark.slow
def test_it_learns_and_all_of_it_runs(
    example: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    example["STEPS"]["CartPole"] = 3000
    found = example["main"]("CartPole", persons=300)
    random, true, private, part = found.values()
    assert random < 30
    assert true > 60
    assert private > 25
    assert part == pytest.approx((private - random) / (true - random))
    assert "part of the gap" in capsys.readouterr().out


def test_the_true_task_is_played_as_it_is(example: dict[str, Any]) -> None:
    task = TASKS["CartPole"]()
    env = example["TrueTask"](task)
    state, _ = env.reset(seed=1)
    wanted = task.step(state[None], task.schema.levels[[1]], np.random.default_rng(0))
    after, reward, over, cut, _ = env.step(1)
    np.testing.assert_allclose(after, wanted[0])
    assert (reward, over, cut) == (1.0, False, False)
