"""What every mechanism promises. Write yours, add a line to ALL_MECHANISMS, inherit the checks."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from auditing import check_claim

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents.policy_release import PolicyMechanism
from privrl.costs.relations import AddRemoveRecord
from privrl.mechanisms import (
    DirichletMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    NoisyPosteriorMechanism,
    PosteriorExponentialMechanism,
    SimplexMechanism,
    SumsMechanism,
)
from privrl.numerics.discrete_noise import exponential_choice


class Case(NamedTuple):
    """A mechanism with two neighbouring data sets, among the worst."""

    mechanism: Mechanism[Any]
    data: list[Any]
    neighbour: list[Any]
    near: float = 0.75  # the share of its claim that an audit must show

    @property
    def is_one_choice(self) -> bool:
        """Whether a record changes all that a release is made by, so that it has but one row."""
        return isinstance(self.mechanism, ExponentialMechanism)


VECTORS = [[0.05, 0.25, 0.7], [0.3, 0.3, 0.4]]

ALL_MECHANISMS: list[Case] = [
    Case(DirichletMechanism(weight=1, alpha=5), [1, 0, 300], [0, 1, 300]),
    Case(DirichletMechanism(weight=0.5, alpha=(1.0, 2.0, 3.0)), [1, 0, 3], [0, 1, 3], 0.7),
    Case(DirichletMechanism(weight=1, alpha=1, lower_bound=2), [3, 2, 3], [2, 3, 3]),
    Case(
        DirichletMechanism(weight=1, alpha=1, relation=AddRemoveRecord()),
        [1, 0, 1e6],
        [0, 0, 1e6],
        0.5,
    ),
    Case(DirichletMechanism.algorithm_1(RenyiDP(2, 1)), [1, 0, 3], [0, 1, 3], 0.3),
    Case(
        SimplexMechanism(weight=60, eta=0.05, eta_bar=0.1, sensitive=(0, 1), distance=0.04),
        [0.05, 0.07, 0.88],
        [0.07, 0.05, 0.88],
    ),
    Case(
        SimplexMechanism(
            weight=100, eta=0.05, eta_bar=0.1, sensitive=(0, 1), distance=0.06, n_vectors=2
        ),
        [[0.05, 0.08, 0.87], [0.05, 0.05, 0.9]],
        [[0.08, 0.05, 0.87], [0.05, 0.05, 0.9]],
    ),
    Case(
        SimplexMechanism(
            weight=24, eta=0.05, eta_bar=0.05, sensitive=(0, 1), n_vectors=2, bound="sim"
        ),
        [[0.1, 0.6, 0.3], [0.3, 0.3, 0.4]],
        [[0.6, 0.1, 0.3], [0.3, 0.3, 0.4]],
        0.05,
    ),
    Case(GaussianMechanism(sigma=2), [5, 0, 3], [4, 1, 3]),
    Case(LaplaceMechanism(scale=1), [5, 0, 3], [4, 1, 3]),
    Case(SumsMechanism(sigma=2), [-5.5, 0.25, 3], [-4.5, -0.75, 3]),
    Case(DiscreteGaussianMechanism(sigma=2), [5, 0, 3], [4, 1, 3]),
    Case(DiscreteLaplaceMechanism(scale=1), [5, 0, 3], [4, 1, 3]),
    Case(
        NoisyPosteriorMechanism(noise=LaplaceMechanism(scale=1), alpha=1.0, n=10),
        [5, 2, 3],
        [4, 3, 3],
        0.6,
    ),
    Case(ExponentialMechanism(scale=2, sensitivity=1), [5] * 8, [4, *[6] * 7], 0.7),
    Case(ExponentialMechanism(scale=2, sensitivity=2), [4, 2, 3], [2, 4, 1], 0.6),
    Case(PosteriorExponentialMechanism((7, 4, 5), 20, 2.0), [0, 0, 20], [0, 1, 19], 0.7),
    Case(PosteriorExponentialMechanism((7, 4), 300, 1.0), [300, 0], [299, 1], 0.7),
]

each_case = pytest.mark.parametrize("case", ALL_MECHANISMS, ids=lambda case: repr(case.mechanism))


def _numbers(released: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What was released, as an array."""
    return np.asarray(getattr(released, "concentrations", released), np.float64)


@each_case
def test_is_immutable_data(case: Case) -> None:
    mechanism = case.mechanism
    assert copy.deepcopy(mechanism) == mechanism
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(mechanism) == hash(copy.deepcopy(mechanism))
    field = dataclasses.fields(mechanism)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, field, 1.0)


@each_case
def test_same_seed_same_release(case: Case) -> None:
    first, second = (
        _numbers(case.mechanism.release(case.data, np.random.default_rng(7))) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    others = [
        _numbers(case.mechanism.release(case.data, np.random.default_rng(s))) for s in range(7)
    ]
    assert not all(np.array_equal(first, other) for other in others)  # few outcomes may agree


@each_case
def test_leading_axes_are_independent_rows(case: Case) -> None:
    tiled = np.tile(case.data, (2, 3, *[1] * np.ndim(case.data)))
    if case.is_one_choice:
        accountant = RdpAccountant()
        with pytest.raises(ValueError, match="one choice"):
            case.mechanism.release(tiled, np.random.default_rng(0), accountant=accountant)
        assert not accountant.journal
        return
    one = _numbers(case.mechanism.release(case.data, np.random.default_rng(0)))
    many = _numbers(case.mechanism.release(tiled, np.random.default_rng(0)))
    assert many.shape == (2, 3, *one.shape)
    assert np.isfinite(many).all()
    assert len({row.tobytes() for row in many.reshape(6, -1)}) > 1


@each_case
def test_data_are_left_alone(case: Case) -> None:
    data = np.array(case.data, np.float64)
    before = data.copy()
    case.mechanism.release(data, np.random.default_rng(0))
    np.testing.assert_array_equal(data, before)


@each_case
def test_shape_does_not_depend_on_the_data(case: Case) -> None:
    rng = np.random.default_rng(0)
    first, second = (
        _numbers(case.mechanism.release(data, rng)) for data in (case.data, case.neighbour)
    )
    assert first.shape == second.shape


@pytest.mark.few(18)
@each_case
def test_the_accountant_is_told_before_the_draw(case: Case) -> None:
    accountant = RdpAccountant()
    case.mechanism.release(case.data, np.random.default_rng(0), accountant=accountant)
    again = RdpAccountant()
    again.compose(case.mechanism.cost)
    np.testing.assert_allclose(accountant.rdp, again.rdp, rtol=1e-14)
    assert accountant.relation == case.mechanism.cost.relation


def odd(data: Any) -> list[Any]:
    """Data of odd sizes, shapes and types."""
    table = np.array(data, np.float64)
    return [
        *(table * size for size in (0, 1, 2.0**51, 1e300, 1e-300, -1, np.nan, np.inf, 0.5)),
        *(np.full(table.shape, size) for size in (2.0**53, 1e308)),
        *(np.zeros(shape) for shape in ((0, *table.shape), (0,), (3, 0), (2, *table.shape))),
        *(table.astype(kind) for kind in (bool, np.float32, object, complex)),
        table[..., :1],
        table.tolist(),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "mechanism",
    [
        DirichletMechanism(weight=1, alpha=1e-9),
        *(case.mechanism for case in ALL_MECHANISMS),
    ],
)
def test_nothing_fails_after_the_charge(mechanism: Mechanism[Any]) -> None:
    """What is wrong is refused before; neither NumPy nor warnings come between."""
    data = next((case.data for case in ALL_MECHANISMS if case.mechanism is mechanism), [5, 0, 3])
    with np.errstate(all="ignore"):
        every = odd(data)
    for each in every:
        accountant, released = RdpAccountant(), 0
        with np.errstate(all="raise"):
            try:
                mechanism.release(each, np.random.default_rng(0), accountant=accountant)
                released = 1
            except (ValueError, TypeError, FloatingPointError):
                pass
        assert len(accountant.journal) == released


def test_a_charge_does_not_fail_of_what_numpy_raises() -> None:
    """That ended the samplers of a draw, with a note that the budget may be spent."""
    accountant = RdpAccountant(budget=ApproxDP(1e4, 1e-12))
    with np.errstate(all="raise"), pytest.raises(BudgetExceeded) as caught:
        GaussianMechanism(sigma=0.01).release([3, 4], 0, accountant=accountant)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.few(18)
@each_case
def test_over_budget_nothing_is_drawn_or_spent(case: Case) -> None:
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    poor = RdpAccountant(budget=ApproxDP(1e-9, 1e-12))
    with pytest.raises(BudgetExceeded):
        case.mechanism.release(case.data, rng, accountant=poor)
    assert rng.bit_generator.state == state
    assert not poor.rdp.any()


@each_case
@pytest.mark.parametrize("ugly", ["nan", "negative", "infinite", "scalar", "text", "empty"])
def test_ugly_data_are_refused_and_cost_nothing(case: Case, ugly: str) -> None:
    if ugly == "negative" and isinstance(case.mechanism, SumsMechanism):
        pytest.skip("sums may be negative")
    data = np.array(case.data, np.float64)
    match ugly:
        case "nan" | "negative" | "infinite":
            value = {"nan": np.nan, "negative": -1.0, "infinite": np.inf}[ugly]
            data[..., 0] = value
            wrong: Any = data
        case "scalar":
            wrong = 3.0
        case "text":
            wrong = ["a", "b", "c"]
        case _:
            wrong = []
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=r"data must|could not convert"):
        case.mechanism.release(wrong, np.random.default_rng(0), accountant=accountant)
    assert accountant.relation is None


@each_case
def test_a_text_is_no_generator(case: Case) -> None:
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=r"rng must be a numpy\.random\.Generator, .* got '3'"):
        case.mechanism.release(case.data, "3", accountant=accountant)
    assert accountant.relation is None


#: From a target and a number of releases to the mechanism; one line for each way to calibrate.
CALIBRATED: dict[str, Callable[..., Mechanism[Any]]] = {
    "dirichlet, weight": partial(DirichletMechanism.calibrated, alpha=2.0),
    "dirichlet, prior": partial(DirichletMechanism.calibrated, weight=0.5),
    "dirichlet, designed": partial(DirichletMechanism.designed, n_records=500, n_cells=4),
    "dirichlet, algorithm 1": DirichletMechanism.algorithm_1,
    "simplex": partial(SimplexMechanism.calibrated, eta=0.4, sensitive=(0, 1), distance=0.02),
    "policy": partial(PolicyMechanism.calibrated, n_actions=3, mixing=0.9, distance=0.1),
    "gaussian": GaussianMechanism.calibrated,
    "laplace": LaplaceMechanism.calibrated,
    "sums": SumsMechanism.calibrated,
    "discrete gaussian": DiscreteGaussianMechanism.calibrated,
    "discrete laplace": DiscreteLaplaceMechanism.calibrated,
    "noisy posterior": partial(NoisyPosteriorMechanism.calibrated, alpha=1.0),
    "choice": partial(ExponentialMechanism.calibrated, sensitivity=3.0),
    "exponential": partial(PosteriorExponentialMechanism.calibrated, prior=(7, 4), n=20),
}


@pytest.mark.few(28)
@pytest.mark.parametrize("target", [RenyiDP(2, 1), ApproxDP(1, 1e-5)], ids=str)
@pytest.mark.parametrize("make", CALIBRATED.values(), ids=CALIBRATED)
def test_as_many_releases_fit_as_were_calibrated_for(make: Callable[..., Any], target: Any) -> None:
    mechanism, accountant = make(target, count=6), RdpAccountant(budget=target)
    accountant.compose(mechanism.cost, 6)
    if mechanism != DirichletMechanism.algorithm_1(target, count=6):  # whose bound is loose
        with pytest.raises(BudgetExceeded):
            accountant.compose(mechanism.cost)


@pytest.mark.parametrize("make", [LaplaceMechanism, DiscreteLaplaceMechanism])
def test_as_many_pure_releases_fit(make: Any) -> None:
    assert 6 * make.pure(1.5, count=6).cost.pure_epsilon <= 1.5 * (1 + 1e-15)
    posterior = NoisyPosteriorMechanism.pure(1.5, alpha=1.0, count=6)
    assert 6 * posterior.noise.cost.pure_epsilon <= 1.5 * (1 + 1e-15)


@pytest.mark.slow
@each_case
def test_audit_finds_no_violation_and_most_of_the_claim(case: Case) -> None:
    """With 200,000 draws at delta 0.01, a false alarm once in 10,000 runs of each case."""
    claimed = float(case.mechanism.cost.epsilon(0.01))

    def run(data: Any, rng: np.random.Generator) -> Any:
        if case.is_one_choice:
            return exponential_choice(data.astype(int), case.mechanism.scale, rng).astype(float)
        return _numbers(case.mechanism.release(data, rng))

    near = case.near * claimed
    check_claim(run, case.data, case.neighbour, seed=1, claimed=claimed, least=near)
