"""Streams of noisy counts: their law and their separation, and mutants that must be caught.

The size of the noise is worked out from the claim, the covariance by linear algebra; the sampler
is asked for its counts alone. False alarms: 1e-6 for each test, at fixed seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privrl.accounting.targets import RenyiDP
from privrl.audit import law_test, separation
from privrl.audit.laws import GaussianLaw, LawResult
from privrl.costs.relations import ReplaceEpisode, ReplaceStep
from privrl.samplers import factorisations
from privrl.samplers.factorisations import LocalNoise, factorise
from privrl.samplers.noisy_counts import NoisyCounts

Array = np.ndarray
NAMES = ["square-root", "optimal", "tree", "independent", "buffered"]
STATES, UPDATES = 2, 40  # more than are mixed at once
RUNS = 700
EPSILON = 2.0  # at order 2: two histories are √2 apart
LOOPS = np.array([[[True, False]], [[False, True]]])  # one action
#: Squared norms of a change, without and with self-loops damped.
NORMS = {"step": (6.0, 4.0), "episode": (2 * 4.0**2, 4.0**2)}
RELATIONS = {"step": ReplaceStep(), "episode": ReplaceEpisode(4)}
Play = Callable[[NoisyCounts, int, Array, np.random.Generator], Array]


def changed(unit: str) -> tuple[Array, Array]:
    """The batch of one step, or of one episode of four, that is replaced, and by what."""
    first, second = np.zeros((2, STATES, 1, STATES))
    if unit == "step":  # 0, 0, 0 against 0, 1, 0
        first[0, 0, 0], second[0, 0, 1], second[1, 0, 0] = 2, 1, 1
    else:  # all steps in one self-loop against all of them in the other
        first[0, 0, 0], second[1, 0, 1] = 4, 4
    return first, second


def sums(
    sampler: NoisyCounts, runs: int, batch: Array, rng: np.random.Generator, at: int = 0
) -> Array:
    """Every sum that is released of a stream with one batch, shape (updates, runs, S, 1, S)."""
    nothing = np.zeros((runs, *batch.shape))
    return np.stack(
        [sampler.update(nothing + batch * (t == at), rng).counts for t in range(UPDATES)]
    )


def noise(released: Array, batch: Array, unit: str, *, damped: bool, at: int = 0) -> Array:
    """What is not counts, over the deviation paid for, shape (runs, cells, updates)."""
    sigma = math.sqrt(NORMS[unit][damped]) / math.sqrt(EPSILON)
    left = released - (np.arange(UPDATES) >= at)[:, None, None, None, None] * batch
    if damped:
        left = np.where(LOOPS, left / math.sqrt(2), left)
    return left.reshape(UPDATES, -1, 4).transpose(1, 2, 0) / sigma


def law(name: str) -> GaussianLaw:
    factors = factorise(name, UPDATES)
    norm = float(np.linalg.norm(factors.right, axis=0).max())
    covariance = factors.left @ factors.left.T
    return GaussianLaw(sigma=norm, centre=np.zeros((4, UPDATES)), covariance=covariance)


def calibrated(name: str, unit: str, *, damped: bool, epsilon: float = EPSILON) -> NoisyCounts:
    return NoisyCounts.calibrated(
        RenyiDP(2, epsilon),
        draws=UPDATES,
        relation=RELATIONS[unit],
        factorisation=name,
        loops=LOOPS if damped else None,
    )


def examined(
    sampler: NoisyCounts, name: str, unit: str, *, damped: bool, play: Any = sums
) -> LawResult:
    batch = changed(unit)[0]
    released = play(sampler, RUNS, batch, np.random.default_rng(3))
    return law_test(noise(released, batch, unit, damped=damped), law(name))


each_stream = pytest.mark.parametrize(
    ("name", "unit", "damped"),
    [(name, "step", True) for name in NAMES]
    + [("square-root", "step", False), ("optimal", "episode", True), ("tree", "episode", False)],
)


@each_stream
def test_the_noise_is_that_paid_for(name: str, unit: str, damped: bool) -> None:
    """700 runs of 4 cells and 40 updates; 86 would do to find 5 %, the others find dependence."""
    result = examined(calibrated(name, unit, damped=damped), name, unit, damped=damped)
    assert not result.violated
    assert result.draws == RUNS >= 8 * result.needed


@pytest.mark.few(8)
@each_stream
def test_two_histories_are_as_far_apart_as_claimed(name: str, unit: str, damped: bool) -> None:
    """3,000 runs of each: ± 0.028 of 1.414. By linear algebra they are that or just less."""
    covariance = np.asarray(law(name).covariance) * law(name).sigma ** 2
    distances = []
    for t in range(UPDATES):
        later = (np.arange(UPDATES) >= t).astype(float)
        distances.append(math.sqrt(later @ np.linalg.solve(covariance, later)))
    at = int(np.argmax(distances))
    assert distances[at] == pytest.approx(1, rel=1e-9)
    later = (np.arange(UPDATES) >= at).astype(float)
    weights = np.linalg.solve(covariance, later)
    first, second = changed(unit)
    scores = []
    for seed, batch in enumerate((first, second)):
        sampler = calibrated(name, unit, damped=damped)
        released = sums(sampler, 3000, batch, np.random.default_rng(seed), at)
        seen = noise(released, second, unit, damped=damped, at=at)
        change = noise(np.zeros((UPDATES, 1, 1, 1, 1)), second - first, unit, damped=damped, at=0)
        scores.append(np.einsum("rct,t,c->r", seen, weights, change[0, :, -1]))
    result = separation(*scores, claimed=math.sqrt(EPSILON))
    assert not result.violated
    assert result.measured == pytest.approx(math.sqrt(EPSILON), abs=5 * result.deviation)


# --- mutants -----------------------------------------------------------------------------


def drawn_afresh(sampler: NoisyCounts, runs: int, batch: Array, rng: np.random.Generator) -> Array:
    """From the 33rd update on the same sums come under noise that is independent."""
    before, after = (sums(each, runs, batch, rng) for each in (sampler, sampler.fresh()))
    return np.concatenate([before[:32], after[32:]])


def same_seed(sampler: NoisyCounts, runs: int, batch: Array, rng: np.random.Generator) -> Array:
    """Every block of updates starts the generator again."""
    batches = np.zeros((UPDATES, runs, *batch.shape))
    batches[0] = batch
    return np.stack([sampler.update(each, np.random.default_rng(1)).counts for each in batches])


def one_for_all(sampler: NoisyCounts, runs: int, batch: Array, rng: np.random.Generator) -> Array:
    """The cells of a table share their noise."""
    left = sums(sampler, runs, batch, rng) - batch
    return batch + np.where(LOOPS, left[:, :, :1, :, :1], left[:, :, :1, :, 1:])


def not_damped(sampler: NoisyCounts, runs: int, batch: Array, rng: np.random.Generator) -> Array:
    """What is paid for are damped self-loops, and they have the noise of others."""
    left = sums(sampler, runs, batch, rng) - batch
    return batch + np.where(LOOPS, left / math.sqrt(2), left)


MUTANTS: dict[Play, str] = {
    drawn_afresh: "dependence",
    same_seed: "dependence",
    one_for_all: "dependence",
    not_damped: "noise",
}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda play: play.__name__)
def test_mutants_are_caught(mutant: Play, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of what is wrong with them."""
    if mutant is same_seed:  # with blocks of one size, for which it draws the same
        monkeypatch.setattr(factorisations, "_MIXED_AT_ONCE", 1)
    sampler = calibrated(name, "step", damped=True)
    assert MUTANTS[mutant] in examined(sampler, name, "step", damped=True, play=mutant).found


@each_stream
def test_five_percent_is_found(name: str, unit: str, damped: bool) -> None:
    sampler = calibrated(name, unit, damped=damped, epsilon=EPSILON / 0.95**2)
    assert "noise" in examined(sampler, name, unit, damped=damped).found


def test_a_column_norm_that_is_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(factorise("square-root", UPDATES)), "column_norm", 1.0)
    sampler = calibrated("square-root", "step", damped=True)
    assert "noise" in examined(sampler, "square-root", "step", damped=True).found


def test_local_noise_is_that_of_every_user() -> None:
    """Increments of 1, 2 and 5 users; 5 % less from each user is found."""
    users = (0, 1, 2, 5)
    for epsilon, found in ((EPSILON, False), (EPSILON / 0.95**2, True)):
        sampler = NoisyCounts.calibrated(
            RenyiDP(2, epsilon),
            draws=4,
            factorisation=LocalNoise(users),
            relation=ReplaceEpisode(4),
        )
        rng, batch = np.random.default_rng(8), np.zeros((8000, 2))
        seen = np.stack([sampler.update(batch, rng).counts.ravel() for _ in users], axis=-1)
        assert not seen[:, 0].any()
        each = np.diff(seen) / np.sqrt(users[1:])
        claimed = GaussianLaw(sigma=math.sqrt(32 / EPSILON), centre=np.zeros(3))
        assert law_test(each, claimed).violated == found
