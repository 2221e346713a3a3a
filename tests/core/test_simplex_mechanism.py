"""The Dirichlet mechanism on the simplex, beside the paper's own example."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import log as mplog
from mpmath import mp, mpf
from scipy.stats import beta, kstest

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.simplex import SimplexCost, probability_some_below
from privrl.mechanisms import SimplexMechanism
from privrl.numerics.exact_dirichlet import posterior_rows

FALSE_ALARM = 1e-6
#: Section VI of the paper, components counted from 0.
EXAMPLE: dict[str, Any] = {"eta": 0.05, "eta_bar": 0.05, "sensitive": (1, 2), "n_vectors": 100}
#: Table I: the averages, which do not sum to 1, then means and variances of the output.
INPUTS = np.array([[0.314923, 0.315923, 0.320923], [0.314923, 0.320923, 0.315923]])
MEANS = np.array([[0.327731, 0.336119, 0.336149], [0.326620, 0.338976, 0.334402]])
VARIANCES = np.array([[0.00934632, 0.00983122, 0.0102117], [0.00922426, 0.0100889, 0.0100757]])


def _vectors(average: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """A hundred vectors with this average, half of them moved one way, half the other."""
    move = 0.1 * np.array([1, -0.5, -0.5])
    return np.concatenate([np.tile(average + move, (50, 1)), np.tile(average - move, (50, 1))])


def test_cost_of_the_papers_example() -> None:
    paper = SimplexMechanism(weight=24, bound="sim", **EXAMPLE)
    assert isinstance(paper.cost, SimplexCost)
    assert float(paper.cost.epsilon(0.05)) == pytest.approx(1.122, abs=5e-4)
    assert float(paper.cost.gamma(paper.cost.epsilon(0.05))) == pytest.approx(0.00226, abs=5e-6)
    exact = SimplexMechanism(weight=24, **EXAMPLE)
    assert isinstance(exact.cost, DirichletCost)
    assert exact.cost == paper.cost.exact
    assert float(exact.cost.epsilon(0.05)) == pytest.approx(0.0508, abs=5e-5)


@pytest.mark.slow
def test_table_1_within_monte_carlo_error() -> None:
    """The paper does not say how often it drew; its digits suit 500 times, which we allow for.

    A mean of 500 draws is off by 0.0042, a variance by 6 %; four of those, for 12 numbers.
    """
    mechanism, rng = SimplexMechanism(weight=24, **EXAMPLE), np.random.default_rng(0)
    for average, means, variances in zip(INPUTS, MEANS, VARIANCES, strict=True):
        data = _vectors(average / average.sum())
        drawn = mechanism.release(np.broadcast_to(data, (100_000, *data.shape)), rng)
        p = average / average.sum()
        np.testing.assert_allclose(drawn.mean(0), p, atol=5 * np.sqrt(0.01 / 100_000))
        np.testing.assert_allclose(drawn.var(0), p * (1 - p) / 25, rtol=0.03)  # Proposition 1
        np.testing.assert_allclose(drawn.mean(0), means, atol=4 * 0.0042)
        np.testing.assert_allclose(drawn.var(0), variances, rtol=4 * 0.063)
        # At weight 10, the paper's other one, the table would not fit.
        assert not np.allclose(p * (1 - p) / 11, variances, rtol=4 * 0.063)


def test_the_papers_averages_are_none() -> None:
    """Table I's inputs sum to 0.952, and differ in a component outside the set W = {1, 2}."""
    np.testing.assert_allclose(INPUTS.sum(1), 0.951769, atol=1e-6)
    assert np.flatnonzero(INPUTS[0] != INPUTS[1]).tolist() == [1, 2]  # the paper's 2 and 3


@pytest.mark.few(4)
@pytest.mark.parametrize("n_components", [2, 3, 20])
def test_lemma_5_is_looser_by_its_constant(n_components: int) -> None:
    cost = SimplexCost(weight=60, eta=0.02, eta_bar=0.1, n_components=n_components, distance=0.1)
    with mp.workdps(50):
        k, eta, bar, h = mpf(60), mpf("0.02"), mpf("0.1"), mpf("0.05")
        a, b = k * eta, k * (1 - bar - eta)
        above = (a + b - 1) / ((2 * a - 1) * (2 * b - 1))
        below = mp.exp(2 - a - b)
        assert below <= mp.beta(a + k * h, b - k * h)
        assert mp.beta(a, b) <= above
        constant = mplog(above / below) - mplog(mp.beta(a, b) / mp.beta(a + k * h, b - k * h))
        for delta in (0.05, 1e-5):
            difference = cost.lemma_5(delta) - cost.epsilon(delta)
            assert float(difference) == pytest.approx(float(constant), rel=1e-9)


def test_delta_has_no_floor() -> None:
    """DKL's Figure 2 stops at 2.1e-4; the probability itself goes on falling."""
    setting = {"alpha": 171.87 * 0.028, "n": 2, "total": 171.87}
    gammas = [1e-2, 1e-3, 1e-4, 1e-10, 1e-60]
    deltas = [probability_some_below(gamma, **setting) for gamma in gammas]
    assert deltas[1] < 4e-6
    assert deltas[-1] < 1e-270
    slopes = np.diff(np.log(deltas[2:])) / np.diff(np.log(gammas[2:]))
    np.testing.assert_allclose(slopes, 171.87 * 0.028, rtol=1e-3)  # as gamma ** (k eta)


def test_a_delta_that_underflows_is_not_zero() -> None:
    """By its theorem it is 1e-523; zero would be below that."""
    cost = SimplexCost(weight=101.9, eta=0.19, eta_bar=0.39, n_components=3, distance=0.0024)
    assert 0 < cost.delta(8.0) < 1e-300


def test_twenty_components_at_1e_300() -> None:
    cost = SimplexCost(weight=500, eta=0.02, eta_bar=0.114, n_components=20, distance=0.1)
    assert 1 < cost.epsilon(1e-5) < cost.epsilon(1e-300) < 1e4


def test_exact_needs_neither_assumption() -> None:
    settings: dict[str, Any] = {"eta": 0.05, "eta_bar": 0.05, "sensitive": (0, 1), "distance": 0.01}
    assert SimplexMechanism(weight=3, **settings).cost.epsilon(0.05) < 1
    with pytest.raises(ValueError, match=r"weight \* eta must be >= 1"):
        SimplexMechanism(weight=3, bound="sim", **settings)
    with pytest.raises(ValueError, match=r"weight \* eta_bar must be >= 1"):
        SimplexMechanism(weight=30, bound="sim", **(settings | {"eta_bar": 0.01}))


@pytest.mark.parametrize("bound", ["exact", "sim"])
def test_calibrated_meets_its_target(bound: Any) -> None:
    target = ApproxDP(1, 0.05)
    found = SimplexMechanism.calibrated(target, bound=bound, **EXAMPLE)
    assert target.excess(found.cost) <= 0
    assert float(found.cost.epsilon(0.05)) == pytest.approx(1, rel=1e-6)
    if bound == "exact":
        assert (
            found.weight > 25 * SimplexMechanism.calibrated(target, bound="sim", **EXAMPLE).weight
        )
        many = SimplexMechanism.calibrated(RenyiDP(2, 1), count=10, **EXAMPLE)
        assert 10 * float(many.cost.rdp(2)) <= 1


def test_targets_that_no_weight_meets() -> None:
    """As the weight falls a draw becomes a vertex, which still tells: log(1 + s / a) at least."""
    single: dict[str, Any] = {"eta": 0.05, "eta_bar": 0.05, "sensitive": (0, 1)}
    for bound, target in (
        ("exact", RenyiDP(2, 1)), ("exact", ApproxDP(1, 1e-5)),
        ("sim", RenyiDP(2, 1)), ("sim", ApproxDP(1e-3, 1e-5)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="target must be one that the release can meet"):
            SimplexMechanism.calibrated(target, bound=bound, **single)


def test_all_components_may_be_sensitive() -> None:
    """The exact cost needs no component beside them; the paper's does."""
    both = SimplexMechanism(weight=40, eta=0.1, sensitive=(0, 1), distance=0.1)
    assert both.release([0.1, 0.9], np.random.default_rng(0)).shape == (2,)
    paper = SimplexMechanism(
        weight=40, eta=0.1, eta_bar=0.1, sensitive=(0, 1), distance=0.1, bound="sim"
    )
    with pytest.raises(ValueError, match="K at least 3"):
        paper.release([0.1, 0.9], np.random.default_rng(0))


def test_what_rounding_takes_from_the_bound_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost rests on concentrations of at least weight times eta, to the last bit."""
    drawn: list[Any] = []
    monkeypatch.setattr(
        "privrl.mechanisms.simplex.posterior_rows",
        lambda counts, *rest: [drawn.append(counts.copy()), posterior_rows(counts, *rest)][1],
    )
    mechanism = SimplexMechanism(weight=40, eta=0.05, sensitive=(0, 1), distance=0.2)
    least = 0.05 - 0.9e-9  # within what a vector may miss its bound by
    mechanism.release([least, 0.5, 0.5 - least], np.random.default_rng(0))
    assert isinstance(mechanism.cost, DirichletCost)
    assert drawn[0].min() >= mechanism.cost.alpha


@pytest.mark.few(9)
@pytest.mark.parametrize("n_vectors", [1, 3, 2**14 + 1])
def test_one_vector_moves_what_is_drawn_from_by_no_more_than_is_paid_for(
    n_vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rounding of a sum of many vectors added to a change of one of them."""
    drawn: list[Any] = []
    monkeypatch.setattr(
        "privrl.mechanisms.simplex.posterior_rows",
        lambda counts, *rest: [drawn.append(counts.copy()), counts][1],
    )
    mechanism = SimplexMechanism(
        weight=37.0, eta=0.05, sensitive=(0, 1), distance=0.5, n_vectors=n_vectors
    )
    assert isinstance(mechanism.cost, DirichletCost)
    paid = Fraction(37) * max(map(Fraction, mechanism.cost.changes[0]))
    rng = np.random.default_rng(0)
    part = rng.uniform(0.3, 0.7, n_vectors)
    vectors = np.stack([part, 1 - part], axis=1)
    for _ in range(100):
        other, which = vectors.copy(), int(rng.integers(n_vectors))
        move = 0.25 if part[which] < 0.5 else -0.25
        moved = Fraction(move) + Fraction(part[which])
        other[which] = float(moved), float(1 - moved)
        for data in (vectors, other):
            mechanism.release(data[0] if n_vectors == 1 else data, rng)
        before, after = drawn[-2:]
        for a, b in zip(before.ravel(), after.ravel(), strict=True):
            assert abs(Fraction(a) - Fraction(b)) <= paid
    if n_vectors > 1:  # one vector moves no rounding of the others
        assert np.array_equal(mechanism.check(vectors), mechanism.check(vectors[::-1]))
    assert paid < Fraction(37 * 0.25 / n_vectors) * (1 + Fraction(n_vectors, 10**14))


@pytest.mark.slow
def test_law_of_an_average() -> None:
    """Kolmogorov-Smirnov with 100,000 draws; 5 % of the weight is seen."""
    mechanism = SimplexMechanism(
        weight=40, eta=0.05, eta_bar=0.1, sensitive=(0, 1), distance=0.2, n_vectors=2
    )
    data = [[0.1, 0.3, 0.6, 0.0], [0.3, 0.3, 0.4, 0.0]]
    drawn = mechanism.release(np.tile(data, (100_000, 1, 1)), np.random.default_rng(1))
    assert (drawn[:, 3] == 0).all()
    assert kstest(drawn[:, 0], beta(8, 32).cdf).pvalue > FALSE_ALARM
    assert kstest(drawn[:, 0], beta(8 * 0.9, 32 * 0.9).cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("n_vectors", [1, 3])
def test_an_average_is_of_as_many_vectors_as_are_paid_for(n_vectors: int) -> None:
    """Of fewer, one of them would move the average further."""
    mechanism = SimplexMechanism(
        weight=40, eta=0.05, eta_bar=0.1, sensitive=(0, 1), distance=0.2, n_vectors=2
    )
    with pytest.raises(ValueError, match="data must have shape"):
        mechanism.release([[0.3, 0.3, 0.4]] * n_vectors, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": 0}, "weight must be"),
        ({"eta": 0}, "eta must be"),
        ({"eta_bar": 1}, "eta_bar must be"),
        ({"eta_bar": 0, "bound": "sim"}, "eta_bar must be"),
        ({"sensitive": (1,)}, "sensitive must name at least two"),
        ({"sensitive": (1, 1)}, "sensitive must name at least two"),
        ({"sensitive": (-1, 1)}, "sensitive must be a whole number"),
        ({"distance": 0}, "distance must be"),
        ({"n_vectors": 0}, "n_vectors must be"),
        ({"bound": "dkl"}, "bound must be one of 'exact', 'sim'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SimplexMechanism(**({"weight": 24} | EXAMPLE | settings))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([0.2, 0.3, 0.6], "sum to 1"),
        ([0.01, 0.29, 0.7], "at least eta = 0.05"),
        ([0.48, 0.48, 0.04], "at least eta_bar = 0.1"),
        ([0.5, 0.5], "at least eta_bar = 0.1"),
        ([1.0], "data must have shape"),
        (1.0, "data must have shape"),
    ],
)
def test_bad_data(data: Any, words: str) -> None:
    mechanism = SimplexMechanism(weight=40, eta=0.05, eta_bar=0.1, sensitive=(0, 1), distance=0.2)
    with pytest.raises(ValueError, match=words):
        mechanism.release(data, np.random.default_rng(0))


def test_relations_that_differ_have_different_names() -> None:
    """Names were rounded to 6 digits, so two ledgers' entries looked alike."""
    close = [
        SimplexCost(weight=500, eta=0.02, eta_bar=0.1, distance=distance).relation
        for distance in (0.1, 0.10000001)
    ]
    assert close[0] != close[1]
    assert str(close[0]) == "move 0.05 between two sensitive components of one vector"
    assert str(close[1]) != str(close[0])


@pytest.mark.parametrize("eta", [0.01, 1e-12])
def test_small_weights_beside_a_component_of_zero(eta: float) -> None:
    """They would underflow beside whatever stands for the absent component, after the charge."""
    mechanism = SimplexMechanism(weight=1e-9, eta=eta, sensitive=(0, 1))
    vectors = np.tile([[0.5, 0.5, 0.0, 0.0], [0.4, 0.3, 0.3, 0.0], [0.25] * 4], (20, 1))
    with np.errstate(all="raise"):
        drawn = mechanism.release(vectors, 1)
    assert (drawn[vectors == 0] == 0).all()
    assert drawn.sum(-1) == pytest.approx(1)
    halves = mechanism.release(np.tile(vectors[0], (4000, 1)), 2)[:, 0] > 0.5
    assert abs(halves.mean() - 0.5) < 4.9 * 0.5 / 4000**0.5  # false alarm 1e-6
