"""The multiples of the parts of a model: what one record can change, and what is learned."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from privrl.mechanisms import SumsMechanism
from privrl.models.logistic_regression.plan import Plan, Steps
from privrl.models.logistic_regression.scores import multiply
from privrl.models.logistic_regression.training import Part, Start, descend

STARTS = np.array([0, 2, 5])  # of three features, of 2, 3 and 2 values
RECORDS = np.array(list(itertools.product(range(2), range(3), range(2), range(3))))  # class last


def part(seed: int, scale: float, times: float = 1.0) -> Part:
    rng, nothing = np.random.default_rng(seed), np.zeros((7, 3))
    return Part(rng.normal(size=(7, 3)) * scale, np.zeros(3), nothing, np.zeros(3), times)


def beginning(scale: float = 0.0) -> Start:
    """Return a start, with log-ratios of that scale, of 1,000 records."""
    rows = np.random.default_rng(0).normal(size=(7, 3)) * scale
    return Start(
        log_prior=np.log(np.full(3, 1 / 3)),
        log_rows=rows + np.log(np.repeat(1 / np.array([2, 3, 2]), [2, 3, 2]))[:, None],
        temperatures=np.ones(3),
        intercept=np.zeros(3),
        sizes=(2, 3, 2),
        n_records=1000,
        deviations=np.zeros(6),
    )


def multiplied(
    values: np.ndarray, classes: np.ndarray, parts: list[Part], sigma: float, number: int = 30
) -> Part:
    """Return the sum of multiples, from records as if they were 1,000."""
    steps = Steps(number, SumsMechanism(sigma=sigma))
    rng, cells = np.random.default_rng(0), values.T + STARTS[:, None]
    return multiply(cells, classes, beginning(), parts, steps=steps, rng=rng)


def watched(monkeypatch, learn) -> np.ndarray:
    """Return the first sums that the mechanism is given."""
    seen = []

    def release(self, data, rng):
        seen.append(self.check(data))
        return np.zeros(np.shape(data))

    with monkeypatch.context() as patched:
        patched.setattr(SumsMechanism, "release", release)
        learn()
    return seen[0].ravel()


def released(monkeypatch, records: np.ndarray, parts: list[Part]) -> np.ndarray:
    values, classes = records[:, :-1], records[:, -1]
    return watched(monkeypatch, lambda: multiplied(values, classes, parts, 1.0))


@pytest.mark.few(9)
@pytest.mark.parametrize("scale", [0.0, 0.3, 2.0])
def test_no_pair_of_records_changes_gradients_by_more_than_the_relation_says(
    monkeypatch, scale
) -> None:
    """Of all weights, with long residuals shortened: √2, and nearly that."""
    steps = Steps(2, SumsMechanism(sigma=1.0))
    plan, rng = Plan(0.5, steps, steps, steps, 10.0), np.random.default_rng(0)

    def alone(record: np.ndarray) -> np.ndarray:
        values, classes = record[:-1, None], record[-1:]
        return watched(monkeypatch, lambda: descend(values, classes, beginning(scale), plan, rng))

    every = np.array([alone(record) for record in RECORDS])
    farthest = max(float(np.linalg.norm(every - each, axis=1).max()) for each in every)
    assert 1.2 < farthest <= math.sqrt(2)


@pytest.mark.few(4)
@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0, 40.0])
def test_no_pair_of_records_changes_sums_by_more_than_the_relation_says(monkeypatch, scale) -> None:
    """√2, as of a record replaced in a table of counts; and nearly that where weights are large."""
    parts = [replace(part(0, scale), own=np.abs(part(2, scale).weights)), part(1, scale)]
    alone = np.array([released(monkeypatch, RECORDS[[i]], parts) for i in range(len(RECORDS))])
    farthest = max(float(np.linalg.norm(alone - each, axis=1).max()) for each in alone)
    assert farthest <= math.sqrt(2)
    assert farthest > 1.2 or scale < 3
    np.testing.assert_array_equal(released(monkeypatch, RECORDS, parts), alone.sum(axis=0))  # exact


def test_a_value_that_never_was_seen_has_a_part_of_its_own() -> None:
    """Also where its probability is 0 in floats; and noise hides nearly all of a small count."""
    rows = np.log(np.full((7, 3), 1 / 3))
    rows[0] = -2000.0
    start = replace(beginning(), log_rows=rows)
    np.testing.assert_allclose(start.own[0], 1.0, rtol=1e-6)
    np.testing.assert_allclose(start.own[1], 1 / (1000 / 9 + 1))
    assert (replace(start, hidden=(1e3,) * 3).own < 1.2e-4).all()


def test_neighbouring_bins_move_alike() -> None:
    """Noise bends the way .62 times as much; a missing value, the last, has a weight of its own."""
    rng, steps = np.random.default_rng(0), Steps(60, SumsMechanism(sigma=100.0))
    start = replace(
        beginning(), sizes=(20,), log_rows=np.log(np.full((20, 3), 1 / 20)), temperatures=np.ones(1)
    )
    values, classes = rng.integers(0, [20, 3], (1000, 2)).T
    bends = []
    for ordered in ((), (20,), (19,)):
        plan = Plan(0.5, steps, steps, steps, 10.0)
        parts = descend(values[None], classes, replace(start, ordered=ordered), plan, rng)
        bend = np.abs(np.diff(parts[1].weights, 2, axis=0)).mean(axis=1)
        bends.append(bend / np.abs(parts[1].weights).mean())
    assert bends[1].mean() < 0.75 * bends[0].mean()
    assert bends[2][:-1].mean() < 0.75 * bends[0].mean()
    assert bends[2][-1] > 2 * bends[2][:-1].mean()


def drawn(true: np.ndarray, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return 1,000 records whose classes follow these weights."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, [2, 3, 2], (1000, 3))
    logits = true[values + STARTS].sum(axis=1)
    return values, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def times_of(found: Part, parts: list[Part]) -> np.ndarray:
    every = np.stack([each.weights.ravel() for each in parts], axis=1)
    return np.linalg.lstsq(every, found.weights.ravel(), rcond=None)[0]


def test_multiples_are_those_that_predict_best() -> None:
    """Two thirds of the first part and none of the second: within .2, of 1,000 records."""
    parts = [part(0, 1.0), part(1, 1.0, 0.4)]
    found = multiplied(*drawn(2 / 3 * parts[0].weights), parts, 1e-3)
    np.testing.assert_allclose(times_of(found, parts), [2 / 3, 0], atol=0.2)


def test_noise_that_hides_them_leaves_what_is_expected() -> None:
    """Twenty deviations of the noise for a record's part, of 1,000: all is within .1."""
    parts = [part(0, 1.0), part(1, 1.0, 0.4)]
    found = multiplied(*drawn(2 / 3 * parts[0].weights), parts, 2e4)
    np.testing.assert_allclose(times_of(found, parts), [1, 0.4], atol=0.1)


def test_what_follows_the_records_too_closely_counts_less() -> None:
    parts = [part(0, 1.0), part(1, 1.0, 0.4)]
    records = drawn(parts[0].weights + parts[1].weights)
    free = [parts[0], replace(parts[1], freedom=200.0)]
    before, after = (times_of(multiplied(*records, each, 1e-3), each) for each in (parts, free))
    assert after[1] < before[1] - 0.05


def test_what_records_added_to_the_tables_counts_less() -> None:
    """Classes by chance: the tables' multiple is .77 by their own records, and else below 0."""
    values, classes = drawn(np.zeros((7, 3)))
    counts = np.zeros((7, 3))
    np.add.at(counts, (values + STARTS, classes[:, None]), 1.0)
    logs = np.log(counts + 1)
    tables = replace(part(0, 1.0), weights=logs - logs.mean(axis=1, keepdims=True))
    free = replace(tables, own=1 / (counts + 1))
    before, after = (
        times_of(multiplied(values, classes, [each], 1e-3), [each])[0] for each in (tables, free)
    )
    assert after < 0
    assert before > 0.6


def test_without_gradients_parts_have_their_own_multiples() -> None:
    parts = [part(0, 1.0), part(1, 1.0, 0.4)]
    found = multiplied(*drawn(parts[0].weights), parts, 1.0, number=0)
    np.testing.assert_allclose(found.weights, parts[0].weights + 0.4 * parts[1].weights)
