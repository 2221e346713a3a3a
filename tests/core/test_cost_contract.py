"""What every release promises. Write yours, add a line to ALL_COSTS, inherit the checks."""

import copy
import math
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from privrl.accounting.rdp import RdpAccountant
from privrl.costs import relations
from privrl.costs.base import BatchCost, Cost, NoPrivacy, Together, tables_released, together
from privrl.costs.choice import ChoiceCost
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost, GaussianCost, LaplaceCost
from privrl.costs.selection import ConcentratedCost, PureCost, SelectionCost
from privrl.costs.simplex import SimplexCost
from privrl.mechanisms import PosteriorExponentialMechanism

with warnings.catch_warnings():
    warnings.simplefilter("ignore", relations.PaperStepWarning)
    PAPER_STEP = relations.PaperStep()

STEP = relations.ReplaceStep()

ALL_COSTS: list[Cost] = [
    DirichletCost(weight=1, alpha=3.46, relation=relations.ReplaceRecord()),
    DirichletCost(weight=0.01, alpha=0.02, relation=relations.ReplaceRecord()),
    DirichletCost(weight=1, alpha=1e5, relation=relations.ReplaceRecord()),
    DirichletCost(weight=50, alpha=0.3, relation=relations.ReplaceRecord()),
    DirichletCost(weight=1, alpha=5, relation=relations.ReplaceRecord(), bound="dps"),
    DirichletCost(weight=0.5, alpha=2, relation=relations.AddRemoveRecord()),
    DirichletCost(weight=0.5, alpha=2, relation=relations.AddRemoveRecord(), bound="dps"),
    DirichletCost(weight=0.1, alpha=1, relation=relations.ReplaceTransition()),
    DirichletCost(weight=0.1, alpha=1, relation=relations.ReplaceTransition(), table="rewards"),
    DirichletCost(weight=0.1, alpha=1, relation=STEP),
    DirichletCost(weight=2, alpha=10, relation=STEP, bound="dps"),
    DirichletCost(weight=0.1, alpha=1, relation=STEP, table="rewards"),
    DirichletCost(weight=0.01, alpha=10, relation=relations.ReplaceEpisode(30)),
    DirichletCost(weight=0.01, alpha=0.5, relation=relations.ReplaceEpisode(30), table="rewards"),
    DirichletCost(weight=0.1, alpha=1, relation=PAPER_STEP),
    DirichletCost(
        weight=0.3,
        alpha=2,
        relation=relations.Relation("mine", {"counts": [(0.5, -0.5), (1.5, -1, -0.5)]}),
    ),
    Together(
        [
            DirichletCost(weight=0.1, alpha=2, relation=STEP),
            DirichletCost(weight=0.2, alpha=1, relation=STEP, table="rewards"),
        ]
    ),
    Together([DirichletCost(weight=0.1, alpha=2, relation=relations.ReplaceRecord())] * 3),
    NoPrivacy(relations.ReplaceRecord()),
    NoPrivacy(relations.ReplaceEpisode(30)),
    DirichletCost(weight=0.2, alpha=3, relation=STEP, bound="dkl"),
    DirichletCost(weight=1, alpha=5, relation=relations.ReplaceRecord(), bound="geumlek"),
    SimplexCost(weight=24, eta=0.05, eta_bar=0.05, n_vectors=100),
    GaussianCost(sigma=1, relation=relations.ReplaceRecord()),
    GaussianCost(sigma=0.02, relation=STEP),
    GaussianCost(sigma=1e4, relation=relations.ReplaceEpisode(30)),
    LaplaceCost(scale=2, relation=relations.ReplaceRecord()),
    LaplaceCost(scale=0.05, relation=relations.AddRemoveRecord()),
    LaplaceCost(scale=1, relation=relations.ReplaceTransition(), table="rewards"),
    LaplaceCost(scale=3, relation=STEP),
    LaplaceCost(scale=300, relation=relations.ReplaceEpisode(30)),
    LaplaceCost(
        scale=1, relation=relations.Relation("mine", {"counts": [(0.5, -0.5), (1.5, -1, -0.5)]})
    ),
    DiscreteLaplaceCost(scale=2, relation=relations.ReplaceRecord()),
    DiscreteLaplaceCost(scale=0.1, relation=relations.AddRemoveRecord()),
    DiscreteLaplaceCost(scale=30, relation=STEP),
    DiscreteLaplaceCost(scale=300, relation=relations.ReplaceEpisode(30)),
    DiscreteGaussianCost(sigma=1, relation=relations.ReplaceRecord()),
    DiscreteGaussianCost(sigma=0.2, relation=relations.AddRemoveRecord()),
    DiscreteGaussianCost(sigma=1e6, relation=relations.ReplaceRecord()),
    DiscreteGaussianCost(sigma=5, relation=STEP),
    DiscreteGaussianCost(sigma=1e29, relation=STEP),
    DiscreteGaussianCost(sigma=50, relation=relations.ReplaceEpisode(30)),
    Together(
        [
            GaussianCost(sigma=10, relation=STEP),
            LaplaceCost(scale=5, relation=STEP, table="rewards"),
        ]
    ),
    Together([LaplaceCost(scale=s, relation=relations.ReplaceRecord()) for s in (3, 7.1)]),
    Together(
        [
            DirichletCost(weight=0.1, alpha=2, relation=relations.ReplaceRecord()),
            DiscreteLaplaceCost(scale=7, relation=relations.ReplaceRecord()),
        ]
    ),
    ChoiceCost(scale=20, sensitivity=1, relation=relations.ReplaceRecord()),
    ChoiceCost(scale=0.1, sensitivity=3, relation=relations.AddRemoveRecord()),
    Together(
        [
            GaussianCost(sigma=10, relation=relations.ReplaceRecord()),
            *[ChoiceCost(scale=50, sensitivity=2, relation=relations.ReplaceRecord())] * 6,
        ]
    ),
    ConcentratedCost(rho=0.01, relation=relations.ReplaceRecord()),
    PureCost(epsilon_pure=0.3, relation=relations.AddRemoveRecord()),
    PureCost(epsilon_pure=40, relation=relations.ReplaceRecord()),
    SelectionCost(trial=ConcentratedCost(rho=0.02, relation=relations.ReplaceRecord()), trials=12),
    SelectionCost(trial=PureCost(epsilon_pure=0.4, relation=relations.ReplaceRecord()), trials=5),
    SelectionCost(trial=LaplaceCost(scale=0.5, relation=relations.AddRemoveRecord()), trials=100),
    SelectionCost(
        trial=Together([DirichletCost(weight=0.1, alpha=2, relation=STEP)] * 2), trials=4
    ),
    PosteriorExponentialMechanism((7, 4, 5), 12, 0.8).cost,
    PosteriorExponentialMechanism((7, 4), 40, 0.5, sensitivity="local").cost,
    PosteriorExponentialMechanism((7, 4), 40, 0.5, "smooth", 0.8).cost,
    PosteriorExponentialMechanism((7, 4), 40, 50.0, "global").cost,
    PosteriorExponentialMechanism((7, 4), 40, 1e-5, "constant").cost,
]

ORDERS = np.array([1.0001, 1.2, 1.9, 2.0, 3.5, 8.0, 40.0, 1e3, 1e5])
EPSILONS = np.array([0.0, 1e-4, 0.01, 0.3, 1.0, 4.0, 30.0, 700.0])
DELTAS = [0.3, 1e-5, 1e-12]

each_cost = pytest.mark.parametrize("cost", ALL_COSTS, ids=repr)


@each_cost
def test_relation_is_set(cost: Cost) -> None:
    assert isinstance(cost.relation, relations.Relation)


@pytest.mark.few(60)
@each_cost
def test_rdp_is_nonnegative_and_nondecreasing_in_order(cost: Cost) -> None:
    rdp = np.asarray(cost.rdp(ORDERS))
    assert rdp.shape == ORDERS.shape
    assert rdp.dtype == np.float64
    assert not np.any(np.isnan(rdp))
    assert np.all(rdp >= 0)
    assert np.all(rdp[1:] >= rdp[:-1] * (1 - 1e-14))


@pytest.mark.few(4)
@each_cost
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
def test_rdp_has_the_shape_of_orders(cost: Cost, shape: tuple[int, ...]) -> None:
    orders = np.linspace(1.5, 3, math.prod(shape)).reshape(shape)
    assert np.shape(cost.rdp(orders)) == shape


@pytest.mark.few(60)
@each_cost
def test_orders_may_be_unsorted(cost: Cost) -> None:
    shuffled = np.random.default_rng(3).permutation(len(ORDERS))
    np.testing.assert_allclose(cost.rdp(ORDERS[shuffled]), cost.rdp(ORDERS)[shuffled], rtol=1e-13)


@pytest.mark.few(60)
@each_cost
def test_arguments_are_left_alone(cost: Cost) -> None:
    orders, epsilons = ORDERS.copy(), EPSILONS.copy()
    cost.rdp(orders)
    cost.delta(epsilons)
    np.testing.assert_array_equal(orders, ORDERS)
    np.testing.assert_array_equal(epsilons, EPSILONS)


@pytest.mark.few(60)
@each_cost
def test_delta_is_a_probability_and_nonincreasing(cost: Cost) -> None:
    delta = np.asarray(cost.delta(EPSILONS))
    assert delta.shape == EPSILONS.shape
    assert not np.any(np.isnan(delta))
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(delta[1:] <= delta[:-1] * (1 + 1e-12))


@pytest.mark.few(180)
@each_cost
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_inverts_delta(cost: Cost, delta: float) -> None:
    epsilon = float(cost.epsilon(delta))
    assert epsilon >= 0
    if math.isinf(epsilon):
        assert float(cost.delta(1e6)) > delta
        return
    assert float(cost.delta(epsilon)) <= delta
    if epsilon > 0:
        assert float(cost.delta(epsilon * (1 - 1e-6))) > delta * (1 - 1e-8)


@pytest.mark.few(180)
@each_cost
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_no_worse_than_through_rdp(cost: Cost, delta: float) -> None:
    orders = np.concatenate([1 + np.geomspace(1e-3, 1, 100), np.geomspace(2, 1e5, 400)])
    rdp = cost.rdp(orders)
    through = rdp + np.log(orders - 1) - (math.log(delta) + orders * np.log(orders)) / (orders - 1)
    assert float(cost.epsilon(delta)) <= max(0.0, through.min()) + 1e-9


@pytest.mark.few(60)
@each_cost
def test_count_means_repetition(cost: Cost) -> None:
    at_once, one_by_one = RdpAccountant(), RdpAccountant()
    at_once.compose(cost, count=7)
    for _ in range(7):
        one_by_one.compose(cost)
    np.testing.assert_allclose(at_once.rdp, one_by_one.rdp, rtol=1e-14)
    assert float(at_once.epsilon(1e-6)) == pytest.approx(float(one_by_one.epsilon(1e-6)))
    assert float(at_once.delta(1.0)) == pytest.approx(float(one_by_one.delta(1.0)))


@each_cost
def test_repr_names_the_class(cost: Cost) -> None:
    assert repr(cost).startswith(type(cost).__name__)


@each_cost
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_equal_by_value_and_hashable(cost: Cost, duplicate: Callable[[Cost], Cost]) -> None:
    twin = duplicate(cost)
    assert twin == cost
    assert hash(twin) == hash(cost)
    assert len({twin, cost}) == 1


@pytest.mark.parametrize("i", range(len(ALL_COSTS)))
def test_different_releases_differ(i: int) -> None:
    assert [other == ALL_COSTS[i] for other in ALL_COSTS].count(True) == 1


@each_cost
def test_frozen(cost: Cost) -> None:
    field = next(iter(vars(cost)))
    with pytest.raises(AttributeError):
        setattr(cost, field, getattr(cost, field))


# Several at once -------------------------------------------------------------------------------


def test_together_adds_up() -> None:
    parts = ALL_COSTS[0], ALL_COSTS[1], ALL_COSTS[3]
    total = sum(part.rdp(ORDERS) for part in parts)
    np.testing.assert_allclose(Together(parts).rdp(ORDERS), total, rtol=1e-14)


def test_together_of_one_is_never_better_than_it() -> None:
    alone = ALL_COSTS[0]
    wrapped = Together([alone])
    assert np.all(wrapped.delta(EPSILONS) >= alone.delta(EPSILONS) * (1 - 1e-12))
    assert float(wrapped.epsilon(1e-6)) >= float(alone.epsilon(1e-6)) * (1 - 1e-12)


@pytest.mark.parametrize("parts", [[None], [5], "a", {"a": 1}, {0: ALL_COSTS[0]}, 5, iter([]), []])
def test_together_takes_costs_alone(parts: object) -> None:
    """The only part was returned, whatever it was."""
    with pytest.raises(ValueError, match=r"must be a (cost|sequence of costs)|at least one cost"):
        together(parts)  # type: ignore[arg-type] # which it refuses


@pytest.mark.slow
def test_together_with_no_privacy_there_is_none() -> None:
    cost = Together([NoPrivacy(relations.ReplaceRecord()), ALL_COSTS[0]])
    assert np.all(np.isposinf(cost.rdp(ORDERS)))
    assert np.all(cost.delta(EPSILONS) == 1)
    assert math.isinf(float(cost.epsilon(0.5)))


@pytest.mark.slow
def test_a_batch_has_one_row_per_release() -> None:
    rows = [DirichletCost(weight=r, alpha=3, relation=STEP) for r in (0.01, 1.0)]
    batch = BatchCost(rows)
    assert batch.relation == STEP
    assert batch.rdp(ORDERS).shape == (2, len(ORDERS))
    for row, cost in enumerate(rows):
        np.testing.assert_allclose(batch.rdp(ORDERS)[row], cost.rdp(ORDERS), rtol=1e-13)
        np.testing.assert_allclose(batch.delta(EPSILONS)[row], cost.delta(EPSILONS), rtol=1e-12)
        epsilon = float(cost.epsilon(1e-6))
        assert float(batch.epsilon(1e-6)[row]) == pytest.approx(epsilon, rel=1e-12)


def test_a_batch_is_no_row_of_another() -> None:
    """Its rows would have no axis of their own, and one budget."""
    batch = BatchCost([DirichletCost(weight=0.1, alpha=3, relation=STEP)])
    with pytest.raises(ValueError, match="rows must be costs of one run each"):
        BatchCost([batch, batch])


def test_a_batch_is_accounted_for_row_by_row() -> None:
    rows = [DirichletCost(weight=r, alpha=3, relation=STEP) for r in (0.01, 0.1, 1.0)]
    together = RdpAccountant()
    together.compose(BatchCost(rows), count=5)
    assert together.rdp.shape == (3, len(together.orders))
    for row, cost in enumerate(rows):
        alone = RdpAccountant()
        alone.compose(cost, count=5)
        np.testing.assert_allclose(together.rdp[row], alone.rdp, rtol=1e-13)
        for ask, at in (("epsilon", 1e-6), ("delta", 0.5), ("spent", 2.0)):
            found, expected = (np.asarray(getattr(each, ask)(at)) for each in (together, alone))
            np.testing.assert_allclose(found[row], expected, rtol=1e-12)


def test_a_single_release_goes_with_every_row_of_a_batch() -> None:
    rows = [DirichletCost(weight=r, alpha=3, relation=STEP) for r in (0.01, 0.1)]
    single = DirichletCost(weight=0.2, alpha=3, relation=STEP, table="rewards")
    both = together([BatchCost(rows), single]).rdp(ORDERS)
    for row, cost in enumerate(rows):
        np.testing.assert_allclose(both[row], cost.rdp(ORDERS) + single.rdp(ORDERS))
    with pytest.raises(ValueError, match="equally many rows"):
        together([BatchCost(rows), BatchCost(rows[:1])])


@pytest.mark.parametrize("bound", ["exact", "dps", "dkl", "geumlek", "laplace", "gaussian"])
def test_the_worst_change_vector_decides_wherever_it_is_listed(bound: str) -> None:
    def costs(*vectors: tuple[float, ...]) -> np.ndarray:
        relation = relations.Relation("listed", {"counts": vectors})
        cost: Cost
        if bound == "laplace":
            cost = LaplaceCost(scale=20, relation=relation)
        elif bound == "gaussian":
            cost = GaussianCost(sigma=20, relation=relation)
        else:
            cost = DirichletCost(weight=0.1, alpha=5, relation=relation, bound=bound)
        return np.concatenate([cost.rdp([1.5, 2.0, 8.0]), cost.delta([0.01, 0.1])])

    small, large = (1.0, -1.0), (3.0, -0.5, -2.5)
    for listed in ((small, large), (large, small)):
        np.testing.assert_allclose(costs(*listed), costs(large), rtol=1e-6)
    assert (costs(small) < 0.9 * costs(large)).all()


def test_parts_change_each_as_they_may() -> None:
    """Neighbours are all combinations of what the parts list, not only the first with the first."""

    def both(*second: tuple[float, ...]) -> Together:
        relation = relations.Relation("two tables", {"one": [(1.0, -1.0)], "other": second})
        return Together(
            [
                DirichletCost(weight=0.2, alpha=5, relation=relation, table=table)
                for table in ("one", "other")
            ]
        )

    listed, worst = both((1.0, -1.0), (3.0, -3.0)), both((3.0, -3.0))
    np.testing.assert_allclose(listed.delta([0.1, 1.0]), worst.delta([0.1, 1.0]), rtol=1e-9)
    assert float(both((1.0, -1.0)).delta(1.0)) < 0.9 * float(worst.delta(1.0))


def test_all_tables_of_a_release_are_named() -> None:
    parts = [
        DirichletCost(weight=0.1, alpha=3, relation=STEP, table=table)
        for table in ("transitions", "rewards")
    ]
    for several in (Together(parts), BatchCost(parts), BatchCost([Together(parts)])):
        assert tables_released(several) == {"transitions", "rewards"}
    assert tables_released(NoPrivacy(STEP)) == set()


@pytest.mark.parametrize("several", [Together, BatchCost])
def test_relations_are_not_mixed(several: type) -> None:
    with pytest.raises(ValueError, match="relation"):
        several([NoPrivacy(relations.ReplaceRecord()), NoPrivacy(relations.AddRemoveRecord())])


@pytest.mark.parametrize("several", [Together, BatchCost])
def test_nothing_costs_nothing_to_add_up(several: type) -> None:
    with pytest.raises(ValueError, match="must hold at least one cost"):
        several([])


def test_no_privacy_is_infinitely_expensive() -> None:
    cost = NoPrivacy(relations.ReplaceRecord())
    assert np.all(np.isinf(cost.rdp(ORDERS)))
    assert np.all(cost.delta(EPSILONS) == 1)
    assert math.isinf(float(cost.epsilon(1e-6)))


def test_parts_need_not_be_hashable_nor_differ_in_more_than_price() -> None:
    class Priced:
        relation = relations.ReplaceRecord()
        __hash__ = None

        def __init__(self, price: float) -> None:
            self.price = price

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Priced)

        def rdp(self, orders):
            return self.price * np.asarray(orders)

    cheap, dear = Priced(1.0), Priced(10.0)
    both = Together([cheap, dear, cheap])
    assert both.rdp([2.0, 3.0]) == pytest.approx([24.0, 36.0])
