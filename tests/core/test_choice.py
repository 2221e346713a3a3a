"""A choice by the exponential mechanism: its law, and that its cost covers every one there is."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from privrl.costs.base import Together
from privrl.costs.choice import ChoiceCost, ChoicePair
from privrl.costs.relations import ReplaceRecord
from privrl.mechanisms import ExponentialMechanism
from privrl.numerics.convolution import ProductProfile
from privrl.numerics.discrete_noise import exponential_choice

EPSILONS = np.array([0.0, 0.05, 0.2, 0.6, 1.5, 4.0])
ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 30.0, 1000.0])


def cost_of(spread, sensitivity=1.0):
    scale = 2 * sensitivity / spread
    return ChoiceCost(scale=scale, sensitivity=sensitivity, relation=ReplaceRecord())


def softmax(weights):
    p = np.exp(weights - np.max(weights))
    return p / p.sum()


def deltas(p, q):
    return np.maximum(p - np.exp(EPSILONS)[:, None] * q, 0).sum(axis=1)


def divergences(p, q):
    logs = np.log(p) - np.log(q)
    return np.array([special.logsumexp((a - 1) * logs, b=p) / (a - 1) for a in ORDERS])


@pytest.mark.few(3)
@pytest.mark.parametrize("spread", [0.1, 0.7, 3.0])
def test_no_choice_there_is_costs_more(spread):
    """All moves of up to four options by the sensitivity, up or down or not, from random scores."""
    cost, rng = cost_of(spread), np.random.default_rng(3)
    most = np.zeros(len(EPSILONS))
    for options in (2, 3, 4):
        for moves in itertools.product((-1, 0, 1), repeat=options):
            for width in (0.3, 1.0, 3.0):
                start = rng.normal(0, width, options)
                p, q = softmax(start), softmax(start + np.array(moves) / cost.scale)
                found = deltas(p, q)
                most = np.maximum(most, found)
                assert (found <= cost.delta(EPSILONS) + 1e-15).all()
                assert (divergences(p, q) <= cost.rdp(ORDERS) + 1e-12).all()
    assert most[0] == pytest.approx(float(cost.delta(0.0)), rel=0.05)  # and hardly less


@pytest.mark.parametrize("spread", [0.2, 2.0])
def test_the_profile_is_that_of_the_worst_two_outcomes(spread):
    t = np.linspace(1e-6, spread * (1 - 1e-6), 20_001)
    first = np.expm1(spread - t) / np.expm1(spread) * np.exp(t)
    for epsilon in np.array([0.0, 0.3, 0.9]) * spread:
        best = (first * -np.expm1(np.minimum(epsilon - t, 0.0))).max()
        assert float(cost_of(spread).delta(epsilon)) == pytest.approx(best, rel=1e-6)
        assert float(cost_of(spread).delta(epsilon)) >= best
    assert float(cost_of(spread).delta(spread * (1 + 1e-9))) == 0
    pure = float(cost_of(spread).epsilon(1e-300))
    assert pure <= spread * (1 + 1e-12)


@pytest.mark.slow
def test_several_choices_are_covered_whatever_came_before():
    """The second choice's options depend on the first; both together against the sum of costs."""
    spread, rng = 0.8, np.random.default_rng(5)
    both = Together([cost_of(spread)] * 2)
    for _ in range(300):
        start = rng.normal(0, 1, 3)
        p, q = softmax(start), softmax(start + rng.choice([-1, 1], 3) * spread / 2)
        second = rng.normal(0, 1, (3, 2))
        after = [(softmax(s), softmax(s + rng.choice([-1, 1], 2) * spread / 2)) for s in second]
        joint = [np.concatenate([w * a[i] for w, a in zip(x, after, strict=True)])
                 for i, x in enumerate((p, q))]  # fmt: skip
        assert (deltas(*joint) <= both.delta(EPSILONS) + 1e-15).all()
        assert (divergences(*joint) <= both.rdp(ORDERS) + 1e-12).all()


@pytest.mark.parametrize("spread", [1e-4, 0.3, 5.0, 90.0])
def test_on_a_grid_the_pair_keeps_its_profile(spread):
    pair = ChoicePair(spread)
    epsilons = np.array([0.0, 0.1, 0.5, 0.9]) * spread
    exact, found = pair.log_delta(epsilons), ProductProfile({pair: 1}, -30.0).log_delta(epsilons)
    assert (found >= exact - 1e-12).all()
    np.testing.assert_allclose(found, exact, atol=2e-3)
    losses = np.linspace(-spread, spread, 200_001)
    middle = (losses[1:] + losses[:-1]) / 2
    density = np.exp((middle - spread) / 2) / 2 / -math.expm1(-spread) * np.diff(losses)
    for order in (1.5, 3.0):
        direct = math.log((density * np.exp((order - 1) * middle)).sum()) / (order - 1)
        assert direct <= float(pair.rdp(np.array(order))) * (1 + 1e-6)


@pytest.mark.slow
def test_many_choices_cost_what_renyi_divergences_say_or_less():
    cost = Together([cost_of(0.02)] * 20)
    rho = 20 * 0.02**2 / 8
    through = min(rho * a + math.log(1e5) / (a - 1) for a in np.linspace(1.1, 300, 3000))
    assert float(cost.epsilon(1e-5)) <= through
    np.testing.assert_allclose(cost.rdp(ORDERS[:4]), rho * ORDERS[:4], rtol=1e-12)


@pytest.mark.parametrize("field", ["scale", "sensitivity"])
@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf, "x"])
def test_a_cost_of_no_size_is_refused(field, wrong):
    given = {"scale": 1.0, "sensitivity": 1.0, "relation": ReplaceRecord()} | {field: wrong}
    with pytest.raises(ValueError, match=field):
        ChoiceCost(**given)
    with pytest.raises(ValueError, match="relation must be a Relation"):
        ChoiceCost(scale=1.0, sensitivity=1.0, relation="replace")


# The draw


@pytest.mark.few(12)
@pytest.mark.parametrize("scores", [(3, 1, 0), (0, 0, 0), (5, 5, 2, 7), (0, 9)])
def test_law_of_a_choice(scores):
    """Chi-squared on 60,000 choices; a scale that is 8 % off is seen, but where all are equal."""
    scale, n = 2.5, 60_000
    expected = n * softmax(np.array(scores) / scale)
    for factor in (1.0, 0.92, 1.08):
        rows = np.tile(np.array(scores), (n, 1))
        chosen = exponential_choice(rows, scale * factor, np.random.default_rng(5))
        seen = np.bincount(chosen, minlength=len(scores))
        p_value = stats.chisquare(seen, expected).pvalue
        is_right = factor == 1 or len(set(scores)) == 1
        assert (p_value > 1e-4) if is_right else (p_value < 1e-4)


def test_a_best_option_far_ahead_is_chosen_among_many():
    scores = np.zeros((1, 5000), np.int64)
    scores[0, 1234] = 10**9
    assert exponential_choice(scores, 100.0, np.random.default_rng(0)).tolist() == [1234]
    alone = ExponentialMechanism(scale=1.0, sensitivity=1.0)
    assert alone.release([7], np.random.default_rng(0)) == 0


@pytest.mark.parametrize("wrong", [[0.5, 1], [2.0**54, 1], [-1, 2], [np.nan, 1], 3, [[]]])
def test_scores_are_whole_numbers(wrong):
    with pytest.raises(ValueError, match="data must") as raised:
        ExponentialMechanism(scale=1.0, sensitivity=1.0).release(wrong, np.random.default_rng(0))
    assert "0.5" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "name"), [({"scale": 1e-4}, "scale"), ({"scale": 2.0**41}, "scale"),
                        ({"sensitivity": 0}, "sensitivity")]
)  # fmt: skip
def test_a_mechanism_that_cannot_be_drawn_is_refused(given, name):
    with pytest.raises(ValueError, match=name):
        ExponentialMechanism(**{"scale": 1.0, "sensitivity": 1.0} | given)
