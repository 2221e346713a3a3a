"""Break the privacy on purpose, one rule at a time: a check of the suite must see each break.

Each break is planted in the library itself; what is run then is the very check that guards the
rule elsewhere in the suite.
"""

import numpy as np
import pytest
import test_relations_by_brute_force as brute_force
import test_release_contract as contract
from oracle_mpmath import change_divergence

from privrl import accounting, profiles
from privrl.agents import PSRL, BetaRewards
from privrl.audit import audit_dirichlet
from privrl.relations import Relation, ReplaceRecord, ReplaceStep
from privrl.releases import DirichletRelease, Together
from privrl.samplers import Diffuse, DirichletSampler

RELEASE = DirichletRelease(scale=1, alpha=3.46, relation=ReplaceRecord())


def test_a_sensitivity_without_self_loops_is_seen() -> None:
    transitions, _ = brute_force.observed_steps(2, 2, 3)
    assert not brute_force.uncovered(transitions, ReplaceStep(), "transitions")
    without = Relation("no self-loops", {"transitions": [(1, -1, 1, -1)]})
    assert brute_force.uncovered(transitions, without, "transitions")


def test_an_accountant_that_forgets_the_count_is_seen(monkeypatch) -> None:
    whole = accounting.RdpAccountant.compose
    monkeypatch.setattr(
        accounting.RdpAccountant, "compose", lambda self, release, count=1: whole(self, release, 1)
    )
    at_once, one_by_one = accounting.RdpAccountant(), accounting.RdpAccountant()
    at_once.compose(RELEASE, 7)
    for _ in range(7):
        one_by_one.compose(RELEASE)
    assert not np.allclose(at_once.rdp, one_by_one.rdp)


def test_a_cell_left_out_is_seen(monkeypatch) -> None:
    """Gains counted, losses forgotten: half the change vector."""
    whole = profiles.changes_rdp

    def only_gains(changes, scale, alpha, orders):
        gains = [tuple(m for m in vector if m > 0) for vector in changes]
        return whole(gains, scale, alpha, orders)

    true = float(change_divergence((1, -1), 2.0, scale=1, alpha=3.46))
    assert float(RELEASE.rdp(2.0)) == pytest.approx(true, rel=1e-10)
    monkeypatch.setattr("privrl.releases.changes_rdp", only_gains)
    assert float(RELEASE.rdp(2.0)) < 0.9 * true


def test_noise_cut_after_the_accounting_is_seen(monkeypatch) -> None:
    """Counts weighted twice as much as was stated: the audit contradicts the claim."""
    whole = DirichletSampler.update
    monkeypatch.setattr(
        DirichletSampler, "update", lambda self, counts, rng: whole(self, 2 * counts, rng)
    )
    sampler = Diffuse(scale=1.0, alpha=5.0, relation=ReplaceRecord())
    assert audit_dirichlet(sampler, np.random.default_rng(0), draws=100_000).violated


def test_rewards_left_out_of_the_charge_are_seen() -> None:
    """An agent's draw costs more than its transitions alone."""
    sampler = Diffuse(scale=0.1)
    rewards = Diffuse(scale=0.1, alpha=1.0, table="rewards")
    agent = PSRL(
        3, 2, 4, sampler=sampler, rewards=BetaRewards(rewards), rng=np.random.default_rng(0)
    )
    agent.begin_episode(0)
    both = Together([sampler.release, rewards.release])
    spent = both.rdp(agent.accountant.orders)
    np.testing.assert_allclose(agent.accountant.rdp, spent, rtol=1e-14)
    assert (agent.accountant.spent(2.0) > 1.2 * sampler.release.rdp(2.0)).all()


def test_an_epsilon_rounded_down_is_seen(monkeypatch) -> None:
    contract.test_epsilon_inverts_delta(RELEASE, 1e-5)
    whole = DirichletRelease.epsilon
    monkeypatch.setattr(
        DirichletRelease, "epsilon", lambda self, delta: np.floor(whole(self, delta) * 1e3) / 1e3
    )
    with pytest.raises(AssertionError):
        contract.test_epsilon_inverts_delta(RELEASE, 1e-5)
