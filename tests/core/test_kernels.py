"""Compiled functions return what their plain twins do, to the last bit, or leave it to them."""

import math
from fractions import Fraction
from importlib import import_module
from typing import Any

import mpmath
import numpy as np
import pytest
from made import agent_of
from scipy import sparse

from privrl.accounting import RdpAccountant
from privrl.agents import PSRL, BetaRewards, sparse_model
from privrl.agents.training import learn_counts
from privrl.envs import TabularMDP, plan, riverswim
from privrl.envs.planning import best_actions
from privrl.envs.rollouts import CountSimulator, StepSimulator
from privrl.mechanisms import certificate
from privrl.numerics import compiled, exact_dirichlet
from privrl.numerics.exact_dirichlet import rounded_log_gammas
from privrl.numerics.randomness import VectorisedGenerator
from privrl.samplers import Diffuse
from privrl.samplers.base import GRID, LARGEST_TOTAL, check_batch

pytestmark = pytest.mark.needs("numba")


class _Kernels:
    """Compiled when one is asked for: it takes seconds, and tests elsewhere are collected too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("privrl.numerics.kernels"), name)


kernels: Any = _Kernels()


@pytest.fixture(params=[0.0, math.inf], ids=["compiled", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """Each test that asks for it runs both ways."""
    worth: float = request.param
    monkeypatch.setattr(compiled, "_WORTH", worth)
    return worth


def both(monkeypatch: pytest.MonkeyPatch, made: Any) -> list[Any]:
    """Return what is made by compiled functions, and by plain ones."""
    results = []
    for worth in (0.0, math.inf):
        monkeypatch.setattr(compiled, "_WORTH", worth)
        results.append(made())
    return results


def uniform(size: int, seed: int) -> np.ndarray:
    """Return uniform numbers of 53 bits, some of which are extreme."""
    u = np.random.default_rng(seed).random((3, size))
    u[0, : size // 10] **= 8
    u[0, size // 10 : size // 5] = 1 - u[0, size // 10 : size // 5] ** 8
    u[:, -3:] = [[0.0, 1 - 2.0**-53, 0.5], [2.0**-53, 0.0, 1 - 2.0**-53], [0.5, 2.0**-51, 0.0]]
    return np.minimum(np.floor(u * 2**53) / 2**53, 1 - 2.0**-53)


@pytest.mark.slow
def test_logarithms_and_exponentials_are_as_good_as_the_bounds_say() -> None:
    """Within 2^-50 of their size, an eighth of what is allowed for."""
    rng = np.random.default_rng(1)
    near = 1 + rng.uniform(-1, 1, 100) * 10.0 ** -rng.uniform(1, 15, 100)
    for x in [*np.exp(rng.uniform(-73, 70, 200)), *near, math.sqrt(0.5), 2.0**-106, 2.0**53]:
        with mpmath.workdps(40):
            exact = mpmath.log(mpmath.mpf(float(x)))
        assert abs(kernels._log(float(x)) - exact) <= 2.0**-50 * abs(exact)
    small = rng.uniform(-1, 1, 100) * 10.0 ** -rng.uniform(0, 15, 100)
    for x in [*rng.uniform(-37, 37, 200), *small, 0.0, 0.34657, -0.34658]:
        rise, bent = kernels._exponential(float(x))
        with mpmath.workdps(60):
            exact = mpmath.expm1(mpmath.mpf(float(x)))
            left = exact - mpmath.mpf(float(x))
        assert abs(rise - exact) <= 2.0**-50 * abs(exact)
        assert abs(bent - left) <= 2.0**-49 * abs(left)


@pytest.mark.few(9)
@pytest.mark.parametrize("shape", [1e-30, 1e-9, 0.3, 1.0, 1.5, 40.0, 1e5, 1e12, 1e30])
def test_what_is_not_in_doubt_is_what_digits_decide(shape: float) -> None:
    u = uniform(200, 3)
    accepted, values, doubts = kernels.candidates(np.full(200, shape), u)
    assert 3 <= len(doubts) < 20  # those that are extreme
    for i in np.setdiff1d(np.arange(200), doubts):
        known = [int(x * 2**53) for x in u[:, i]]
        outcome = exact_dirichlet._outcome(
            Fraction(shape), known, np.random.default_rng(4), small=shape < 1
        )
        assert accepted[i] == (outcome is not None)
        assert outcome is None or outcome == values[i]


@pytest.mark.parametrize("shape", [0.4, 7.5, 1e6])
def test_each_bound_tells_of_what_it_cannot_know(shape: float) -> None:
    """Candidates at the edge of being accepted, and halfway between two grains, are in doubt.

    They are found by bisection of one uniform number each, as what floats say changes there.
    """
    shapes, u = np.full(300, shape), np.random.default_rng(14).random((3, 300))

    def at_edges(moved: int, said: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return whether candidates at an edge are accepted, and which are in doubt."""
        low, high = u.copy(), u.copy()
        low[moved], high[moved] = 0.01, 0.99
        at_low, at_high = (said(*kernels.candidates(shapes, x)[:2]) for x in (low, high))
        for _ in range(60):
            middle = (low + high) / 2
            same = said(*kernels.candidates(shapes, middle)[:2]) == at_low
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        accepted, _, doubts = kernels.candidates(shapes, low)
        unsure = np.isin(np.arange(300), doubts)
        return accepted[at_low != at_high], unsure[at_low != at_high]

    _, unsure = at_edges(1, lambda accepted, _: accepted)
    assert len(unsure) > 20
    assert unsure.all()
    accepted, unsure = at_edges(0, lambda _, values: values)
    assert accepted.sum() > 20
    assert unsure[accepted].all()


def test_draws_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more shapes than are drawn at once, of all sizes; and of rows that are abreast."""
    shapes = 10.0 ** np.random.default_rng(5).uniform(-5, 5, 20_000)

    def drawn() -> np.ndarray:
        rng = np.random.default_rng(6)
        alone = rounded_log_gammas(shapes, lambda i: Fraction(shapes[i]), rng)
        rows = VectorisedGenerator([rng, np.random.default_rng(7)])
        abreast = rounded_log_gammas(shapes[:500], lambda i: Fraction(shapes[i]), rows)
        return np.concatenate([alone, abreast, rng.random(1)])

    compiled_ones, plain = both(monkeypatch, drawn)
    np.testing.assert_array_equal(compiled_ones, plain)


@pytest.mark.parametrize("shape", [(1, 6, 2, 6), (300, 4, 3, 4), (2, 3, 5, 1, 5), (20, 2, 20)])
def test_policies_are_the_same(shape: tuple[int, ...]) -> None:
    """Those that are compiled, and those of many states, which are not."""
    rng = np.random.default_rng(8)
    tables, rewards = rng.dirichlet(np.ones(shape[-1]), shape[:-1]), rng.random(shape[:-1])
    expected = plan(tables, rewards, 9)[0]
    quick = kernels.greedy(tables, rewards, 9)
    if shape[-1] <= 16:
        np.testing.assert_array_equal(quick, expected)
    else:
        assert quick is None


@pytest.mark.parametrize("number", [1, 2], ids=["one matrix", "the worse of two"])
@pytest.mark.parametrize("postpones", [False, True])
@pytest.mark.parametrize("least", [-1.5, 0.0, 0.5])
def test_sparse_plans_are_the_same(number: int, postpones: bool, least: float) -> None:
    """Of several runs, with rows of many lengths, actions that are equal and a few values below 0.

    ``least`` is what the worst case pays.
    """
    rng = np.random.default_rng(16)
    actions, runs, states, horizon = 3, 2, 40, 60
    columns = runs * states + runs + 2
    filled = rng.random((number, actions * runs * states, columns)) < rng.random(columns) ** 4
    tables = np.where(filled, rng.random(filled.shape), 0.0) + 1e-3 * np.eye(*filled.shape[1:])
    rows = [sparse.csr_array(table / table.sum(axis=1, keepdims=True)) for table in tables]
    matrices = [(each.data, each.indices, each.indptr) for each in rows]
    reward = rng.integers(-2, 4, (actions, runs * states)) / 3
    postponed = (rng.random(reward.shape) < 0.3, rng.random((horizon, runs * states)) < 0.5)
    perhaps, worst = rng.random((runs, states)) < 0.5, least * np.arange(horizon, 0, -1)
    given = matrices, reward, postponed if postpones else None, perhaps, worst
    plain = sparse_model._by_products(*given, discount=0.999)
    assert len(np.unique(plain)) == actions
    np.testing.assert_array_equal(kernels.induced(*given, discount=0.999), plain)


@pytest.mark.parametrize("prior", [0.1, 0.9])
def test_fractions_of_filled_cells_are_the_same(prior: float) -> None:
    """Of classes with few cells and with many, where the order of a sum decides in few of 40 tries.

    None leaves those to the plain twin.
    """
    rng = np.random.default_rng(17)
    spike, slab = sparse_model._densities()
    found = 0
    for _ in range(40):
        amount = 10.0 ** rng.uniform(-1, 4, (8, 1)) * rng.dirichlet(np.full(len(spike), 0.1), 8)
        given = rng.poisson(amount), spike, slab / 3, prior, 5.0
        limits = {"least": 1e-8, "most": 0.999, "steps": 40}
        quickly = kernels.fractions(*given, **limits)
        if quickly is not None:
            found += 1
            np.testing.assert_array_equal(quickly, sparse_model._bisected(*given, **limits))
    assert found > 30


def test_fractions_where_the_order_of_a_sum_decides() -> None:
    """The slope is 0 at a half: two equal parts of opposite signs."""
    spike, slab = np.array([1.0, 3.0]), np.array([3.0, 1.0])
    limits = {"least": 0.25, "most": 1.0, "steps": 1}
    given = np.array([[1, 1]]), spike, slab, 0.5, 1.0
    assert kernels.fractions(*given, **limits) is None


def test_actions_that_rounding_may_tell_apart_are_left_to_the_plain_way(way: float) -> None:
    """The second is the first, with next states in another order; all of them are worth the same.

    A tie of rewards at the last step is none of rounding.
    """
    rng = np.random.default_rng(9)
    first = rng.dirichlet(np.ones(5), 5)
    tables = np.stack([first, first[:, ::-1]], axis=1)
    for rewards, sure in ((np.full((5, 2), 0.1), False), (np.tile([0.1, 0.3], (5, 1)), True)):
        for horizon in (1, 7):
            quick = kernels.greedy(tables, rewards, horizon)
            assert (quick is not None) == (sure or horizon == 1)
            expected = plan(tables, rewards, horizon)[0]
            np.testing.assert_array_equal(best_actions(tables, rewards, horizon), expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("n_actions", [1, 2])
def test_tables_that_are_not_finite_are_refused(way: float, bad: float, n_actions: int) -> None:
    tables, rewards = np.full((3, n_actions, 3), 1 / 3), np.zeros((3, n_actions))
    rewards[1, -1] = bad
    with pytest.raises(ValueError, match="finite"):
        best_actions(tables, rewards, 4)
    tables[2, 0, 1] = bad
    with pytest.raises(ValueError, match="finite"):
        best_actions(tables, np.zeros((3, n_actions)), 4)


@pytest.mark.parametrize("n_states", [1, 3, 40])
@pytest.mark.parametrize("support", [False, True])
def test_walkers_go_the_same_ways(
    n_states: int, support: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few next states and many, some of which are impossible."""
    rng = np.random.default_rng(10)
    transition = rng.random((n_states, 2, n_states)) * (rng.random((n_states, 2, n_states)) < 0.7)
    transition[..., 0] += 0.01
    transition /= transition.sum(axis=-1, keepdims=True)
    start = transition[0, 0]
    mdp = TabularMDP(transition, np.zeros((n_states, 2)), start, 11)
    policy = rng.integers(2, size=(5, 11, n_states))
    policy.flags.writeable = False
    for way, episodes in ((StepSimulator, 1), (StepSimulator, 30), (CountSimulator, 10**12)):
        walkers = way(transition, start, mdp.support if support else None)
        quick, plain = both(
            monkeypatch,
            lambda n=episodes, way=walkers: way.counts(policy, n, np.random.default_rng(11)),
        )
        np.testing.assert_array_equal(quick, plain)
        assert quick.dtype == plain.dtype
        assert (quick.sum(axis=(1, 2, 3)) == episodes * 11).all()


FINE = np.array([[0.0, 3.0, 2.0**-16], [7.5, 2.0**36, 1.0]])


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, 0.3, 2.0**-17, 2.0**37])
def test_counts_that_are_not_are_refused(way: float, bad: float) -> None:
    check_batch(FINE, (), None)
    check_batch(FINE.T, (), None, [FINE.T / 2])
    for place in ((0, 0), (1, 2)):
        wrong = FINE.copy()
        wrong[place] = bad
        with pytest.raises(ValueError, match="counts must"):
            check_batch(wrong, (), None)


def test_sums_of_counts_that_are_too_large_are_refused(way: float) -> None:
    with pytest.raises(ValueError, match="sum to less"):
        check_batch(FINE, (), None, [FINE])
    with pytest.raises(ValueError, match="sum to less"):
        check_batch(FINE, (), None, [FINE / 2, FINE / 2])


def test_only_what_is_fine_is_passed_without_another_look() -> None:
    assert kernels.fit(FINE, (), GRID, LARGEST_TOTAL) is True
    assert kernels.fit(FINE, [FINE / 2], GRID, LARGEST_TOTAL) is True
    others = [(FINE + 0.3, ()), (FINE, [FINE]), (FINE, [FINE, FINE]), (FINE > 0, ())]
    for counts, past in [*others, (FINE, [FINE[:1] / 2])]:
        assert kernels.fit(counts, past, GRID, LARGEST_TOTAL) is None
    assert kernels.greedy(np.full((3, 2, 4), 0.25), np.zeros((3, 2)), 5) is None  # of four states


def test_losses_are_in_the_same_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on the edges of bins, and beyond the last ones."""
    rng = np.random.default_rng(14)
    logs = np.asfortranarray(
        np.concatenate([rng.uniform(-4, 4, (9, 300)), np.indices((9, 9))[0]], 1)
    )
    logs[:, :20] = np.rint(logs[:, :20])
    pairs = rng.integers(0, 9, (40, 2))
    masses = both(monkeypatch, lambda: certificate.binned(logs, np.exp(logs), pairs, 8))
    for quick, plain in zip(*masses, strict=True):
        np.testing.assert_array_equal(quick, plain)
        assert (quick[:, [0, -1]] > 0).any(axis=0).all()


@pytest.mark.parametrize("runs", [(), (3,)])
def test_private_runs_are_the_same(runs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rewards, policies, releases and costs."""
    mdp = riverswim()

    def learnt() -> list[np.ndarray]:
        agent = agent_of(
            PSRL,
            mdp.n_states,
            mdp.n_actions,
            mdp.horizon,
            sampler=Diffuse(weight=0.1),
            rewards=BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards")),
            accountant=RdpAccountant(),
            rng=np.random.default_rng(12),
            batch_shape=runs,
        )
        _, rewards = learn_counts(agent, mdp, 20, np.random.default_rng(13))
        assert agent.released is not None
        rows = [posterior.mean for posterior in agent.released]
        return [rewards, agent.behaviour, agent.policy, *rows, agent.accountant.rdp]

    for quick, plain in zip(*both(monkeypatch, learnt), strict=True):
        np.testing.assert_array_equal(quick, plain)


def test_it_is_compiled_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiles = kernels.numba.njit

    def refuses(*given: Any, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compiles(*given, **options)

    monkeypatch.setattr(kernels.numba, "njit", refuses)
    twice = kernels._compiled("float64(float64)")(lambda x: 2 * x)
    assert twice(1.5) == 3
