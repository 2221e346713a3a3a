"""The exponential mechanism over posteriors: every number against data sets written out."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from auditing import check_claim
from mpmath import mp, mpf
from scipy import stats

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.base import Cost
from privrl.costs.relations import ReplaceRecord
from privrl.mechanisms import certificate, posterior_exponential, posteriors
from privrl.mechanisms.posterior_exponential import ExponentialCost, PosteriorExponentialMechanism
from privrl.mechanisms.posteriors import Posteriors, hellinger_sensitivity, smooth_beta
from privrl.numerics.dirichlet_rows import DirichletPosterior


def clear_caches() -> None:
    posteriors.posteriors_of.cache_clear()
    posterior_exponential._certificate.cache_clear()
    posterior_exponential._solved.cache_clear()


KINDS = ["certified", "constant", "global", "local", "smooth"]
SOLVED = ["certified", "constant"]
each_kind = pytest.mark.parametrize("kind", KINDS)
ORDERS = np.array([1.001, 1.5, 2.0, 5.0, 30.0, 1e3])
EPSILONS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4])


def mechanism(
    kind: str = "certified",
    prior: Sequence[float] = (7, 4),
    n: int = 500,
    epsilon: float = 0.5,
    delta: float = 0.8,
) -> PosteriorExponentialMechanism:
    return PosteriorExponentialMechanism(
        prior, n, epsilon, sensitivity=kind, delta=delta if kind == "smooth" else None
    )


# Written out ---------------------------------------------------------------------------


def slow_hellinger(u: Sequence[mpf], v: Sequence[mpf]) -> mpf:
    """H between two Dirichlet densities, from its definition."""

    def beta(a: Sequence[mpf]) -> mpf:
        return mp.fprod(mp.gamma(x) for x in a) / mp.gamma(mp.fsum(a))

    middle = [(x + y) / 2 for x, y in zip(u, v, strict=True)]
    return mp.sqrt(1 - beta(middle) / mp.sqrt(beta(u) * beta(v))) if u != v else mpf(0)


class WrittenOut:
    """Everything about a tiny case, over all data sets of n records in order, in plain loops."""

    def __init__(self, prior: Sequence[float], n: int) -> None:
        self.n, self.cells = n, range(len(prior))
        self.data_sets = list(itertools.product(self.cells, repeat=n))
        self.posterior = {
            x: tuple(mpf(prior[c]) + x.count(c) for c in self.cells) for x in self.data_sets
        }
        self.candidates = sorted(set(self.posterior.values()))
        self.distance = {
            (u, v): slow_hellinger(u, v) for u in self.candidates for v in self.candidates
        }

    def counts(self, x: Sequence[int]) -> list[int]:
        return [x.count(c) for c in self.cells]

    def h(self, x: Sequence[int], z: Sequence[mpf]) -> mpf:
        return self.distance[self.posterior[x], z]

    def apart(self, x: Sequence[int], y: Sequence[int]) -> int:
        return sum(a != b for a, b in zip(x, y, strict=True))

    def neighbours(self, x: Sequence[int]) -> list[tuple[int, ...]]:
        return [y for y in self.data_sets if self.apart(x, y) == 1]

    def local(self, x: Sequence[int]) -> mpf:
        """BAY section 2.2, the maximum over candidates and all."""
        return max(
            abs(self.h(x, r) - self.h(y, r)) for y in self.neighbours(x) for r in self.candidates
        )

    def sensitivity(self, kind: str, epsilon: mpf, delta: mpf) -> dict[Sequence[int], mpf]:
        local = {x: self.local(x) for x in self.data_sets}
        if kind == "local":
            return local
        if kind == "global":
            return dict.fromkeys(local, max(local.values()))
        beta = mp.log(1 - epsilon / (2 * mp.log(delta / (2 * (self.n + 1)))))
        return {
            x: max(local[y] * mp.exp(-beta * self.apart(x, y)) for y in self.data_sets)
            for x in self.data_sets
        }

    def law(self, coefficient: dict[Sequence[int], mpf]) -> dict[Sequence[int], list[mpf]]:
        weights = {
            x: [mp.exp(-c * self.h(x, z)) for z in self.candidates] for x, c in coefficient.items()
        }
        return {x: [w / mp.fsum(row) for w in row] for x, row in weights.items()}

    def cost(self, law: dict[Sequence[int], list[mpf]]) -> tuple[mpf, list[mpf], list[mpf]]:
        """eps_0, Rényi divergences and deltas, over all ordered pairs of data sets."""
        pairs = [(law[x], law[y]) for x in law for y in self.neighbours(x)]
        loss = max(abs(mp.log(p / q)) for a, b in pairs for p, q in zip(a, b, strict=True))
        rdp = [
            max(
                mp.log(mp.fsum(p**order * q ** (1 - order) for p, q in zip(a, b, strict=True)))
                for a, b in pairs
            )
            / (order - 1)
            for order in map(mpf, ORDERS)
        ]
        delta = [
            max(
                mp.fsum(max(p - mp.exp(e) * q, mpf(0)) for p, q in zip(a, b, strict=True))
                for a, b in pairs
            )
            for e in map(mpf, EPSILONS)
        ]
        return loss, rdp, delta


TINY = [((7.0, 4.0), 4), ((0.3, 2.0), 5), ((7.0, 4.0, 5.0), 3), ((1.0, 0.5, 1.0, 2.0), 2)]
each_tiny = pytest.mark.parametrize(("prior", "n"), TINY)


@pytest.mark.few(24)
@each_tiny
@each_kind
def test_every_number_against_all_data_sets(prior: Sequence[float], n: int, kind: str) -> None:
    ours = mechanism(kind, prior, n, 0.8)
    with mp.workdps(40):
        exact = WrittenOut(prior, n)
        if kind in SOLVED:  # c is ours; the law and its cost are written out again
            coefficient = {}
            for x in exact.data_sets:
                row = ours.probabilities(exact.counts(x))
                at = [exact.posterior[x] == z for z in exact.candidates].index(True)
                far = max(range(len(row)), key=lambda z, x=x: exact.h(x, exact.candidates[z]))
                ratio = mpf(float(row[at])) / mpf(float(row[far]))
                coefficient[x] = mp.log(ratio) / exact.h(x, exact.candidates[far])
        else:
            sensitivity = exact.sensitivity(kind, mpf(0.8), mpf(0.8))
            coefficient = {x: mpf(0.8) / (2 * s) for x, s in sensitivity.items()}
        law = exact.law(coefficient)
        loss, rdp, delta = exact.cost(law)
        error = {
            x: mp.fsum(p * exact.h(x, z) for p, z in zip(row, exact.candidates, strict=True))
            for x, row in law.items()
        }
    for x in exact.data_sets:
        counts = exact.counts(x)
        np.testing.assert_allclose(
            ours.probabilities(counts), np.array(law[x], np.float64), rtol=1e-11
        )
        assert float(ours.expected_error(counts)) == pytest.approx(float(error[x]), rel=1e-11)
    if kind == "constant":
        values = [float(c) for c in coefficient.values()]
        assert min(values) == pytest.approx(max(values), rel=1e-11)
    cost = ours.cost
    assert float(loss) <= cost.pure_epsilon <= float(loss) + 2e-12
    np.testing.assert_allclose(cost.rdp(ORDERS), np.array(rdp, np.float64), rtol=1e-9)
    np.testing.assert_allclose(
        cost.delta(EPSILONS), np.array(delta, np.float64), rtol=1e-9, atol=1e-15
    )


@each_tiny
def test_distances_and_sensitivities_against_all_data_sets(prior: Sequence[float], n: int) -> None:
    ours = Posteriors(prior, n)
    with mp.workdps(40):
        exact = WrittenOut(prior, n)
        expected = [
            [float(exact.distance[u, v]) for v in exact.candidates] for u in exact.candidates
        ]
        np.testing.assert_allclose(
            ours.counts + np.array(prior), np.array(exact.candidates, np.float64), rtol=1e-15
        )
        np.testing.assert_allclose(
            ours.distances(np.arange(len(ours.counts))), expected, rtol=1e-12, atol=1e-15
        )
        for x in exact.data_sets:
            at = ours.rank(exact.counts(x))
            assert ours.local_sensitivity[at] == pytest.approx(float(exact.local(x)), rel=1e-12)
        neighbours = {
            tuple(sorted((int(ours.rank(exact.counts(x))), int(ours.rank(exact.counts(y))))))
            for x in exact.data_sets
            for y in exact.neighbours(x)
            if exact.counts(x) != exact.counts(y)
        }
        assert {tuple(sorted(pair)) for pair in ours.pairs.tolist()} == neighbours
        assert len(ours.pairs) == len(neighbours)


# Sensitivities -------------------------------------------------------------------------


@pytest.mark.parametrize(("prior", "n"), [((7, 4), 40), ((7, 4, 5), 9), ((0.2, 1, 3), 9)])
def test_the_score_changes_most_at_the_posterior_itself(prior: Sequence[float], n: int) -> None:
    """BAY Fig. 1, and the triangle inequality that it is an instance of."""
    ours = Posteriors(prior, n)
    distances = ours.distances(np.arange(len(ours.counts)))
    for (x, y), between in zip(ours.pairs, ours.neighbour_distances, strict=True):
        change = distances[y] - distances[x]
        assert change[x] == pytest.approx(between, rel=1e-12)
        assert change[y] == pytest.approx(-between, rel=1e-12)
        assert np.abs(change).max() <= between * (1 + 1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.02, 0.3, 50.0])
@pytest.mark.parametrize(("prior", "n"), [((7, 4), 60), ((7, 4, 5), 12), ((1, 2, 3, 4), 5)])
def test_smooth_sensitivity(prior: Sequence[float], n: int, beta: float) -> None:
    ours = Posteriors(prior, n)
    smooth = ours.smooth_sensitivity(beta)
    apart = np.abs(ours.counts[:, None] - ours.counts[None]).sum(-1) / 2
    every = ours.local_sensitivity * np.exp(-beta * apart)
    np.testing.assert_allclose(smooth, every.max(axis=1), rtol=1e-13)
    first, second = smooth[ours.pairs.T]
    assert (np.abs(np.log(first / second)) <= beta + 1e-13).all()
    assert (smooth >= ours.local_sensitivity).all()


@pytest.mark.parametrize("n", [1, 2, 100, 120, 150])
def test_global_sensitivity_of_bay(n: int) -> None:
    """H is largest between the two smallest cells where both are empty but for one record.

    The other cells do not matter, so it is the same for each n. BAY prints the distance to
    a neighbour that has lost a record it did not have: a posterior below the prior.
    """

    def h(u: Sequence[float], v: Sequence[float]) -> float:
        return float(slow_hellinger([mpf(a) for a in u], [mpf(a) for a in v]))

    true = hellinger_sensitivity((7, 4, 5), n)
    assert true == pytest.approx(0.233629480709, abs=5e-13)
    assert true == pytest.approx(h((5, 5), (4, 6)), rel=1e-10)
    assert h((4, 7), (3, 8)) == pytest.approx(0.239992747797, abs=5e-13)


def test_smoothing_of_bay() -> None:
    """The text has n + 1 candidates; the figures' numbers come from n."""
    assert smooth_beta(0.8, 0.8, 100) == pytest.approx(0.0699407108115, abs=5e-14)
    assert smooth_beta(0.8, 0.8, 120) == pytest.approx(0.0677791100173, abs=5e-14)
    assert smooth_beta(0.8, 0.8, 101) == pytest.approx(0.0698192, abs=5e-8)
    assert smooth_beta(0.8, 0.8, 121) == pytest.approx(0.0676839, abs=5e-8)


# What is certified ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "certified", "error"),
    [("global", 0.25621, 0.83), ("smooth", 0.31973, 0.146), ("local", 0.37596, 0.146)],
)
def test_beta_prior_of_bay(kind: str, certified: float, error: float) -> None:
    ours = mechanism(kind)
    assert ours.cost.pure_epsilon == pytest.approx(certified, abs=5e-6)
    assert float(ours.cost.delta(ours.cost.pure_epsilon)) == 0
    assert float(ours.expected_error([250, 250])) == pytest.approx(error, rel=5e-3)


def test_certified_is_far_more_accurate_and_one_constant_is_not() -> None:
    """One constant c can at most double that of "global", for its eps_0 is at least half."""
    error = {kind: float(mechanism(kind).expected_error([250, 250])) for kind in KINDS}
    assert error["certified"] == pytest.approx(0.068, abs=5e-4)
    assert error["certified"] < error["global"] / 12
    assert error["constant"] == pytest.approx(0.683, abs=5e-4)
    assert error["certified"] < error["local"] / 2


@pytest.mark.parametrize("kind", SOLVED)
@pytest.mark.parametrize(("prior", "n"), [((7, 4), 500), ((1e-3, 50), 30), ((7, 4, 5), 25)])
@pytest.mark.parametrize("epsilon", [2e-6, 0.01, 0.5, 3.0, 40.0, 1e4])
def test_solved_for_epsilon_and_never_above(
    kind: str, prior: Sequence[float], n: int, epsilon: float
) -> None:
    cost = mechanism(kind, prior, n, epsilon).cost
    assert epsilon * (1 - 2e-4) <= cost.pure_epsilon <= epsilon


@each_kind
@pytest.mark.parametrize(("prior", "n"), [((7, 4), 60), ((0.3, 2, 1), 12)])
def test_losses_keep_to_their_bounds(kind: str, prior: Sequence[float], n: int) -> None:
    """The bounds of the module's docstring hold for each pair, and are attained by one c."""
    law = posterior_exponential._law(mechanism(kind, prior, n, 0.8))
    logs = law.log_probs(np.arange(law.n_outputs))
    first, second = logs[law.pairs.T]
    losses, bounds = np.abs(first - second).max(axis=1), law.loss_bounds()
    assert (losses <= bounds * (1 + 1e-12)).all()
    if kind in {"constant", "global"}:
        np.testing.assert_allclose(losses, bounds, rtol=1e-11)


def test_local_may_cost_more_than_its_epsilon() -> None:
    ours = mechanism("local", (7, 4, 5), 60, 0.8)
    assert ours.cost.pure_epsilon > 0.8
    assert "makes no claim" in ours.claim


@each_kind
def test_dearer_and_more_accurate_with_epsilon(kind: str) -> None:
    steps = [mechanism(kind, n=40, epsilon=e) for e in (0.1, 0.3, 1.0, 3.0)]
    for less, more in itertools.pairwise(steps):
        assert less.cost.pure_epsilon < more.cost.pure_epsilon
        assert (less.cost.rdp(ORDERS) < more.cost.rdp(ORDERS)).all()
        assert less.expected_error([20, 20]) > more.expected_error([20, 20])


@pytest.mark.few(12)
@each_kind
@pytest.mark.parametrize("epsilon", [0.8, 30.0])
def test_profile(kind: str, epsilon: float) -> None:
    cost = mechanism(kind, (7, 4, 5), 12, epsilon).cost
    largest = cost.pure_epsilon
    assert float(cost.delta(largest)) == 0
    assert float(cost.delta(largest * (1 - 1e-6))) > 0
    shares = np.linspace(0, math.expm1(largest), 200)
    delta = cost.delta(np.log1p(shares))
    assert (np.diff(delta) <= 0).all()
    assert (np.diff(delta, 2) >= -1e-14).all()  # convex in exp(epsilon)
    assert float(cost.rdp(1e9)) == pytest.approx(largest, rel=1e-6)
    assert float(cost.rdp(1e9)) <= largest
    assert float(cost.epsilon(1e-300)) <= largest
    for wanted in (float(cost.delta(largest / 2)), 1e-5, 1e-12):
        found = float(cost.epsilon(wanted))
        assert float(cost.delta(found)) <= wanted
        assert float(cost.delta(found * (1 - 1e-6))) > wanted * (1 - 1e-8)


@pytest.mark.parametrize(
    ("kind", "claim"),
    [
        ("certified", "certified 0.5-DP"),
        ("constant", "certified 0.5-DP"),
        ("global", "certified 0.257-DP; its paper claims 0.5-DP"),
        ("local", "certified 0.376-DP; its paper makes no claim"),
        ("smooth", "certified 0.32-DP; its paper claims (0.5, 0.8)-DP"),
    ],
)
def test_claim(kind: str, claim: str) -> None:
    assert mechanism(kind).claim == claim


@pytest.mark.parametrize("kind", KINDS)
def test_permuting_cells_with_the_prior_permutes_everything(kind: str) -> None:
    order = [2, 0, 1]
    prior, counts = np.array([7.0, 0.4, 5.0]), np.array([[3, 1, 4], [0, 8, 0]])
    ours, other = mechanism(kind, prior, 8), mechanism(kind, prior[order], 8)
    assert ours.cost.pure_epsilon == pytest.approx(other.cost.pure_epsilon, rel=1e-10)
    np.testing.assert_allclose(ours.cost.rdp(ORDERS), other.cost.rdp(ORDERS), rtol=1e-9)
    np.testing.assert_allclose(
        ours.expected_error(counts), other.expected_error(counts[:, order]), rtol=1e-9
    )
    places = Posteriors(prior[order], 8).rank(Posteriors(prior, 8).counts[:, order])
    np.testing.assert_allclose(
        ours.probabilities(counts), other.probabilities(counts[:, order])[:, places], rtol=1e-9
    )


@each_kind
@pytest.mark.parametrize("tables", [1, 1 << 22])
def test_blocks_and_tables_change_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: str, tables: int
) -> None:
    x = [[3, 1, 4], [8, 0, 0]]

    def numbers() -> list[np.ndarray]:
        clear_caches()
        ours = mechanism(kind, (7, 4, 5), 8)
        return [
            np.array(ours.cost.pure_epsilon),
            ours.cost.rdp(ORDERS),
            ours.cost.delta(EPSILONS),
            ours.expected_error(x),
            ours.release(x, np.random.default_rng(0)).concentrations,
        ]

    usual = numbers()
    monkeypatch.setattr(certificate, "BLOCK", 60)
    monkeypatch.setattr(posterior_exponential, "BLOCK", 60)
    monkeypatch.setattr(posteriors, "BLOCK", 60)
    monkeypatch.setattr(posteriors, "_LARGEST_TABLE", tables)
    for one, other in zip(usual, numbers(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    clear_caches()


@pytest.mark.parametrize("prior", [(1e-30, 1e20), (1e20, 1e20), (1e-30, 1e-30, 1)])
def test_extreme_priors(prior: Sequence[float]) -> None:
    ours = mechanism("certified", prior, 20)
    assert 0.5 * (1 - 2e-4) <= ours.cost.pure_epsilon <= 0.5
    distances = Posteriors(prior, 20).distances(np.array([0]))
    with mp.workdps(120):
        u, v = (
            [mpf(a) + int(k) for a, k in zip(prior, c, strict=True)]
            for c in Posteriors(prior, 20).counts[[0, 7]]
        )
        expected = float(slow_hellinger(u, v)) if max(prior) < 1e3 else None
    if expected is not None:
        assert distances[0, 7] == pytest.approx(expected, rel=1e-10)


# Draws ---------------------------------------------------------------------------------

DRAWS = 100_000
FALSE_ALARM = 1e-6


def chi_square(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """The p-value of counts of candidates."""
    expected = probabilities * observed.sum()
    assert expected.min() > 5
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1))


@pytest.mark.few(6)
@each_kind
def test_draws_have_the_stated_law(kind: str) -> None:
    """100,000 draws, false alarm 1e-6; a c that is 5 percent wrong is found out."""
    prior = (7.0, 4.0, 5.0)
    ours, wrong = mechanism(kind, prior, 4, 4.0), mechanism(kind, prior, 4, 4.2)
    x = [1, 2, 1]
    drawn = ours.release(np.tile(x, (DRAWS, 1)), np.random.default_rng(3)).concentrations - prior
    places = Posteriors(prior, 4).rank(np.rint(drawn))
    observed = np.bincount(places, minlength=len(ours.probabilities(x)))
    assert chi_square(observed, ours.probabilities(x)) > FALSE_ALARM
    assert chi_square(observed, wrong.probabilities(x)) < FALSE_ALARM


def test_rows_are_drawn_each_from_its_own_law() -> None:
    ours = mechanism("certified", (7, 4), 10, 300.0)
    x = np.array([[[10, 0], [0, 10], [3, 7]], [[5, 5], [10, 0], [6, 4]]])
    released = ours.release(x, np.random.default_rng(0))
    assert isinstance(released, DirichletPosterior)
    np.testing.assert_array_equal(released.concentrations, x + np.array([7, 4]))
    assert ours.expected_error(x).shape == (2, 3)
    assert ours.probabilities(x).shape == (2, 3, 11)
    np.testing.assert_allclose(ours.probabilities(x).sum(-1), 1)


def test_no_rounding_makes_a_candidate_impossible() -> None:
    """A float in [0, 1) and cumulative sums missed 3,202 candidates that a neighbour could draw."""
    ours = mechanism("certified", (1.0, 1.0), 500, 2.0)
    candidates = Posteriors((1.0, 1.0), 500).counts
    rarest = int(ours.probabilities([[65, 435]]).argmin())

    class Offers(np.random.Generator):
        """Offers one option alone; of each decision that takes it no bit decides against."""

        def integers(self, low: int, high: int | None = None, size: Any = None, **_: Any) -> Any:
            return np.full(size, rarest) if size is not None else 0

        def random(self, size: Any = None, **_: Any) -> Any:
            return np.full(size, 1 - 2.0**-53)

    for counts in ([65, 435], [66, 434]):
        released = ours._draw(np.array([counts], np.float64), Offers(np.random.PCG64(0)))
        np.testing.assert_array_equal(released.concentrations - 1, candidates[[rarest]])


def test_released_is_the_posterior_of_a_data_set() -> None:
    ours = mechanism("certified", (0.5, 0.25, 1), 9, 1.0)
    x = np.tile([9, 0, 0], (500, 1))
    chosen = ours.release(x, np.random.default_rng(0)).concentrations - ours.prior
    assert (chosen == np.floor(chosen)).all()
    assert (chosen >= 0).all()
    assert (chosen.sum(-1) == 9).all()


def test_no_rows_at_all() -> None:
    ours = mechanism("local", n=10)
    empty = ours.release(np.zeros((0, 2)), np.random.default_rng(0))
    assert empty.concentrations.shape == (0, 2)
    assert ours.expected_error(np.zeros((0, 2))).shape == (0,)


@pytest.mark.slow
@each_kind
def test_audit_comes_close_from_below(kind: str) -> None:
    """At confidence 0.9999, with 200,000 draws from each of the two worst data sets."""
    ours = mechanism(kind, n=12, epsilon=3.0)
    posteriors = Posteriors(ours.prior, ours.n)
    rows = [ours.probabilities(c) for c in posteriors.counts]
    profile = [
        np.clip(rows[i] - np.exp(1.0) * rows[j], 0, None).sum()
        for i, j in [*posteriors.pairs, *posteriors.pairs[:, ::-1]]
    ]
    i, j = [*posteriors.pairs, *posteriors.pairs[:, ::-1]][int(np.argmax(profile))]
    claimed = float(ours.cost.epsilon(0.01))
    check_claim(
        lambda data, rng: ours.release(data, rng).concentrations,
        posteriors.counts[i],
        posteriors.counts[j],
        seed=5,
        claimed=claimed,
        least=0.85 * claimed,
    )


# Accounting, calibration ---------------------------------------------------------------


def test_cost_is_a_release_of_replaced_records() -> None:
    cost: Cost = mechanism().cost
    assert isinstance(cost, ExponentialCost)
    assert cost.relation == ReplaceRecord()
    assert cost == mechanism().cost
    assert hash(cost) == hash(mechanism().cost)
    assert cost != mechanism("global").cost
    with pytest.raises(ValueError, match="mechanism must be a Posterior"):
        ExponentialCost("mechanism")


def test_accountant_is_charged_before_and_not_over_budget() -> None:
    ours = mechanism(n=30)
    accountant = RdpAccountant(budget=ApproxDP(0.9, 1e-9))
    rng = np.random.default_rng(0)
    ours.release([12, 18], rng, accountant=accountant)
    spent, state = accountant.rdp, rng.bit_generator.state
    np.testing.assert_allclose(spent, ours.cost.rdp(accountant.orders), rtol=1e-14)
    with pytest.raises(BudgetExceeded):
        ours.release([12, 18], rng, accountant=accountant)
    np.testing.assert_array_equal(accountant.rdp, spent)
    assert rng.bit_generator.state == state
    with pytest.raises(ValueError, match="sum to n"):
        ours.release([12, 17], rng, accountant=RdpAccountant())


@pytest.mark.few(27)
@each_kind
@pytest.mark.parametrize(
    ("target", "count"),
    [(RenyiDP(2, 0.1), 1), (RenyiDP(8, 0.1), 7), (ApproxDP(1, 1e-5), 1), (ApproxDP(1, 1e-5), 5)],
)
def test_calibrated(kind: str, target: RenyiDP | ApproxDP, count: int) -> None:
    delta = 0.8 if kind == "smooth" else None
    ours = PosteriorExponentialMechanism.calibrated(
        target, prior=(7, 4), n=30, sensitivity=kind, delta=delta, count=count
    )
    assert target.excess(ours.cost, count) <= 0
    more = PosteriorExponentialMechanism(ours.prior, 30, ours.epsilon * 1.001, kind, delta)
    assert target.excess(more.cost, count) > 0
    accountant = RdpAccountant(budget=target)
    accountant.compose(ours.cost, count)


# Refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "shown"),
    [
        ((7,), "two pseudo-counts"),
        ((), "two pseudo-counts"),
        (3.0, "two pseudo-counts"),
        (((1, 2), (3, 4)), "two pseudo-counts"),
        ((1, 0), "got 0.0"),
        ((1, -2), "got -2.0"),
        ((1, math.nan), "got nan"),
        ((1, math.inf), "got inf"),
        ((1, 1e-40), "got 1e-40"),
        ((1, 1e40), r"got 1e\+40"),
    ],
)
def test_prior_is_checked(prior: object, shown: str) -> None:
    for make in (
        lambda: PosteriorExponentialMechanism(prior, 5, 1.0),
        lambda: Posteriors(prior, 5),
        lambda: hellinger_sensitivity(prior, 5),
        lambda: PosteriorExponentialMechanism.calibrated(RenyiDP(2, 1), prior=prior, n=5),
    ):
        with pytest.raises(ValueError, match=rf"prior must .*{shown}"):
            make()


@pytest.mark.parametrize("n", [0, -1, 2.0, 1.5, math.nan, True, "3", None])
def test_n_is_checked(n: object) -> None:
    with pytest.raises(ValueError, match=r"\bn must be a whole number"):
        PosteriorExponentialMechanism((7, 4), n, 1.0)


@pytest.mark.parametrize("epsilon", [0, -1, 1e-6, 1e-9, 1e6, math.nan, math.inf, True, None, "1"])
def test_epsilon_is_checked(epsilon: object) -> None:
    with pytest.raises(ValueError, match=r"\bepsilon must be a number > 1e-06 and < 1e\+06"):
        PosteriorExponentialMechanism((7, 4), 5, epsilon)


def test_sensitivity_and_delta_are_checked() -> None:
    for kind in ("Global", "", None, 3):
        with pytest.raises(ValueError, match="sensitivity must be one of 'certified'"):
            PosteriorExponentialMechanism((7, 4), 5, 1.0, kind)
    for delta in (None, 0, 1, -1, math.nan, "0.1"):
        with pytest.raises(ValueError, match=f"delta must be .*got {delta!r}"):
            PosteriorExponentialMechanism((7, 4), 5, 1.0, "smooth", delta)
    for kind in ("certified", "constant", "global", "local"):
        with pytest.raises(ValueError, match=r"delta must be None .*got 0\.1"):
            PosteriorExponentialMechanism((7, 4), 5, 1.0, kind, 0.1)
    for value in (0, 1, math.nan):
        with pytest.raises(ValueError, match="delta"):
            smooth_beta(1.0, value, 5)
    with pytest.raises(ValueError, match="n_candidates"):
        smooth_beta(1.0, 0.1, 0)
    with pytest.raises(ValueError, match="epsilon"):
        smooth_beta(0.0, 0.1, 5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([2, 2], "sum to n = 5"),
        ([3, 3], "sum to n = 5"),
        ([[2, 3], [2, 2]], "sum to n = 5"),
        ([2.5, 2.5], "whole"),
        ([6, -1], ">= 0"),
        ([math.nan, 5], "counts >= 0"),
        ([math.inf, 0], r"<= 2\*\*53"),
        ([1, 2, 2], r"as many cells as the prior, 2, got shape \(3,\)"),
        ([5], "two cells"),
        (5, "two cells"),
    ],
)
def test_data_are_checked(data: object, message: str) -> None:
    ours = PosteriorExponentialMechanism((7, 4), 5, 1.0)
    accountant = RdpAccountant()
    for call in (
        lambda: ours.release(data, np.random.default_rng(0), accountant=accountant),
        lambda: ours.expected_error(data),
        lambda: ours.probabilities(data),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert accountant.relation is None


@pytest.mark.parametrize(
    ("m", "n", "message"),
    [
        (2, 10**6, "at most 38729 for 2 cells, got 1000000; its 1,000,001 candidates"),
        (3, 211, r"at most 210 for 3 cells, got 211; .*of which 1\.5e\+09 are accepted"),
        (20, 10, "at most 2 for 20 cells"),
        (2000, 1, "at most 0 for 2000 cells"),
    ],
)
def test_sizes_are_refused_at_once(m: int, n: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PosteriorExponentialMechanism((1.0,) * m, n, 1.0)


def test_calibration_takes_smaller_sizes() -> None:
    with pytest.raises(ValueError, match=r"n must be at most \d+ for 3 cells, .*the constructor"):
        PosteriorExponentialMechanism.calibrated(RenyiDP(2, 1), prior=(1, 1, 1), n=90)


@pytest.mark.slow
def test_the_largest_sizes_in_a_minute() -> None:
    """Two cells; the pass over all pairs is the test below."""
    ours = mechanism("certified", (7, 4), 5000)
    assert 0.4999 <= ours.cost.pure_epsilon <= 0.5
    released = ours.release([2500, 2500], np.random.default_rng(0)).concentrations
    assert released.sum() == 5011


@pytest.mark.slow
@each_kind
def test_three_cells_and_two_hundred_records(kind: str) -> None:
    ours = mechanism(kind, (7, 4, 5), 200, 0.8)
    largest = ours.cost.pure_epsilon
    if kind in SOLVED:
        assert 0.8 * (1 - 2e-4) <= largest <= 0.8
    # Any pair of rows bounds the certificate from below, and here the worst are at the edge.
    posteriors = Posteriors(ours.prior, 200)
    logs = np.log(ours.probabilities([[0, 0, 200], [0, 1, 199], [1, 0, 199]]))
    seen = max(np.abs(logs[0] - logs[1]).max(), np.abs(logs[0] - logs[2]).max())
    assert seen <= largest
    assert len(posteriors.counts) == 20_301
    released = ours.release([70, 70, 60], np.random.default_rng(0)).concentrations
    assert released.sum() == 216
