"""A mechanism and a sampler written as the how-to pages say, used as a user would."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl.accounting import ApproxDP, BudgetExceeded, RdpAccountant, RenyiDP
from privrl.agents import PSRL, KnownRewards
from privrl.audit import audit_replay
from privrl.costs import Cost, GaussianCost, ReplaceStep
from privrl.envs import public_facts
from privrl.experiments import train
from privrl.mechanisms import DiscreteLaplaceMechanism, Mechanism
from privrl.mechanisms.additive import AdditiveMechanism
from privrl.models.estimates.frequencies import frequencies
from privrl.numerics.discrete_gaussian import gaussian_on_grid
from privrl.samplers.base import PaidSampler, Posterior
from privrl.samplers.noisy_counts import NoisyPosterior


@dataclass(frozen=True, kw_only=True)
class NoisyLargest(Mechanism[Any]):
    """The cell with the largest noisy count."""

    noise: DiscreteLaplaceMechanism

    @classmethod
    def calibrated(cls, target: ApproxDP) -> Self:
        return cls(noise=DiscreteLaplaceMechanism.calibrated(target))

    @property
    def cost(self) -> Cost:
        return self.noise.cost

    def check(self, data: Any) -> Any:
        return self.noise.check(data)

    def _draw(self, data: Any, rng: np.random.Generator) -> Any:
        return np.argmax(self.noise.release(data, rng), axis=-1)


def test_a_mechanism_checks_charges_and_draws() -> None:
    target = ApproxDP(1.0, 1e-6)
    mechanism, accountant = NoisyLargest.calibrated(target), RdpAccountant(budget=target)
    assert mechanism.release([119, 74, 6180, 272], 0, accountant=accountant) == 2
    assert 0 < accountant.epsilon(1e-6) <= 1
    with pytest.raises(BudgetExceeded):
        mechanism.release([119, 74, 618, 272], 0, accountant=accountant)
    audited = audit_replay(
        lambda data: mechanism.release(data, 0, accountant=RdpAccountant()), [5, 1, 3], [4, 2, 3]
    )
    assert not audited.findings


@dataclass(frozen=True, kw_only=True)
class Doubled(AdditiveMechanism[Any]):
    """Gaussian noise under another class: estimates read what it declares."""

    sigma: float

    _named = "sigma"
    _costs = GaussianCost
    is_gaussian = True
    _guess = staticmethod(lambda target, changes: 1.0)
    _noise = staticmethod(gaussian_on_grid)

    def _draw(self, data: Any, rng: np.random.Generator) -> Any:
        return data + self._noise(self.sigma, data.shape, rng)


def test_estimates_take_a_mechanism_of_another_class() -> None:
    mechanism = Doubled(sigma=3.0)
    noisy = mechanism.release([100.0, 900.0], np.random.default_rng(0))
    assert frequencies(noisy, mechanism) == pytest.approx([0.1, 0.9], abs=0.02)
    assert mechanism.deviation == 3.0
    assert mechanism.reach(0.05) == pytest.approx(1.96 * 3, rel=1e-3)


class Afresh(PaidSampler):
    """All counts so far, with fresh noise at each draw."""

    settings: ClassVar[tuple[str, ...]] = ("sigma",)

    def __init__(self, sigma: float) -> None:
        self.sigma = np.asarray(sigma)
        self._paid = GaussianCost(sigma=sigma, relation=ReplaceStep(), table="transitions")
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._total: Any = 0.0

    @property
    def cost(self) -> Cost:
        return self._paid

    def check(self, counts: Any) -> None:
        self.check_usable()

    def update(self, counts: Any, rng: np.random.Generator) -> Posterior:
        self.check(counts)
        self._done += 1
        self._total = self._total + counts
        noise = gaussian_on_grid(float(self.sigma), counts.shape, rng)
        ones = np.ones((1,) * counts.ndim)
        return NoisyPosterior(self._total + noise, self.sigma * ones, ones)


def test_an_agent_learns_from_a_sampler_of_another_class() -> None:
    env = gym.make("FrozenLake-v1")
    facts = public_facts(env)
    agent = agent_of(
        PSRL,
        facts.n_states,
        facts.n_actions,
        facts.horizon,
        sampler=Afresh(4.0),
        rewards=KnownRewards(np.zeros((facts.n_states, facts.n_actions))),
        accountant=RdpAccountant(budget=RenyiDP(2, 100.0)),
        terminates=facts.terminates,
        rng=np.random.default_rng(0),
    )
    record = train(agent, env, 4, 0)
    assert len(record.reward) == 4
    (entry,) = agent.accountant.journal
    assert entry.count == 4
