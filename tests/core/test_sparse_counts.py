"""Sparse counts: dense Gaussian noise of which the rest is dropped, in little memory."""

import copy
import math
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, PureDP, RenyiDP
from privrl.agents import PSRL, Transition
from privrl.agents.methods import Method, Task, make_agent
from privrl.agents.setup import TabularSetup
from privrl.agents.sparse_psrl import SparsePSRL
from privrl.audit import audit_replay, audit_scores
from privrl.audit.black_box import AuditResult
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import DAMPED, ReplaceEpisode, ReplaceRecord, ReplaceStep
from privrl.envs.random_tables import garnet
from privrl.experiments.memory import check_memory
from privrl.numerics.cells import Cells
from privrl.numerics.discrete_gaussian import on_grid
from privrl.samplers import sparse_counts
from privrl.samplers.base import GRID, draw
from privrl.samplers.noisy_counts import NoisyCounts
from privrl.samplers.sparse_counts import SparseCounts, halvings, threshold_of

ROWS = 100_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _p_values(released: Cells, cell: int, count: float, sigma: float) -> tuple[float, float]:
    """Of the number of rows with a cell, and of their noisy counts: of normal noise, cut off."""
    width = released.shape[-1]
    mine = released.places % width == cell
    least = threshold_of(released.shape) * sigma
    above = stats.norm.sf(least, count, sigma)
    number = stats.binomtest(int(mine.sum()), ROWS, above).pvalue
    law = stats.truncnorm((least - count) / sigma, np.inf, count, sigma)
    return float(number), float(stats.kstest(released.amounts[mine], law.cdf).pvalue)


@pytest.mark.few(6)
@pytest.mark.parametrize("off", [0.0, 0.1])
def test_law_of_a_release(off: float) -> None:
    """100,000 rows, false-alarm rate 1e-6 each; noise 10 % too small must be caught."""
    table = np.tile([0.0, 2.0, 5.0, 0.0, 0.0, 0.0], (ROWS, 1))
    sampler = SparseCounts(sigma=2.0 * (1 - off), releases=[0], relation=ReplaceRecord())
    (released,) = sampler.update(table, rng(1)).counts
    p = [_p_values(released, cell, table[0, cell], 2.0) for cell in range(3)]
    if off:
        assert min(map(max, p)) < 1e-6
    else:
        assert np.min(p) > 1e-6


def test_self_loops_have_louder_noise() -> None:
    states, actions = 40, 60
    table = np.zeros((states, actions, states))
    sampler = SparseCounts(sigma=2.0, releases=[0], table=DAMPED)
    table[np.arange(states), :, np.arange(states)] = 100
    table[np.arange(states), :, (np.arange(states) + 1) % states] = 100
    released = sampler.update(table, rng(2)).counts[0].table - 100
    loops = np.eye(states, dtype=bool)[:, None, :].repeat(actions, 1)
    np.testing.assert_array_equal(sampler.loops, loops)
    others = np.roll(loops, 1, axis=-1)
    # 2,400 draws each: chi-square, false-alarm rate 1e-6.
    for cells, sigma in ((loops, 2 * math.sqrt(2)), (others, 2.0)):
        square = (released[cells] / sigma) ** 2
        assert 1e-6 < stats.chi2(square.size).cdf(square.sum()) < 1 - 1e-6


def test_delta_by_brute_force() -> None:
    """The exact law of two cells that change, on a coarse grid, against the cost of the noise."""
    sigma, shift = 12.0, 9  # grains
    s, least = on_grid(sigma), 20
    noise = np.arange(-400, 401)
    law = np.exp(-((noise / s) ** 2) / 2)
    law /= law.sum()

    def cell(count: int) -> np.ndarray:
        """Chances of nothing, and of each value from the threshold on."""
        values = noise + count
        shown = [law[values == x].sum() for x in range(least, 400)]
        return np.append(1 - np.sum(shown), shown)

    one = np.outer(cell(0), cell(shift)).ravel()
    other = np.outer(cell(shift), cell(0)).ravel()
    cost = GaussianCost(sigma=sigma / shift, relation=ReplaceRecord())
    for epsilon in (0.0, 0.3, 1.0, 2.0, 4.0):
        exact = np.maximum(one - math.exp(epsilon) * other, 0).sum()
        assert exact <= float(cost.delta(epsilon))
        # Power: with noise cut at the threshold for filled cells alone, a new cell gives itself
        # away, and no delta of the noise covers that.
        new, none = cell(shift), np.append(1.0, np.zeros(len(cell(0)) - 1))
        assert np.maximum(new - math.exp(epsilon) * none, 0).sum() >= 1 - new[0] - 1e-12


# --- an audit ---------------------------------------------------------------------------
# A replaced step empties two cells and fills two others. Of 20,000 draws each, side by side as the
# rows of a table, epsilon at delta 0.01 is bounded from below with confidence 99 %.


def _appeared(row: list[float], seed: int) -> np.ndarray:
    """Noisy counts of four cells, shape (20,000, 4); the threshold where none appeared."""
    table = np.tile([*row, 0.0, 0.0, 0.0, 0.0], (20_000, 1))
    (cells,) = SparseCounts(sigma=2.0, releases=[0]).update(table, rng(seed)).counts
    shown = np.full(table.shape, 2.0 * threshold_of(table.shape))
    shown.ravel()[cells.places] = cells.amounts
    return shown[:, :4]


def _audited() -> AuditResult:
    claimed = GaussianCost(sigma=2.0, relation=ReplaceStep(), table=DAMPED).epsilon(0.01)
    first, second = (
        _appeared(row, seed) @ [1.0, 1.0, -1.0, -1.0]
        for row, seed in (([1.0, 1.0, 0.0, 0.0], 8), ([0.0, 0.0, 1.0, 1.0], 9))
    )
    return audit_scores(first, second, delta=0.01, claimed=float(claimed))


def test_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = _audited()
    assert not fair.violated
    assert fair.epsilon_lower > 0.4 * fair.claimed
    # Noise on filled cells alone: a new cell gives itself away.
    nothing = np.empty(0, np.int64), np.empty(0)
    monkeypatch.setattr(sparse_counts, "far_cells", lambda *_: nothing)
    assert _audited().violated


def test_batches_wait_for_the_next_release() -> None:
    table = np.zeros((3, 50))
    table[1, 4] = 40.0
    sampler = SparseCounts(sigma=1.0, releases=[1, 3])
    seen = [sampler.update(table, rng(i)) for i in range(4)]
    assert [len(each.counts) for each in seen] == [0, 1, 1, 2]
    assert seen[1] is seen[2]
    for cells, deviations in zip(seen[3].counts, seen[3].evidence, strict=True):
        assert abs(cells.table[1, 4] - 80) < 6
        np.testing.assert_allclose(deviations, cells.amounts, rtol=1e-6)  # sigma is 1
    with pytest.raises(ValueError, match="used up"):
        sampler.update(table, rng())


def test_cells_and_arrays_are_alike() -> None:
    table = np.zeros((20, 3, 20))
    table[4, 1, 7] = 9
    found = []
    for counts in (table, Cells.of(table)):
        accountant, sampler = RdpAccountant(), SparseCounts(sigma=2.0, releases=[0], table=DAMPED)
        (posterior,) = draw(accountant, [(sampler, counts)], rng(4))
        (cells,) = posterior.counts
        found.append((cells.places.tolist(), cells.amounts.tolist()))
        assert accountant.rdp.any()
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="counts must be an array"):
        draw(RdpAccountant(), [(NoisyCounts(sigma=2.0, updates=1), Cells.of(table))], rng())


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, GRID / 2, 2.0**37])
def test_bad_cells_cost_nothing(bad: float) -> None:
    accountant, sampler = RdpAccountant(), SparseCounts(sigma=2.0, releases=[0, 1])
    draw(accountant, [(sampler, Cells((3, 4), np.array([2]), np.array([7.0])))], rng())
    spent = accountant.rdp.copy()
    with pytest.raises(ValueError, match="counts"):
        draw(accountant, [(sampler, Cells((3, 4), np.array([2]), np.array([bad])))], rng())
    with pytest.raises(ValueError, match="shape"):
        draw(accountant, [(sampler, Cells((4, 3), np.array([2]), np.array([1.0])))], rng())
    fresh = SparseCounts(sigma=2.0, releases=[0])
    with pytest.raises(ValueError, match="counts"):
        draw(accountant, [(fresh, Cells((3, 4), np.array([2]), np.array([bad])))], rng())
    np.testing.assert_array_equal(accountant.rdp, spent)


@pytest.mark.parametrize(
    ("places", "amounts"),
    [([2, 1], [1, 1]), ([1, 1], [1, 1]), ([12], [1]), ([-1], [1]), ([1.0], [1]), ([1], [1, 2])],
)
def test_cells_are_in_order_and_in_the_table(places: list[int], amounts: list[float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Cells((3, 4), np.array(places), np.array(amounts, np.float64))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(0),
        lambda: np.zeros((0, 5)),
        lambda: np.zeros((5, 0)),
        lambda: np.zeros(()),
        lambda: Cells((), np.empty(0, np.intp), np.empty(0)),
        lambda: Cells((3.0, 4), np.array([1]), np.array([1.0])),  # type: ignore[arg-type]
        lambda: Cells((-3, -4), np.array([1]), np.array([1.0])),
        lambda: Cells((2**40, 2**40), np.array([1]), np.array([1.0])),
        lambda: Cells((2**27, 3), np.array([1]), np.array([1.0])),
        lambda: Cells((3, 4), np.ma.array([1, 2, 2, 3], mask=[0, 0, 1, 0]), np.ones(4)),
        lambda: Cells((3, 4), np.array([1, 2]), np.ma.array([1, 2], mask=[0, 1])),
    ],
)
def test_tables_that_cannot_be_released_cost_nothing(make: Callable[[], Any]) -> None:
    """They were charged, and the release failed or counted what a mask hides."""
    accountant, sampler = RdpAccountant(), SparseCounts(sigma=2.0, releases=[0])
    with pytest.raises(ValueError, match="must"):
        draw(accountant, [(sampler, make())], rng())
    assert not accountant.rdp.any()


def test_unsigned_places_are_places() -> None:
    """They were charged, then became floats beside the places of what waits."""
    sampler = SparseCounts(sigma=2.0, releases=[1])
    batch, accountant = Cells((3, 4), np.array([2], np.uint64), np.array([7.0])), RdpAccountant()
    for _ in range(2):
        (posterior,) = draw(accountant, [(sampler, batch)], rng())
    assert len(posterior.counts) == 1
    for cells in (batch, copy.deepcopy(batch), pickle.loads(pickle.dumps(batch, 4))):
        with pytest.raises(ValueError, match="WRITEABLE"):
            cells.amounts.flags.writeable = True


@pytest.mark.parametrize("sigma", [3e-5, 1e-4])
def test_filled_and_empty_cells_have_the_same_least_value(sigma: float) -> None:
    """On a grid of a few grains to a deviation, where one grain more would tell them apart."""
    places = np.arange(0, 20_000, 2)
    filled = Cells((4000, 5), places, np.zeros(len(places)))
    (found,) = SparseCounts(sigma=sigma, releases=[0]).update(filled, rng(5)).counts
    least = GRID * math.ceil(threshold_of(filled.shape) * on_grid(sigma / GRID))
    for which in (0, 1):  # more than 1,000 cells each, of which more than a tenth are the least
        assert found.amounts[found.places % 2 == which].min() == least


@pytest.mark.parametrize("where", [0, 4])
def test_a_replaced_step_with_a_self_loop_is_paid_for(where: int) -> None:
    """Two steps leave a self-loop: also into cells that were empty."""
    before = np.zeros((3, 2, 3))
    before[0, 0, 0] = 2
    after = np.zeros((3, 2, 3))
    after[0, 0, 1] = after[1, 1, 0] = 1
    other = np.zeros((3, 2, 3)) + where

    def pipeline(batches: list[np.ndarray]) -> object:
        sampler, shown = SparseCounts(sigma=1.5, releases=[0, 2], table=DAMPED), []
        accountant, generator = RdpAccountant(), rng()
        for batch in batches:
            shown += draw(accountant, [(sampler, Cells.of(batch))], generator)
        return shown, accountant.rdp

    result = audit_replay(pipeline, [other, before, other], [other, after, other])
    assert not result.violated, result.findings
    assert result.releases == 3
    spread = audit_replay(pipeline, [before, other, other], [after, other, after])
    assert spread.violated  # two batches at once are not what is paid for


@pytest.mark.parametrize(
    ("users", "releases"),
    [
        ((1,) * 41, (0, 1, 4, 9, 19, 40)),
        ((0, 1, 1, 2, 4, 8), (1, 2, 3, 4, 5)),
        ((3,), (0,)),
        ((0, 0), (1,)),
        ((0, 9, 1), (2,)),
    ],
)
def test_halvings(users: tuple[int, ...], releases: tuple[int, ...]) -> None:
    assert halvings(users) == releases


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"releases": []}, "releases must be rising"),
        ({"releases": [2, 1]}, "releases must be rising"),
        ({"releases": [1, 1]}, "releases must be rising"),
        ({"releases": [-1]}, "releases must be"),
        ({"sigma": 0.0}, "sigma must be"),
        ({"sigma": 1e12}, "sigma must be at most"),
        ({"alpha": 0.0}, "alpha must be"),
    ],
)
def test_settings_out_of_range(more: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseCounts(**{"sigma": 1.0, "releases": [0], **more})  # type: ignore[arg-type] # wrong


@pytest.mark.parametrize("users", [[1, 2], [1, 2, -1], [1, 2, 0.5]])
def test_users_are_one_number_for_each_draw(users: list[float]) -> None:
    with pytest.raises(ValueError, match="users must be"):
        SparseCounts.calibrated(RenyiDP(2, 1.0), draws=3, users=users)  # type: ignore[arg-type] # wrong


def test_damped_counts_need_the_shape_of_transitions() -> None:
    sampler = SparseCounts(sigma=1.0, releases=[0], table=DAMPED)
    for shape in ((3, 4), (5, 2, 3)):
        with pytest.raises(ValueError, match="counts must be of transitions"):
            sampler.update(np.zeros(shape), rng())


def test_a_large_table_needs_little_memory() -> None:
    """A fifth of what an array of all cells would take."""
    shape = (2000, 5, 2000)
    places = np.sort(rng().choice(math.prod(shape), 40_000, replace=False))
    cells = Cells(shape, places, np.full(40_000, 20.0))
    sampler = SparseCounts(sigma=2.0, releases=[0], table=DAMPED)
    tracemalloc.start()
    posterior = sampler.update(cells, rng(1))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * cells.size / 5
    assert np.isin(places, posterior.counts[0].places).mean() > 0.999


# --- methods ----------------------------------------------------------------------------


def _task(relation=None, **more: object) -> Task:
    facts = {"n_states": 30, "n_actions": 3, "horizon": 20, "episodes": 400, **more}
    return Task(reward_range=(0.0, 1.0), relation=relation or ReplaceStep(), **facts)  # type: ignore[arg-type]


SPARSE = Method(agent="sparse-psrl", sampler="sparse-counts")


@pytest.mark.few(12)
@pytest.mark.parametrize("target", [ApproxDP(2.0, 1e-5), RenyiDP(2, 1.0)], ids=str)
@pytest.mark.parametrize("relation", [ReplaceStep(), ReplaceEpisode(20)], ids=str)
def test_it_costs_as_much_as_noise_on_every_cell(target, relation) -> None:
    """The same sigma as dense independent noise: no delta is paid for dropping cells."""
    mine = make_agent(SPARSE, _task(relation), [target], 0)
    dense = make_agent(
        Method(agent="sparse-psrl", sampler="noisy-counts:independent"),
        _task(relation),
        [target],
        0,
    )
    assert float(mine.sampler.sigma) == float(dense.sampler.sigma)  # type: ignore[attr-defined]
    assert mine.sampler.cost == dense.sampler.cost


def test_it_is_refused_where_it_cannot_be() -> None:
    with pytest.raises(ValueError, match="delta must be > 0"):
        make_agent(SPARSE, _task(), [PureDP(1.0)], 0)
    with pytest.raises(ValueError, match="sampler must release all counts"):
        Method(agent="ucbvi", sampler="sparse-counts")
    with pytest.raises(ValueError, match="support must be left out"):
        Method(agent="sparse-psrl", sampler="sparse-counts", support=True)
    support = garnet(4, 2, 2, 5, 0).support
    with pytest.raises(ValueError, match="support"):
        TabularSetup(4, 2, 5, sampler=SPARSE_SAMPLER, support=support)


def test_an_episode_must_be_a_chain() -> None:
    """Damping rests on it."""
    agent = make_agent(SPARSE, _task(), [ApproxDP(1.0, 1e-5)], 0)
    agent.begin_episode(0)
    agent.observe(Transition(0, 0, 0.0, 1))
    with pytest.raises(ValueError, match="state must be the next_state"):
        agent.observe(Transition(2, 0, 0.0, 1))


SPARSE_SAMPLER = SparseCounts(sigma=1.0, releases=[0], table=DAMPED)


@pytest.mark.slow
def test_an_agent_learns_from_it() -> None:
    """As good as dense noise: 30 states, epsilon 10; the random policy has 0 and the best 1."""
    mdp = garnet(30, 3, 3, 20, 1)
    agent = make_agent(
        SPARSE, _task(episodes=1500), [ApproxDP(10.0, 1e-5)], np.random.default_rng(1)
    )
    assert isinstance(agent, SparsePSRL)
    agent.learn(1500, env=mdp, rng=np.random.default_rng(2))
    low, high = mdp.random_value(), mdp.optimal_value()
    assert (float(mdp.policy_value(agent.policy)) - low) / (high - low) > 0.9


@pytest.mark.slow
def test_the_recommended_agent_takes_it_for_large_tables() -> None:
    agents = [PSRL.private(_Ring(n), epsilon=1.0, episodes=4, rng=0) for n in (30, 2000)]
    assert [type(agent.sampler) for agent in agents] == [NoisyCounts, SparseCounts]
    large = agents[1].learn(4, rng=1)
    assert large.policy.shape == (10, 2000)


class _Ring(gym.Env[np.int64, np.int64]):
    """Steps of any length below 10 along a ring."""

    reward_range = (0.0, 1.0)
    arrival_rewards = False

    def __init__(self, size: int) -> None:
        self.observation_space = gym.spaces.Discrete(size)
        self.action_space = gym.spaces.Discrete(10)
        self.horizon = 10
        self._size, self._state = size, 0

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self._state = 0
        return np.int64(0), {}

    def step(self, action: np.int64):
        self._state = (self._state + int(action)) % self._size
        return np.int64(self._state), float(action) / 9, False, False, {}


def test_memory_is_asked_for_rows_alone() -> None:
    check_memory(SPARSE, (10_000, 10, 10_000), 2000)
    with pytest.raises(ValueError, match="take the sampler sparse-counts"):
        check_memory(Method(agent="sparse-psrl"), (10_000, 10, 10_000), 2000)
    with pytest.raises(ValueError, match="fit into memory"):
        check_memory(SPARSE, (10_000_000, 10, 10_000_000), 2000)
