"""A policy states what its agent's own draws cost, and nothing changes that afterwards."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl import secret_rng
from privrl.accounting import (
    ApproxDP,
    Budget,
    BudgetExceeded,
    Ledger,
    PldAccountant,
    RdpAccountant,
    RenyiDP,
)
from privrl.agents import (
    DPUCBVI,
    PSRL,
    RLSVI,
    UCBVI,
    EveryEpisode,
    ExploreThenPlan,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    QLearning,
    SparsePSRL,
    TabularAgent,
    Transition,
)
from privrl.agents.baselines import Oracle
from privrl.costs import GaussianCost, Relation, ReplaceStep
from privrl.envs import riverswim
from privrl.samplers import Diffuse, NoisyCounts, NonPrivate

SIZES = 3, 2, 4


def noisy(table: str) -> NoisyCounts:
    return NoisyCounts(sigma=5.0, updates=9, table=table)


def with_noise(kind: type[TabularAgent], **options: Any) -> TabularAgent:
    options = {"rewards": NoisyRewards(noisy("rewards")), **options}
    return agent_of(kind, *SIZES, sampler=noisy("transitions"), rng=secret_rng(), **options)


def diffuse(**options: Any) -> PSRL:
    """It pays for each draw."""
    return agent_of(
         PSRL, *SIZES, sampler=Diffuse(weight=0.3, alpha=5), rewards=KnownRewards(np.zeros((3, 2))),
        rng=secret_rng(), **options,
    )  # fmt: skip


AGENTS: dict[str, Callable[..., TabularAgent]] = {
    "diffuse": diffuse,
    "psrl": lambda **o: with_noise(PSRL, resamples=EveryEpisode(), **o),
    "sparse": lambda **o: with_noise(
        SparsePSRL, episodes=9, rewards=HatRewards(noisy("rewards")), **o
    ),
    "ucbvi": lambda **o: with_noise(UCBVI, **o),
    "dp-ucbvi": lambda **o: with_noise(DPUCBVI, **o),
    "rlsvi": lambda **o: with_noise(RLSVI, **o),
    "explore-then-plan": lambda **o: with_noise(ExploreThenPlan, schedule=EveryEpisode(), **o),
    "q-learning": lambda **o: agent_of(QLearning, *SIZES, episodes=9, **o),
    "oracle": lambda **o: agent_of(Oracle, *SIZES, policy=np.zeros((4, 3), np.intp), **o),
    "non-private": lambda **o: agent_of(
        PSRL, *SIZES, sampler=NonPrivate(), rewards=KnownRewards(np.zeros((3, 2))), **o
    ),
}
each_agent = pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)

#: What an agent's owner may change, since no statement rests on it. (The tuples are read from the
#: class.)
DECLARED = {  # of the class, for the command line and pictures
    "title", "look", "releases", "acts_randomly", "usual_sampler", "usual_schedule",
    "has_own_schedule", "reward_model", "needs_counts", "needs_tables", "needs_steps",
    "can_resample", "side_by_side", "takes_cells",
}  # fmt: skip
WRITABLE = {"env", "episodes_done", "remembered", "derived"} | DECLARED


def play(agent: TabularAgent, *episodes: int) -> None:
    for episode in episodes:
        agent.begin_episode(episode)
        agent.observe(Transition(0, 1, 0.5, 1))


def said(agent: TabularAgent) -> dict[str, Any]:
    return agent.to_policy().to_dict()


def public(thing: object) -> list[str]:
    """Public attributes that are no methods: those of the instance, and properties."""
    kinds = {name: getattr(type(thing), name) for name in dir(type(thing)) if name[0] != "_"}
    found = {name for name, kind in kinds.items() if not callable(kind)}
    return sorted(found | {name for name in vars(thing) if name[0] != "_"})


@each_agent
def test_no_attribute_changes_what_a_policy_states(make: Callable[..., TabularAgent]) -> None:
    agent = make(accountant=RdpAccountant(budget=None))
    play(agent, 0, 1)
    before, names = said(agent), public(agent)
    assert {"accountant", "schedule", "horizon", "support", "n_states", "n_actions"} <= {*names}
    for name in names:
        if name not in WRITABLE:
            with pytest.raises(AttributeError):
                setattr(agent, name, RdpAccountant())
            with pytest.raises(AttributeError):
                delattr(agent, name)
    agent.episodes_done = 77
    assert said(agent) == before


def test_more_budget_is_no_other_accountant() -> None:
    """A run that had spent its budget, and went on under another accountant, stated the other's."""
    agent = diffuse(accountant=RdpAccountant(budget=RenyiDP(2, 1.0)))
    with pytest.raises(BudgetExceeded):
        play(agent, *range(10**6))
    spent = agent.accountant.epsilon(1e-5)
    with pytest.raises(AttributeError, match="accountant of a PSRL is read-only"):
        agent.accountant = RdpAccountant()
    assert said(agent)["guarantee"]["epsilon_delta"] == spent


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["diffuse", "psrl", "sparse"])
def test_what_others_charge_is_not_stated(name: str) -> None:
    """Neither before nor after; and their draws do not become this agent's."""
    alone = AGENTS[name]()
    play(alone, 0, 1, 2)
    shared = RdpAccountant()
    shared.compose(GaussianCost(sigma=0.1, relation=ReplaceStep()), 3)
    agent, other = AGENTS[name](accountant=shared), AGENTS[name](accountant=shared)
    play(agent, 0)
    play(other, 0, 1, 2, 3)
    play(agent, 1, 2)
    shared.compose(GaussianCost(sigma=0.1, relation=ReplaceStep()))
    assert said(agent)["guarantee"] == said(alone)["guarantee"]
    stated = agent.to_policy().guarantee
    assert stated is not None
    assert stated["epsilon_delta"] == pytest.approx(float(alone.accountant.epsilon(1e-5)))
    assert 0 < stated["epsilon_delta"] < shared.epsilon(1e-5) / 2


def test_what_was_refused_is_not_stated() -> None:
    once = diffuse()
    play(once, 0)
    agent = diffuse(accountant=RdpAccountant(budget=RenyiDP(2, 1.5 * once.accountant.spent(2.0))))
    play(agent, 0)
    for _ in range(3):
        with pytest.raises(BudgetExceeded):
            agent.begin_episode(1)
    stated, meant = agent.to_policy().guarantee, once.to_policy().guarantee
    assert stated is not None
    assert meant is not None
    assert stated["epsilon_delta"] == meant["epsilon_delta"]


def test_an_interrupted_draw_is_stated() -> None:
    """It was charged, and may have been seen: a statement is never too small."""

    class Stops(NoisyCounts):
        def update(self, counts, rng):
            raise KeyboardInterrupt

    agent = diffuse()
    play(agent, 0)
    before = agent.to_policy().guarantee
    agent._sampler.update = Stops.update.__get__(agent._sampler)  # type: ignore[method-assign]
    with contextlib.suppress(KeyboardInterrupt):
        agent.begin_episode(1)
    stated = agent.to_policy().guarantee
    assert before is not None
    assert stated is not None
    assert stated["epsilon_delta"] > before["epsilon_delta"]


def test_it_states_what_was_charged_and_not_what_a_sampler_said_before() -> None:
    """A sampler of one's own may know its cost only when it has seen how large a batch is."""

    class Larger(Diffuse):
        checked = False

        @property
        def cost(self):
            return GaussianCost(sigma=1.0 if self.checked else 50.0, relation=ReplaceStep())

        def check(self, counts):
            super().check(counts)
            self.checked = True

    agent = agent_of(
        PSRL, *SIZES, sampler=Larger(), rewards=KnownRewards(np.zeros((3, 2))), rng=secret_rng()
    )
    play(agent, 0)
    stated = agent.to_policy().guarantee
    assert stated is not None
    assert stated["epsilon_delta"] == agent.accountant.epsilon(1e-5)


def test_it_is_stated_after_a_checkpoint(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for name in ("diffuse", "psrl"):
        agent, again = AGENTS[name](), AGENTS[name]()
        play(agent, 0, 1)
        agent.save(tmp_path / name, ledger=ledger)
        again.load(tmp_path / name, ledger=ledger)
        assert said(again)["guarantee"] == said(agent)["guarantee"]
        play(again, 2)
        assert again._paid[0][1] == (3 if name == "diffuse" else 1)


@pytest.mark.slow
def test_a_private_agent_spends_of_the_accountant_that_it_is_given(tmp_path: Path) -> None:
    """Its noise is for its own epsilon, and so is its statement, at its own delta."""
    env = gym.make("privrl.envs:privrl/RiverSwim-v0", n_states=4, horizon=8)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("patients", Budget(2.5, 1e-6))
    first, second, third = (
        PSRL.private(
            env, epsilon=1, delta=1e-6, episodes=30, accountant=ledger.accountant("patients")
        )
        for _ in range(3)
    )
    for agent in (first, second):
        guarantee = agent.learn().to_policy().guarantee
        assert guarantee is not None
        assert guarantee["delta"] == 1e-6
        assert 0.95 < guarantee["epsilon_delta"] <= 1
        assert said(agent)["shareable"]
    assert len(ledger.entries()) == 3  # the budget, and a release of each
    both = first.accountant.epsilon(1e-6)
    assert 1 < both < 2
    ledger.set_budget("patients", Budget(1.5, 1e-6))
    with pytest.raises(BudgetExceeded):
        third.learn()
    assert third.draws == 0


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_under_a_shared_accountant_it_states_what_it_was_made_for(delta: float | None) -> None:
    env = gym.make("privrl.envs:privrl/RiverSwim-v0", n_states=4, horizon=8)
    for accountant in (RdpAccountant(), RdpAccountant(budget=ApproxDP(99.0, 1e-3))):
        shared, alone = (
            PSRL.private(env, epsilon=1, delta=delta, episodes=30, accountant=each)
            for each in (accountant, None)
        )
        stated = [agent.learn().to_policy().guarantee for agent in (shared, alone)]
        assert stated[0] == stated[1]


def test_loss_distributions_are_stated_as_they_add_up() -> None:
    pytest.importorskip("dp_accounting")
    budget = ApproxDP(9.0, 1e-5)
    agent, by_orders = diffuse(accountant=PldAccountant(budget=budget)), diffuse()
    play(agent, 0, 1, 2)
    play(by_orders, 0, 1, 2)
    stated, looser = agent.to_policy().guarantee, by_orders.to_policy().guarantee
    assert stated is not None
    assert looser is not None
    assert stated["epsilon_delta"] == agent.accountant.epsilon(1e-5) < looser["epsilon_delta"]


class _Hardly(ReplaceStep):
    """Of the name of a replaced step, and a thousandth of its changes."""

    def __init__(self) -> None:
        tables = {table: [(1e-3,)] for table, _ in ReplaceStep().tables}
        Relation.__init__(self, str(ReplaceStep()), tables, norm_only=ReplaceStep().norm_only)


@pytest.mark.parametrize("of", ["transitions", "rewards", "private"])
def test_no_other_changes_are_stated_as_a_replaced_step(of: str) -> None:
    """A policy with a thousandth of the noise stated the same as with all of it."""
    accountant = RdpAccountant()

    def noise(table: str, own: str) -> NoisyCounts:
        relation = _Hardly() if table == own else ReplaceStep()
        return NoisyCounts(sigma=5.0, updates=9, table=table, relation=relation)

    def made() -> object:
        if of == "private":
            return PSRL.private(riverswim(), epsilon=1, episodes=9, relation=_Hardly())
        return agent_of(
            PSRL, *SIZES, sampler=noise("transitions", of),
            rewards=NoisyRewards(noise("rewards", of)), accountant=accountant,
        )  # fmt: skip

    with pytest.raises(ValueError, match="relation must have a name of its own"):
        made()
    assert not accountant.journal


def test_what_is_no_accountant_is_refused_at_once() -> None:
    for wrong in (RenyiDP(2, 1.0), RdpAccountant, "users"):
        with pytest.raises(ValueError, match="accountant must be"):
            diffuse(accountant=wrong)


class Meanwhile(RdpAccountant):
    """Whoever asks it for epsilon is late: another thread draws before it answers."""

    agent: PSRL | None = None

    def unlimited(self) -> RdpAccountant:
        own = Meanwhile()
        own.agent = self.agent
        return own

    def epsilon(self, delta: float) -> Any:
        told = super().epsilon(delta)
        if self.agent is not None:
            thread = Thread(target=self.agent.begin_episode, args=(1,))
            thread.start()
            thread.join()
        return told


class OfItsDraws(PSRL):
    """Its policy says how many draws it rests on."""

    def _plan_to_deploy(self) -> Any:
        return np.full((self.horizon, self.n_states), self.draws - 1)


def test_a_draw_meanwhile_is_in_no_policy_that_states_less() -> None:
    """The statement was made first, and the policy from the draw that came between."""
    accountant = Meanwhile()
    agent = agent_of(
        OfItsDraws, *SIZES, sampler=Diffuse(weight=0.3, alpha=5), accountant=accountant,
        rewards=KnownRewards(np.zeros((3, 2))), rng=secret_rng(),
    )  # fmt: skip
    agent.begin_episode(0)
    once = agent.to_policy()
    accountant.agent = agent
    policy = agent.to_policy()
    assert agent.draws == 2
    assert policy.guarantee is not None
    assert once.guarantee is not None
    assert policy.guarantee["epsilon_delta"] == once.guarantee["epsilon_delta"]
    assert not policy.actions.any()
    assert agent.policy.all()
