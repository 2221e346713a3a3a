"""What every release promises. Write yours, add a line to ALL_RELEASES, inherit the checks."""

import copy
import math
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from privrl.accounting import RdpAccountant
from privrl.bounds import SimplexRelease
from privrl.mechanisms import PosteriorExponentialMechanism
from privrl.noise import (
    DiscreteGaussianRelease,
    DiscreteLaplaceRelease,
    GaussianRelease,
    LaplaceRelease,
)
from privrl.relations import (
    AddRemoveRecord,
    PaperStep,
    PaperStepWarning,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.releases import (
    BatchRelease,
    DirichletRelease,
    NoPrivacy,
    Release,
    Together,
    tables_released,
    together,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", PaperStepWarning)
    PAPER_STEP = PaperStep()

STEP = ReplaceStep()

ALL_RELEASES: list[Release] = [
    DirichletRelease(scale=1, alpha=3.46, relation=ReplaceRecord()),
    DirichletRelease(scale=0.01, alpha=0.02, relation=ReplaceRecord()),
    DirichletRelease(scale=1, alpha=1e5, relation=ReplaceRecord()),
    DirichletRelease(scale=50, alpha=0.3, relation=ReplaceRecord()),
    DirichletRelease(scale=1, alpha=5, relation=ReplaceRecord(), bound="dps"),
    DirichletRelease(scale=0.5, alpha=2, relation=AddRemoveRecord()),
    DirichletRelease(scale=0.5, alpha=2, relation=AddRemoveRecord(), bound="dps"),
    DirichletRelease(scale=0.1, alpha=1, relation=ReplaceTransition()),
    DirichletRelease(scale=0.1, alpha=1, relation=ReplaceTransition(), table="rewards"),
    DirichletRelease(scale=0.1, alpha=1, relation=STEP),
    DirichletRelease(scale=2, alpha=10, relation=STEP, bound="dps"),
    DirichletRelease(scale=0.1, alpha=1, relation=STEP, table="rewards"),
    DirichletRelease(scale=0.01, alpha=10, relation=ReplaceEpisode(30)),
    DirichletRelease(scale=0.01, alpha=0.5, relation=ReplaceEpisode(30), table="rewards"),
    DirichletRelease(scale=0.1, alpha=1, relation=PAPER_STEP),
    DirichletRelease(
        scale=0.3, alpha=2, relation=Relation("mine", {"counts": [(0.5, -0.5), (1.5, -1, -0.5)]})
    ),
    Together(
        [
            DirichletRelease(scale=0.1, alpha=2, relation=STEP),
            DirichletRelease(scale=0.2, alpha=1, relation=STEP, table="rewards"),
        ]
    ),
    Together([DirichletRelease(scale=0.1, alpha=2, relation=ReplaceRecord())] * 3),
    NoPrivacy(ReplaceRecord()),
    NoPrivacy(ReplaceEpisode(30)),
    DirichletRelease(scale=0.2, alpha=3, relation=STEP, bound="dkl"),
    DirichletRelease(scale=1, alpha=5, relation=ReplaceRecord(), bound="geumlek"),
    SimplexRelease(scale=24, eta=0.05, eta_bar=0.05, n_vectors=100),
    GaussianRelease(sigma=1, relation=ReplaceRecord()),
    GaussianRelease(sigma=0.02, relation=STEP),
    GaussianRelease(sigma=1e4, relation=ReplaceEpisode(30)),
    LaplaceRelease(scale=2, relation=ReplaceRecord()),
    LaplaceRelease(scale=0.05, relation=AddRemoveRecord()),
    LaplaceRelease(scale=1, relation=ReplaceTransition(), table="rewards"),
    LaplaceRelease(scale=3, relation=STEP),
    LaplaceRelease(scale=300, relation=ReplaceEpisode(30)),
    LaplaceRelease(scale=1, relation=Relation("mine", {"counts": [(0.5, -0.5), (1.5, -1, -0.5)]})),
    DiscreteLaplaceRelease(scale=2, relation=ReplaceRecord()),
    DiscreteLaplaceRelease(scale=0.1, relation=AddRemoveRecord()),
    DiscreteLaplaceRelease(scale=30, relation=STEP),
    DiscreteLaplaceRelease(scale=300, relation=ReplaceEpisode(30)),
    DiscreteGaussianRelease(sigma=1, relation=ReplaceRecord()),
    DiscreteGaussianRelease(sigma=0.2, relation=AddRemoveRecord()),
    DiscreteGaussianRelease(sigma=1e6, relation=ReplaceRecord()),
    DiscreteGaussianRelease(sigma=5, relation=STEP),
    DiscreteGaussianRelease(sigma=1e29, relation=STEP),
    DiscreteGaussianRelease(sigma=50, relation=ReplaceEpisode(30)),
    Together(
        [
            GaussianRelease(sigma=10, relation=STEP),
            LaplaceRelease(scale=5, relation=STEP, table="rewards"),
        ]
    ),
    Together([LaplaceRelease(scale=s, relation=ReplaceRecord()) for s in (3, 7.1)]),
    Together(
        [
            DirichletRelease(scale=0.1, alpha=2, relation=ReplaceRecord()),
            DiscreteLaplaceRelease(scale=7, relation=ReplaceRecord()),
        ]
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

each_release = pytest.mark.parametrize("release", ALL_RELEASES, ids=repr)


@each_release
def test_relation_is_set(release: Release) -> None:
    assert isinstance(release.relation, Relation)


@each_release
def test_rdp_is_nonnegative_and_nondecreasing_in_order(release: Release) -> None:
    rdp = np.asarray(release.rdp(ORDERS))
    assert rdp.shape == ORDERS.shape
    assert rdp.dtype == np.float64
    assert not np.any(np.isnan(rdp))
    assert np.all(rdp >= 0)
    assert np.all(rdp[1:] >= rdp[:-1] * (1 - 1e-14))


@each_release
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
def test_rdp_has_the_shape_of_orders(release: Release, shape: tuple[int, ...]) -> None:
    orders = np.linspace(1.5, 3, math.prod(shape)).reshape(shape)
    assert np.shape(release.rdp(orders)) == shape


@each_release
def test_orders_may_be_unsorted(release: Release) -> None:
    shuffled = np.random.default_rng(3).permutation(len(ORDERS))
    np.testing.assert_allclose(
        release.rdp(ORDERS[shuffled]), release.rdp(ORDERS)[shuffled], rtol=1e-13
    )


@each_release
def test_arguments_are_left_alone(release: Release) -> None:
    orders, epsilons = ORDERS.copy(), EPSILONS.copy()
    release.rdp(orders)
    release.delta(epsilons)
    np.testing.assert_array_equal(orders, ORDERS)
    np.testing.assert_array_equal(epsilons, EPSILONS)


@each_release
def test_delta_is_a_probability_and_nonincreasing(release: Release) -> None:
    delta = np.asarray(release.delta(EPSILONS))
    assert delta.shape == EPSILONS.shape
    assert not np.any(np.isnan(delta))
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(delta[1:] <= delta[:-1] * (1 + 1e-12))


@each_release
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_inverts_delta(release: Release, delta: float) -> None:
    epsilon = float(release.epsilon(delta))
    assert epsilon >= 0
    if math.isinf(epsilon):
        assert float(release.delta(1e6)) > delta
        return
    assert float(release.delta(epsilon)) <= delta
    if epsilon > 0:
        assert float(release.delta(epsilon * (1 - 1e-6))) > delta * (1 - 1e-8)


@each_release
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_no_worse_than_through_rdp(release: Release, delta: float) -> None:
    orders = np.concatenate([1 + np.geomspace(1e-3, 1, 100), np.geomspace(2, 1e5, 400)])
    rdp = release.rdp(orders)
    through = rdp + np.log(orders - 1) - (math.log(delta) + orders * np.log(orders)) / (orders - 1)
    assert float(release.epsilon(delta)) <= max(0.0, through.min()) + 1e-9


@each_release
def test_count_means_repetition(release: Release) -> None:
    at_once, one_by_one = RdpAccountant(), RdpAccountant()
    at_once.compose(release, count=7)
    for _ in range(7):
        one_by_one.compose(release)
    np.testing.assert_allclose(at_once.rdp, one_by_one.rdp, rtol=1e-14)
    assert float(at_once.epsilon(1e-6)) == pytest.approx(float(one_by_one.epsilon(1e-6)))
    assert float(at_once.delta(1.0)) == pytest.approx(float(one_by_one.delta(1.0)))


@each_release
def test_repr_names_the_class(release: Release) -> None:
    assert repr(release).startswith(type(release).__name__)


@each_release
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_equal_by_value_and_hashable(
    release: Release, duplicate: Callable[[Release], Release]
) -> None:
    twin = duplicate(release)
    assert twin == release
    assert hash(twin) == hash(release)
    assert len({twin, release}) == 1


@pytest.mark.parametrize("i", range(len(ALL_RELEASES)))
def test_different_releases_differ(i: int) -> None:
    assert [other == ALL_RELEASES[i] for other in ALL_RELEASES].count(True) == 1


@each_release
def test_frozen(release: Release) -> None:
    field = next(iter(vars(release)))
    with pytest.raises(AttributeError):
        setattr(release, field, getattr(release, field))


# Several at once -------------------------------------------------------------------------------


def test_together_adds_up() -> None:
    parts = ALL_RELEASES[0], ALL_RELEASES[1], ALL_RELEASES[3]
    total = sum(part.rdp(ORDERS) for part in parts)
    np.testing.assert_allclose(Together(parts).rdp(ORDERS), total, rtol=1e-14)


def test_together_of_one_is_never_better_than_it() -> None:
    alone = ALL_RELEASES[0]
    wrapped = Together([alone])
    assert np.all(wrapped.delta(EPSILONS) >= alone.delta(EPSILONS) * (1 - 1e-12))
    assert float(wrapped.epsilon(1e-6)) >= float(alone.epsilon(1e-6)) * (1 - 1e-12)


def test_together_with_no_privacy_there_is_none() -> None:
    release = Together([NoPrivacy(ReplaceRecord()), ALL_RELEASES[0]])
    assert np.all(np.isposinf(release.rdp(ORDERS)))
    assert np.all(release.delta(EPSILONS) == 1)
    assert math.isinf(float(release.epsilon(0.5)))


def test_a_batch_has_one_row_per_release() -> None:
    rows = [DirichletRelease(scale=r, alpha=3, relation=STEP) for r in (0.01, 1.0)]
    batch = BatchRelease(rows)
    assert batch.relation == STEP
    assert batch.rdp(ORDERS).shape == (2, len(ORDERS))
    for row, release in enumerate(rows):
        np.testing.assert_allclose(batch.rdp(ORDERS)[row], release.rdp(ORDERS), rtol=1e-13)
        np.testing.assert_allclose(batch.delta(EPSILONS)[row], release.delta(EPSILONS), rtol=1e-12)
        epsilon = float(release.epsilon(1e-6))
        assert float(batch.epsilon(1e-6)[row]) == pytest.approx(epsilon, rel=1e-12)


def test_a_batch_is_accounted_for_row_by_row() -> None:
    rows = [DirichletRelease(scale=r, alpha=3, relation=STEP) for r in (0.01, 0.1, 1.0)]
    together = RdpAccountant()
    together.compose(BatchRelease(rows), count=5)
    assert together.rdp.shape == (3, len(together.orders))
    for row, release in enumerate(rows):
        alone = RdpAccountant()
        alone.compose(release, count=5)
        np.testing.assert_allclose(together.rdp[row], alone.rdp, rtol=1e-13)
        for ask, at in (("epsilon", 1e-6), ("delta", 0.5), ("spent", 2.0)):
            found, expected = (np.asarray(getattr(each, ask)(at)) for each in (together, alone))
            np.testing.assert_allclose(found[row], expected, rtol=1e-12)


def test_a_single_release_goes_with_every_row_of_a_batch() -> None:
    rows = [DirichletRelease(scale=r, alpha=3, relation=STEP) for r in (0.01, 0.1)]
    single = DirichletRelease(scale=0.2, alpha=3, relation=STEP, table="rewards")
    both = together([BatchRelease(rows), single]).rdp(ORDERS)
    for row, release in enumerate(rows):
        np.testing.assert_allclose(both[row], release.rdp(ORDERS) + single.rdp(ORDERS))
    with pytest.raises(ValueError, match="equally many rows"):
        together([BatchRelease(rows), BatchRelease(rows[:1])])


@pytest.mark.parametrize("bound", ["exact", "dps", "dkl", "geumlek", "laplace", "gaussian"])
def test_the_worst_change_vector_decides_wherever_it_is_listed(bound: str) -> None:
    def costs(*vectors: tuple[float, ...]) -> np.ndarray:
        relation = Relation("listed", {"counts": vectors})
        release: Release
        if bound == "laplace":
            release = LaplaceRelease(scale=20, relation=relation)
        elif bound == "gaussian":
            release = GaussianRelease(sigma=20, relation=relation)
        else:
            release = DirichletRelease(scale=0.1, alpha=5, relation=relation, bound=bound)
        return np.concatenate([release.rdp([1.5, 2.0, 8.0]), release.delta([0.01, 0.1])])

    small, large = (1.0, -1.0), (3.0, -0.5, -2.5)
    for listed in ((small, large), (large, small)):
        np.testing.assert_allclose(costs(*listed), costs(large), rtol=1e-6)
    assert (costs(small) < 0.9 * costs(large)).all()


def test_parts_change_each_as_they_may() -> None:
    """Neighbours are all combinations of what the parts list, not only the first with the first."""

    def both(*second: tuple[float, ...]) -> Together:
        relation = Relation("two tables", {"one": [(1.0, -1.0)], "other": second})
        return Together(
            [
                DirichletRelease(scale=0.2, alpha=5, relation=relation, table=table)
                for table in ("one", "other")
            ]
        )

    listed, worst = both((1.0, -1.0), (3.0, -3.0)), both((3.0, -3.0))
    np.testing.assert_allclose(listed.delta([0.1, 1.0]), worst.delta([0.1, 1.0]), rtol=1e-9)
    assert float(both((1.0, -1.0)).delta(1.0)) < 0.9 * float(worst.delta(1.0))


def test_all_tables_of_a_release_are_named() -> None:
    parts = [
        DirichletRelease(scale=0.1, alpha=3, relation=STEP, table=table)
        for table in ("transitions", "rewards")
    ]
    for several in (Together(parts), BatchRelease(parts), BatchRelease([Together(parts)])):
        assert tables_released(several) == {"transitions", "rewards"}
    assert tables_released(NoPrivacy(STEP)) == set()


@pytest.mark.parametrize("several", [Together, BatchRelease])
def test_relations_are_not_mixed(several: type) -> None:
    with pytest.raises(ValueError, match="relation"):
        several([NoPrivacy(ReplaceRecord()), NoPrivacy(AddRemoveRecord())])


@pytest.mark.parametrize("several", [Together, BatchRelease])
def test_nothing_is_no_release(several: type) -> None:
    with pytest.raises(ValueError, match="release"):
        several([])


def test_no_privacy_is_infinitely_expensive() -> None:
    release = NoPrivacy(ReplaceRecord())
    assert np.all(np.isinf(release.rdp(ORDERS)))
    assert np.all(release.delta(EPSILONS) == 1)
    assert math.isinf(float(release.epsilon(1e-6)))


def test_parts_need_not_be_hashable_nor_differ_in_more_than_price() -> None:
    class Priced:
        relation = ReplaceRecord()
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
