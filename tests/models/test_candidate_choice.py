"""The private choice among weights: what one record can change, and what is chosen."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from privrl.mechanisms import SumsMechanism
from privrl.models.logistic_regression.scores import choose
from privrl.models.logistic_regression.training import Candidate

STARTS = np.array([0, 2, 5])  # of three features, of 2, 3 and 2 values
RECORDS = np.array(list(itertools.product(range(2), range(3), range(2), range(3))))  # class last


def candidate(rng: np.random.Generator, scale: float) -> Candidate:
    weights, nothing = rng.normal(size=(7, 3)) * scale, np.zeros((7, 3))
    return Candidate(weights, rng.normal(size=3) * scale, nothing, np.zeros(3), 0.0)


def released(records: np.ndarray, candidates: list[Candidate]) -> np.ndarray:
    """Return what the mechanism is given."""
    seen = []

    class Watched(SumsMechanism):
        def release(self, data, rng):
            seen.append(self.check(data))
            return super().release(data, rng)

    cells = records[:, :-1].T + STARTS[:, None]
    choose(cells, records[:, -1], candidates, Watched(sigma=1.0), np.random.default_rng(0))
    return seen[0]


@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0, 40.0])
def test_no_pair_of_records_changes_leads_by_more_than_the_relation_says(scale: float) -> None:
    """√2, as of a record replaced in a table of counts; and nearly that where weights are large."""
    candidates = [candidate(np.random.default_rng(seed), scale) for seed in range(4)]
    alone = np.array([released(RECORDS[[i]], candidates) for i in range(len(RECORDS))])
    farthest = max(float(np.linalg.norm(alone - each, axis=1).max()) for each in alone)
    assert farthest <= math.sqrt(2)
    assert farthest > 1.4 or scale < 3
    np.testing.assert_array_equal(released(RECORDS, candidates), alone.sum(axis=0))  # exact


def test_leads_are_nats_by_which_classes_are_predicted_better() -> None:
    """Where no difference is long; the factor is √2 over twice the length, 2 nats."""
    candidates = [candidate(np.random.default_rng(seed), 0.1) for seed in range(3)]
    by_hand = []
    for each in candidates:
        logits = each.weights[RECORDS[:, :-1] + STARTS].sum(axis=1) + each.intercept
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        by_hand.append(np.log(chances[np.arange(len(RECORDS)), RECORDS[:, -1]]).sum())
    gains = np.array(by_hand[1:]) - by_hand[0]
    np.testing.assert_allclose(released(RECORDS, candidates) * 4 / math.sqrt(2), gains, atol=1e-2)


def chosen(candidates: list[Candidate], sigma: float, seed: int = 0) -> int:
    """Return the number of what is chosen, by 900 records whose classes the second predicts."""
    values = np.random.default_rng(1).integers(0, [2, 3, 2], (900, 3))
    cells = values.T + STARTS[:, None]
    classes = (candidates[1].weights[cells].sum(axis=0) + candidates[1].intercept).argmax(axis=1)
    found = choose(
        cells, classes, candidates, SumsMechanism(sigma=sigma), np.random.default_rng(seed)
    )
    return [each is found for each in candidates].index(True)


def test_the_best_is_chosen_where_noise_lets_it_be_seen() -> None:
    candidates = [candidate(np.random.default_rng(seed), 1.0) for seed in range(3)]
    assert chosen(candidates, 1.0) == 1
    # Of 60 choices in noise that hides it, the first is at least a third: others must be ahead
    # by a deviation, which each is with a chance of 0.16. Fewer than a third come once in 1e5.
    assert sum(chosen(candidates, 1e6, seed) == 0 for seed in range(60)) > 20


def test_what_follows_the_records_too_closely_is_not_chosen() -> None:
    candidates = [candidate(np.random.default_rng(seed), 1.0) for seed in range(3)]
    candidates[1] = replace(candidates[1], freedom=1e5)
    assert chosen(candidates, 1.0) != 1


def test_of_one_there_is_no_choice() -> None:
    only = candidate(np.random.default_rng(0), 1.0)
    cells, classes = np.zeros((3, 5), int) + STARTS[:, None], np.zeros(5, int)
    assert choose(cells, classes, [only], None, None) is only  # nothing is released
