"""Objects that are none of what is wanted, and numbers beyond all floats: refused in words."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import agent_of

from privrl.accounting import Budget, Ledger, PldAccountant, RdpAccountant, RenyiDP
from privrl.accounting.ledger import DataSet
from privrl.agents import PSRL, BetaRewards, KnownRewards
from privrl.agents.bandits import imed
from privrl.agents.rewards import reward_loops
from privrl.agents.setup import self_loops
from privrl.audit import law_test, separation
from privrl.costs import (
    AddRemoveRecord,
    DirichletCost,
    GaussianCost,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
)
from privrl.costs.base import Together
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost, LaplaceCost
from privrl.costs.noise_pairs import DiscreteGaussianPair
from privrl.costs.relations import ReplaceTransition
from privrl.data import Bins, Categories
from privrl.data.records import read_records
from privrl.data.schema.templates import template
from privrl.envs import TabularEnv, benchmark, plan, public_facts, riverswim, save_tables
from privrl.envs.worth import worth
from privrl.experiments import run_sweep, run_training, suites
from privrl.mechanisms import DirichletMechanism, LaplaceMechanism, design
from privrl.mechanisms.additive import normalise
from privrl.mechanisms.design import expected_loss, typical_loss
from privrl.mechanisms.errors import (
    dirichlet_kl,
    expected_posterior_kl,
    gaussian_l2_quantile,
    kl_quantile,
    kl_tail,
)
from privrl.models import discretise, histogram
from privrl.models.estimates.tables import row_totals
from privrl.numerics.checks import check_between, check_count, check_positive, check_rng
from privrl.offline import fit_policy, plan_for
from privrl.samplers import Diffuse, NoisyCounts
from privrl.samplers.base import stack

BIG = 10**400
RECORD = ReplaceRecord()
COSTS = [
    DirichletCost(weight=1.0, alpha=1.0, relation=RECORD),
    GaussianCost(sigma=1.0, relation=RECORD),
    LaplaceCost(scale=1.0, relation=RECORD),
    DiscreteGaussianCost(sigma=1.0, relation=RECORD),
    DiscreteLaplaceCost(scale=1.0, relation=RECORD),
]
FRAME = pd.DataFrame({"a": [1.0, 2.0]})


class Something:
    """What nobody takes."""

    def __repr__(self) -> str:
        return "something"


SOMETHING = Something()


@pytest.mark.parametrize("cost", COSTS, ids=repr)
@pytest.mark.parametrize("wrong", [BIG, [BIG], "a", SOMETHING, [[1.0], [1.0, 2.0]]], ids=repr)
def test_numbers_that_are_none(cost: Any, wrong: Any) -> None:
    with pytest.raises(ValueError, match="orders must be numbers"):
        cost.rdp(wrong)
    with pytest.raises(ValueError, match="epsilon must be numbers"):
        cost.delta(wrong)


@pytest.mark.parametrize("make", [RdpAccountant, PldAccountant])
@pytest.mark.parametrize("wrong", [5, None, "cost", RECORD, GaussianCost])
def test_what_is_no_cost_is_not_charged(make: Callable[[], Any], wrong: Any) -> None:
    accountant = make()
    with pytest.raises(ValueError, match=r"cost must be a cost|relation"):
        accountant.compose(wrong)
    assert len(accountant.journal) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RdpAccountant(orders=[BIG]), "orders must be numbers"),
        (lambda: RdpAccountant(orders=[None, object()]), "orders must be numbers"),
        (lambda: RdpAccountant().compose(COSTS[1], BIG), "count must be .* beyond all floats"),
        (lambda: PldAccountant().compose(COSTS[1], BIG), "count must be .* beyond all floats"),
        (lambda: ReplaceEpisode(BIG), "horizon must be .* beyond all floats"),
        (lambda: Bins.even(0, 1, BIG), "count must be .* beyond all floats"),
        (lambda: Bins.even(0, 1, 2**63), "count must be at most 1000000"),
        (lambda: template(["a"], numeric={"a": (0, 1)}, bins=10**9), "count must be at most"),
    ],
)
def test_numbers_that_are_too_large(call: Callable[[], Any], message: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=message):
        call()
    assert time.process_time() - began < 2


@pytest.mark.parametrize("wrong", [5, "accountant", RdpAccountant])
def test_what_is_no_accountant_draws_nothing(wrong: Any) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    mechanism = LaplaceMechanism(scale=1.0, relation=RECORD)
    with pytest.raises((ValueError, TypeError)):
        mechanism.release(np.ones(3), rng, accountant=wrong)
    with pytest.raises((ValueError, TypeError)):
        histogram([1, 2], Categories((1, 2)), target=RenyiDP(2, 1), rng=rng, accountant=wrong)
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("wrong", [5, None, "a", [("a", (0, 1))]])
def test_bounds_that_are_no_table(wrong: Any) -> None:
    with pytest.raises(ValueError, match="bounds must map columns"):
        discretise(FRAME, wrong, target=RenyiDP(2, 1), rng=np.random.default_rng(0))


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("sigma", [1e-20, 1e-3, 1.0, 1e3, 1e10, 9e29])
def test_discrete_gaussians_far_away(sigma: float, cells: Any) -> None:
    """Where no float is that far from the noise, no mass is either."""
    pair = DiscreteGaussianPair(sigma, 1, cells)
    found = pair.log_delta(np.array([1e100, 1e290, 1e300, 1.7e308]))
    assert not np.isnan(found).any()
    if sigma >= 1:
        assert (found < -700).all()
    cost = DiscreteGaussianCost(sigma=sigma, relation=RECORD)
    deltas = cost.delta([0.0, 1.0, 1e290, 1e300, 1.7e308])
    assert (np.diff(deltas) <= 0).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda size: LaplaceCost(scale=size, relation=RECORD),
        lambda size: GaussianCost(sigma=size, relation=RECORD),
        lambda size: DirichletCost(weight=1 / size, alpha=3.0, relation=RECORD),
        lambda size: DirichletCost(weight=1 / size, alpha=3.0, relation=AddRemoveRecord()),
    ],
)
@pytest.mark.parametrize("power", [*range(-24, -6), -3])
def test_two_releases_are_never_cheaper_than_one(make: Callable[..., Any], power: int) -> None:
    """However little noise there is: no grid of floats holds losses of 1e20 nats."""
    one = make(10.0**power)
    epsilons = np.array([0.0, 1.0, 100.0, 0.5 / 10.0**power])
    assert (Together([one, one]).delta(epsilons) >= one.delta(epsilons) * (1 - 1e-9)).all()


PRIVATE = pd.DataFrame({"name": ["canary"], "age": [7351]})


@pytest.mark.parametrize(
    "call",
    [
        lambda: check_positive("x", PRIVATE),
        lambda: check_count("n", PRIVATE["age"].to_list()),
        lambda: check_between("x", PRIVATE.to_dict(), 0, 1),
        lambda: check_rng(PRIVATE),
        lambda: LaplaceMechanism(scale=1.0).release(
            [1.0], np.random.default_rng(0), accountant=PRIVATE
        ),
        lambda: RdpAccountant().compose(PRIVATE),
        lambda: histogram(
            PRIVATE["age"], 4, PRIVATE, target=RenyiDP(2, 1), rng=np.random.default_rng()
        ),
        lambda: histogram(PRIVATE["age"], 4, (0, 9), target=PRIVATE, rng=np.random.default_rng()),
        lambda: discretise(FRAME, PRIVATE, target=RenyiDP(2, 1), rng=np.random.default_rng(0)),
        lambda: LaplaceCost(scale=1.0, relation=PRIVATE),
    ],
)
def test_data_in_the_place_of_another_argument_are_not_shown(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="must") as error:
        call()
    assert "canary" not in str(error.value)
    assert "7351" not in str(error.value)


MDP = riverswim(4, 5)
NOISY = NoisyCounts(sigma=1.0, updates=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda wrong: Together([wrong]), "cost must be"),
        (lambda wrong: Relation("mine", wrong), "tables must be"),
        (lambda wrong: ReplaceTransition(arrival_rewards=wrong), "arrival_rewards must be"),
        (
            lambda wrong: design(RenyiDP(2, 1), n_records=9, n_cells=2, relation=wrong),
            "relation must",
        ),
        (lambda wrong: stack([wrong]), "samplers must be"),
        (lambda wrong: NOISY.update(np.ones(3), wrong), "rng must be"),
        (lambda wrong: NOISY.update(wrong, np.random.default_rng()), "counts must be"),
        (BetaRewards, "sampler must be"),
        (reward_loops, "relation must be"),
        (lambda wrong: self_loops(2, 2, support=wrong), "support must be"),
        (lambda wrong: imed(wrong, [1], np.random.default_rng(), runs=1), "mdp must be"),
        (lambda wrong: worth(wrong, np.zeros((1, 1), int)), "env must be"),
        (lambda wrong: worth(TabularEnv(MDP), wrong), "policy must be"),
        (public_facts, "env must be"),
        (lambda wrong: save_tables("t.npz", wrong), "mdp must be"),
        (benchmark, "task must be"),
        (plan_for, "released must be"),
        (lambda wrong: fit_policy(wrong, epsilon=1.0, rng=np.random.default_rng()), "log must"),
        (lambda wrong: law_test([1.0], wrong), "law must be"),
        (lambda wrong: row_totals([wrong]), "tables must be"),
        (run_training, "spec must be"),
        (run_sweep, "spec must be"),
        (suites.run_suite, "spec must be"),
        (lambda wrong: read_records(Path("nowhere"), wrong), "schema must be"),
        (lambda wrong: Bins((0, 1, 2)).decode(wrong), "codes must be"),
        (lambda wrong: Categories(("a", "b")).decode(wrong), "codes must be"),
    ],
)
@pytest.mark.parametrize("wrong", [5, SOMETHING, Something], ids=repr)
def test_objects_of_another_kind(call: Callable[[Any], Any], message: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=message):
        call(wrong)


def test_codes_of_no_cell() -> None:
    for wrong in ([2], [-1], [0.5], [[0]], [True]):
        with pytest.raises(ValueError, match="codes must be"):
            Bins((0, 1, 2)).decode(wrong)
    assert Bins((0, 1, 2)).decode([]).empty


@pytest.mark.parametrize("call", ["act(9, 0)", "act(0, 9)", "act('a', 0)"])
def test_states_and_steps_that_there_are_not(call: str) -> None:
    agent = agent_of(
         PSRL, 2, 2, 3, sampler=Diffuse(), rewards=KnownRewards(np.zeros((2, 2))),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    agent.begin_episode(0)
    with pytest.raises(ValueError, match=r"state and step must be whole numbers in 0..1 and 0..2"):
        eval(f"agent.{call}")


def test_complex_numbers_are_none() -> None:
    with pytest.raises(ValueError, match="orders must be numbers"):
        RdpAccountant(orders=[2 + 1j])


def test_a_ledger_is_not_made_for_what_is_wrong(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    data = DataSet("people")
    for call in (
        lambda: book.spend("people", COSTS[1]),
        lambda: book.spend(data, 5),
        lambda: book.set_budget("people", 1.0),
        lambda: book.set_budget("people", Budget(1.0), 5),
        lambda: book.dataset("people"),
        lambda: book.dataset(tmp_path, "a\nb"),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
    assert not book.is_there


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda wrong: PSRL.private(
                TabularEnv(MDP), epsilon=wrong, episodes=3, rng=np.random.default_rng()
            ),
            "epsilon must be a number > 0 and finite",
        ),
        (lambda wrong: self_loops(2, 2, terminates=wrong), "terminates must be True or False"),
        (
            lambda wrong: public_facts(TabularEnv(MDP), reward_range=wrong),
            "reward_range must be two finite numbers",
        ),
        (
            lambda wrong: public_facts(TabularEnv(MDP), reward_range=(0, wrong)),
            "reward_range must be two finite numbers",
        ),
        (
            lambda wrong: public_facts(
                TabularEnv(MDP), reward_range=np.array([0j, 1], dtype=complex)
            ),
            "reward_range must be two finite numbers",
        ),
        (
            lambda wrong: DirichletMechanism(weight=1, alpha=1, lower_bound=wrong),
            "lower_bound must be >= 0 and finite",
        ),
    ],
)
@pytest.mark.parametrize("wrong", [BIG, np.inf, np.nan, "a", [1.0]], ids=repr)
def test_numbers_that_must_be_finite(call: Callable[[Any], Any], message: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=message):
        call(wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan(np.full((2, 2, 2), 1e300), np.full((2, 2), 1e300), 9), "must be finite"),
        (lambda: normalise([3.0, -1.0], floor=1.7e308), "noisy must be numbers whose sum"),
        (lambda: dirichlet_kl([2.0, 3.0], 5e-324), "v must be from 1e-100 to 1e\\+100"),
        (
            lambda: kl_tail(1.0, total_weight=5e-324, alpha=1.0, n_cells=2),
            "total_weight must be from 1e-100",
        ),
        (lambda: kl_tail(1e300, total_weight=1.0, alpha=1.0, n_cells=2), "eta must be from"),
        (
            lambda: kl_quantile(0.1, total_weight=1.0, alpha=1.7e308, n_cells=2),
            "alpha must be from",
        ),
        (
            lambda: separation(np.arange(20.0), np.arange(20.0), claimed=5e-324),
            "claimed must be from 1e-100",
        ),
        (
            lambda: separation(np.arange(20.0), np.arange(20.0), claimed=1e300),
            "claimed must be from 1e-100",
        ),
        (
            lambda: separation(np.arange(9.0), np.arange(9.0), claimed=np.float16(1)),
            "scores must be two arrays",
        ),
        (
            lambda: typical_loss(1.7e308, 2.0, n_records=100.0, n_cells=4),
            "weight and alpha must be such that floats hold the loss",
        ),
    ],
)
def test_what_is_beyond_floats_is_said_once_and_in_words(
    call: Callable[[], Any], message: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.slow
def test_sizes_at_the_ends_of_floats() -> None:
    """Without NumPy's warnings, and right: infinite where a bound is, never NaN."""
    sizes = [1e-100, 1e-10, 1.0, 1e10, 1e100]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LaplaceCost(scale=1.0, relation=RECORD).rdp([1.7e308]) == pytest.approx(2.0)
        assert gaussian_l2_quantile(0.1, sigma=1.7e308, n_cells=1, n_records=100.0) == np.inf
        assert expected_loss([3.0, 5.0, 0.0], 0.5, 5e-324) == pytest.approx(
            expected_loss([3.0, 5.0, 0.0], 0.5, 1e-12)
        )
        assert expected_posterior_kl([0.5, 0.5], n_records=9, alpha=1e300, alpha_new=1.0) == np.inf
        for u in sizes:
            assert not np.isnan(dirichlet_kl([[u, 1.0], [1.0, u]], [1.0, 3.0])).any()
            for bound in ("vertex", "lambert", "dkl"):
                for alpha in (1.0, 1e100):
                    row: Any = {"total_weight": u, "alpha": alpha, "n_cells": 2, "bound": bound}
                    assert ((kl_tail(sizes, **row) >= 0) & (kl_tail(sizes, **row) <= 1)).all()
                    assert not np.isnan(kl_quantile([1e-300, 0.5], **row)).any()


def test_no_epsilons_have_no_deltas() -> None:
    for cost in COSTS:
        assert cost.delta([]).shape == (0,)
        assert cost.delta(np.empty((2, 0))).shape == (2, 0)
