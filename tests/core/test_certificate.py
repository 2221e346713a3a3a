"""The certificate of a finite mechanism, against plain loops with many digits over all pairs."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from mpmath import mp, mpf

from privrl.mechanisms import certificate, posterior_exponential
from privrl.mechanisms.certificate import Certificate, hockey_stick, renyi_divergence
from privrl.mechanisms.posterior_exponential import PosteriorExponentialMechanism

ORDERS = np.array([1 + 1e-6, 1.0001, 1.3, 2.0, 3.7, 8.0, 40.0, 1e3, 1e5])
EPSILONS = np.array([0.0, 1e-3, 0.1, 0.3, 0.7, 1.5, 4.0])


class Dense:
    """A mechanism that is held in memory; ``slack`` makes its bounds worse than they need be."""

    margin = 0.0

    def __init__(self, logs: np.ndarray, pairs: list[tuple[int, int]], slack: float = 1.0) -> None:
        self._logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        self.pairs = np.array(pairs)
        self.n_outputs = logs.shape[1]
        self._slack = slack

    def log_probs(self, rows: np.ndarray, outputs: np.ndarray | slice = slice(None)) -> np.ndarray:
        return self._logs[rows][:, outputs]

    def parts(
        self, pairs: np.ndarray, spread: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray | slice]]:
        yield pairs, slice(None)

    def loss_bounds(self) -> np.ndarray:
        first, second = self._logs[self.pairs.T]
        exact = np.abs(first - second).max(axis=1)
        # The loosest bounds for the pairs that lose least, so that the first guess is wrong.
        return exact + (self._slack - 1) * (2 * exact.max() - exact)


def random_mechanism(seed: int, spread: float, slack: float = 1.0) -> Dense:
    rng = np.random.default_rng(seed)
    logs = -spread * rng.random((6, 9))
    return Dense(logs, list(itertools.combinations(range(6), 2)), slack)


def slow(dense: Dense) -> tuple[mpf, list[mpf], list[mpf]]:
    """Largest loss, Rényi divergences and deltas, by loops over ordered pairs and outputs."""
    with mp.workdps(60):
        matrix = [[mp.exp(mpf(float(v))) for v in row] for row in dense.log_probs(np.arange(6))]
        matrix = [[p / sum(row) for p in row] for row in matrix]
        ordered = [(i, j) for i, j in dense.pairs] + [(j, i) for i, j in dense.pairs]
        two = [(matrix[i], matrix[j]) for i, j in ordered]
        loss = max(mp.log(p / q) for a, b in two for p, q in zip(a, b, strict=True))
        rdp = [
            max(
                mp.log(sum(p * (p / q) ** (mpf(order) - 1) for p, q in zip(a, b, strict=True)))
                / (mpf(order) - 1)
                for a, b in two
            )
            for order in ORDERS
        ]
        delta = [
            max(
                sum(max(p - mp.exp(mpf(e)) * q, mpf(0)) for p, q in zip(a, b, strict=True))
                for a, b in two
            )
            for e in EPSILONS
        ]
        return loss, rdp, delta


@pytest.mark.few(10)
@pytest.mark.parametrize("spread", [1e-5, 0.1, 1.0, 5.0, 60.0])
@pytest.mark.parametrize("slack", [1.0, 1.5])
def test_against_loops(spread: float, slack: float) -> None:
    dense = random_mechanism(1, spread, slack)
    loss, rdp, delta = slow(dense)
    exact = Certificate(dense)
    assert exact.pure_epsilon == pytest.approx(float(loss), rel=1e-9)
    np.testing.assert_allclose(exact.rdp(ORDERS), np.array(rdp, np.float64), rtol=1e-8)
    np.testing.assert_allclose(
        exact.delta(EPSILONS), np.array(delta, np.float64), rtol=1e-9, atol=1e-16
    )


def test_randomised_response() -> None:
    truth = math.log(3)
    exact = Certificate(Dense(np.array([[truth, 0.0], [0.0, truth]]), [(0, 1)]))
    assert exact.worst == (pytest.approx(truth, rel=1e-14), 0)
    assert float(exact.delta(np.asarray(0.0))) == pytest.approx(0.5)
    assert float(exact.delta(np.asarray(1.0))) == pytest.approx(0.75 - math.e / 4)
    assert float(exact.rdp(np.asarray(2.0))) == pytest.approx(
        math.log(0.75**2 * 4 + 0.25**2 / 0.75)
    )


def test_only_neighbours_count() -> None:
    logs = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 0.0]])
    # The rarer output loses more: log(1 / 2) against log(1 / (1 + e^0.1)).
    near = math.log((1 + math.exp(0.1)) / 2)
    assert Certificate(Dense(logs, [(0, 1)])).pure_epsilon == pytest.approx(near)
    assert Certificate(Dense(logs, [(0, 1), (1, 2)])).pure_epsilon > 4


@pytest.mark.few(6)
@pytest.mark.parametrize("block", [1, 20, 1 << 20])
@pytest.mark.parametrize("bins", [(1, 1), (3, 3), (512, 512)])
def test_blocks_and_bins_change_nothing(
    monkeypatch: pytest.MonkeyPatch, block: int, bins: tuple[int, int]
) -> None:
    usual = Certificate(random_mechanism(5, 2.0))
    expected = usual.worst, usual.rdp(ORDERS), usual.delta(EPSILONS)
    monkeypatch.setattr(certificate, "BLOCK", block)
    monkeypatch.setattr(certificate, "_BINS", bins)
    monkeypatch.setattr(certificate, "_FINE", bins[1])
    monkeypatch.setattr(certificate, "_AT_ONCE", block)
    other = Certificate(random_mechanism(5, 2.0, slack=3.0))
    assert other.worst[0] == pytest.approx(expected[0][0], rel=1e-14)
    assert other.worst[1] == expected[0][1]
    np.testing.assert_allclose(other.rdp(ORDERS), expected[1], rtol=1e-12)
    np.testing.assert_allclose(other.delta(EPSILONS), expected[2], rtol=1e-12)


@pytest.mark.slow
def test_parameters_looked_at_together_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far apart, and in whatever order they are asked for."""
    rng = np.random.default_rng(3)
    for seed in range(12):
        dense = random_mechanism(seed, 4.0)
        exact = Certificate(dense)
        orders = 1 + np.geomspace(0.01, 100, 30)
        alone = np.array([exact.rdp(np.array([order]))[0] for order in orders])
        deltas = np.array([exact.delta(np.array([epsilon]))[0] for epsilon in EPSILONS])
        monkeypatch.setattr(certificate, "_TOGETHER", 1e9)
        monkeypatch.setattr(certificate, "_SAMPLES", 1)
        some, others = rng.permutation(len(orders)), rng.permutation(len(EPSILONS))
        together = Certificate(dense)
        np.testing.assert_allclose(together.rdp(orders[some]), alone[some], rtol=1e-12)
        np.testing.assert_allclose(
            together.delta(EPSILONS[others]), deltas[others], rtol=1e-12, atol=1e-16
        )
        monkeypatch.undo()


@pytest.mark.parametrize("spread", [0.3, 6.0, 900.0])
def test_bins_bound_every_pair_from_above(spread: float) -> None:
    """What prunes the pairs is an upper bound for each, in both directions."""
    dense = random_mechanism(2, spread)
    exact = Certificate(dense)
    check_bounds_from_above(exact, range(2 * len(dense.pairs)))


def test_outputs_not_looked_at_are_in_the_bounds() -> None:
    """Far from both data sets of a pair no candidate is looked at: they share one wide bin."""
    law = posterior_exponential._law(PosteriorExponentialMechanism((7, 4), 400, 1.0))
    exact = Certificate(law)
    spread = exact.pure_epsilon / 4 / (exact._coarse.shape[1] - 1)
    seen = [0, 0]
    for pairs, outputs in law.parts(np.arange(len(law.pairs)), spread):
        logs = law.log_probs(np.unique(law.pairs[pairs]))
        if isinstance(outputs, np.ndarray):
            out = np.setdiff1d(np.arange(law.n_outputs), outputs)
            assert np.abs(logs[:, out] - logs[:, outputs[-1:]]).max() <= spread
            seen[1] += out.size * len(pairs)
        seen[0] += len(pairs)
    assert seen[0] == len(law.pairs)
    assert seen[1] > 0.3 * len(law.pairs) * law.n_outputs
    check_bounds_from_above(exact, range(0, 2 * len(law.pairs), 9))


def check_bounds_from_above(exact: Certificate, indices: range) -> None:
    losses = exact._ends(exact._coarse.shape[1] - 1)
    np.testing.assert_allclose(exact._coarse.sum(axis=1), 1, rtol=1e-12)
    for index in indices:
        first, second = exact._ordered(index)
        for epsilon in EPSILONS:
            true = float(hockey_stick(first, second, np.array([epsilon]))[0])
            moved = exact._coarse[index] @ -np.expm1(np.minimum(epsilon - losses, 0))
            assert moved >= true * (1 - 1e-12)
        for power in (0.1, 1.0, 5.0):
            if power * exact.pure_epsilon < 600:
                true = float(renyi_divergence(first, second, np.array([power]))[0])
                moved = np.log(exact._coarse[index] @ np.exp(power * losses)) / power
                assert moved >= true * (1 - 1e-12)


def test_shapes_follow_the_argument() -> None:
    exact = Certificate(random_mechanism(1, 1.0))
    for shape in ((), (1,), (2, 3)):
        assert exact.rdp(np.full(shape, 2.0)).shape == shape
        assert exact.delta(np.full(shape, 0.1)).shape == shape


def test_limits() -> None:
    exact = Certificate(random_mechanism(4, 2.0))
    largest = exact.pure_epsilon
    assert float(exact.rdp(np.asarray(1e12))) == pytest.approx(largest, rel=1e-9)
    assert float(exact.rdp(np.asarray(1e12))) <= largest
    assert float(exact.delta(np.asarray(largest))) == 0
    assert float(exact.delta(np.asarray(largest * (1 - 1e-6)))) > 0
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    assert float(hockey_stick(np.log(p), np.log(q), np.array([0.0]))[0]) == pytest.approx(0.3)
    leibler = float((p * np.log(p / q)).sum())
    assert float(renyi_divergence(np.log(p), np.log(q), np.array([1e-12]))[0]) == pytest.approx(
        leibler
    )


def test_the_margin_is_added() -> None:
    dense = random_mechanism(4, 2.0)
    exact = Certificate(dense).pure_epsilon
    dense.margin = 0.01
    assert Certificate(dense).pure_epsilon == pytest.approx(exact + 0.01)
