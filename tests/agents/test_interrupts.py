"""An interrupt at any point: no record enters two draws, and nothing is released unpaid.

A tracer raises KeyboardInterrupt at the n-th line or instruction within the modules that hold
data or spend, for every n; whoever is interrupted goes on with the same agent afterwards.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from interrupts import free_what_no_signal_holds
from made import agent_of

import privrl
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents import PSRL, BetaRewards, EveryEpisode, NoisyRewards, TabularAgent, Transition
from privrl.agents.setup import self_loops
from privrl.costs.base import together
from privrl.samplers.base import draw
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts

S, A, H = 3, 2, 4
FEW = [2.0, 8.0]  # orders
TELLING = ("agents/tabular.py", "agents/observer.py", "agents/observer.py")
RELEASING = (
    "agents/rewards.py",
    *(
        f"samplers/{n}.py"
        for n in ("base", "dirichlet", "noisy_counts", "factorisations", "buffered")
    ),
)
SPENDING = ("accounting/rdp.py", "accounting/pending.py", "accounting/journal.py")


class Interrupter:
    """Count the events of a call within some modules, and interrupt the n-th."""

    def __init__(self, at: int | None, modules: tuple[str, ...], *, instructions: bool) -> None:
        self.at, self.modules, self.instructions, self.seen = at, modules, instructions, 0

    def __call__(self, call: Callable[[], Any]) -> bool:
        """Return whether the call was interrupted."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
            free_what_no_signal_holds()
        return False

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.endswith(self.modules):
            return None
        frame.f_trace_opcodes = self.instructions
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == ("opcode" if self.instructions else "line"):
            self.seen += 1
            if self.seen == self.at:
                raise KeyboardInterrupt
        return self._step


def agent(transitions: Any, rewards: Any) -> TabularAgent:
    return agent_of(
         PSRL, S, A, H, sampler=transitions, rewards=rewards, rng=np.random.default_rng(0),
        schedule=EveryEpisode(), accountant=RdpAccountant(orders=FEW),
    )  # fmt: skip


def noisy() -> TabularAgent:
    rewards = NoisyCounts(sigma=9.0, updates=20, table="rewards")
    loops = self_loops(S, A)
    transitions = NoisyCounts(sigma=9.0, updates=20, loops=loops, factorisation="buffered")
    return agent(transitions, NoisyRewards(rewards))


def dirichlet(window: int | None) -> TabularAgent:
    rewards = Diffuse(weight=0.01, table="rewards", window=window)
    return agent(Diffuse(weight=0.01, window=window), BetaRewards(rewards))


class Journal:
    """What the samplers of an agent were given, and what of it had been paid for."""

    def __init__(self, agent: TabularAgent) -> None:
        self.agent, self.entered = agent, [np.zeros((S, A, S)), np.zeros((S, A, 2))]
        self.owed: Counter[Any] = Counter()
        for sampler, table in zip(
            (agent._sampler, agent._rewards._sampler), self.entered, strict=True
        ):
            sampler.update = self._noting(sampler, sampler.update, table)

    def _noting(self, sampler: Any, update: Any, table: Any) -> Any:
        def noting(counts: Any, rng: Any) -> Any:
            sampler.check(counts)  # refuses if the sampler is invalid: then nothing enters
            table[...] += counts
            self.owed[sampler.cost] += 1  # what this update costs, None where it is paid for
            return update(counts, rng)

        return noting

    def check(self, told: Any) -> None:
        assert (self.entered[0] <= told).all(), "a step is in two draws"
        assert (self.entered[1].sum(axis=-1) <= told.sum(axis=-1)).all(), "a reward is in two"
        owed = RdpAccountant(orders=FEW)
        for cost, times in self.owed.items():
            if cost is not None:
                owed.compose(cost, times)
        assert (self.agent.accountant.rdp >= owed.rdp * (1 - 1e-9)).all(), "a release is unpaid"


EPISODES = [
    [(0, 0, 1), (1, 0, 2), (2, 0, 2), (2, 1, 0)],
    [(0, 1, 0), (0, 0, 0), (0, 1, 2), (2, 0, 1)],
    [(1, 1, 1), (1, 0, 0), (0, 1, 1)],
    [(2, 1, 2)],
]


def tell_steps(agent: TabularAgent, episode: list[Any], told: Any) -> list[Callable[[], Any]]:
    def one(state: int, action: int, following: int) -> Callable[[], Any]:
        return lambda: agent.observe(Transition(state, action, 1.0, following))

    for cell in episode:
        told[cell] += 1
    return [one(*cell) for cell in episode]


def tell_counts(agent: TabularAgent, episode: list[Any], told: Any) -> list[Callable[[], Any]]:
    counts = np.zeros((S, A, S), np.int64)
    for cell in episode:
        counts[cell] += 1
    told += counts
    return [lambda: agent.observe_counts(counts, np.ones((S, A, 1)))]


def tell_episodes(agent: TabularAgent, episode: list[Any], told: Any) -> list[Callable[[], Any]]:
    for cell in episode:
        told[cell] += 1
    state, action, following = np.array(episode).T[:, :, None]
    yes = np.ones(state.shape, bool)
    return [
        lambda: agent.observe_steps(
            state, action, np.ones(state.shape), following, observed=yes, terminated=~yes
        )
    ]


def lives(make: Any, tell: Any, first: Interrupter) -> None:
    """Live through the episodes; the second draw, and what is told before it, are interrupted."""
    agent, told = make(), np.zeros((S, A, S))
    journal = Journal(agent)
    agent.begin_episode(0)
    for number, episode in enumerate(EPISODES):
        for call in [*tell(agent, episode, told), lambda n=number: agent.begin_episode(n + 1)]:
            try:
                if number == 0:
                    first(call)
                else:
                    call()
            except ValueError as error:  # refusing is always allowed
                assert any(  # noqa: PT017 # which refusals there may be
                    words in str(error)
                    for words in ("failed midway", "state must be the next_state", "at most 4")
                )
    journal.check(told)


AGENTS = {
    "noisy": noisy,
    "windowed": lambda: dirichlet(2),
    "every draw": lambda: dirichlet(None),
}
TELLS = {"steps": tell_steps, "counts": tell_counts, "episodes": tell_episodes}


def test_what_is_watched_is_there() -> None:
    """A module that has moved would be watched no more, and nobody would notice."""
    for module in TELLING + RELEASING + SPENDING:
        assert Path(privrl.__file__).parent.joinpath(module).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
@pytest.mark.parametrize("tell", TELLS.values(), ids=TELLS)
def test_an_interrupt_at_any_line_duplicates_nothing(make: Any, tell: Any) -> None:
    modules = TELLING + RELEASING + SPENDING
    whole = Interrupter(None, modules, instructions=False)
    lives(make, tell, whole)
    assert whole.seen > 50
    for at in range(1, whole.seen + 1):
        lives(make, tell, Interrupter(at, modules, instructions=False))


@pytest.mark.slow  # between lines it is done each time
@pytest.mark.parametrize("tell", TELLS.values(), ids=TELLS)
def test_an_interrupt_between_any_two_instructions_of_an_agent(tell: Any) -> None:
    modules = TELLING
    whole = Interrupter(None, modules, instructions=True)
    lives(noisy, tell, whole)
    for at in range(1, whole.seen + 1):
        lives(noisy, tell, Interrupter(at, modules, instructions=True))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [ApproxDP(5.0, 1e-5), RenyiDP(2, 5.0), None], ids=str)
def test_an_accountant_that_is_interrupted_never_says_too_little(budget: Any) -> None:
    """What was drawn after an interrupted charge is in the sum, or the accountant refuses."""

    def lived(interrupter: Interrupter, which: int) -> None:
        accountant = RdpAccountant(budget=budget, orders=FEW)
        batch, rng = np.ones((2, 3)), np.random.default_rng(0)
        # Of samplers that are not used again: those of a draw that was interrupted refuse.
        draws = [
            [(Diffuse(weight=weight), batch) for weight in weights]
            for weights in ((0.01, 0.02), (0.02,), (0.03,), (0.02,), (0.01, 0.03))
        ]
        owed, done, written = RdpAccountant(orders=FEW), 0, Counter[Any]()
        for number, updates in enumerate(draws):

            def call(updates: Any = updates) -> None:
                draw(accountant, updates, rng)

            interrupted = interrupter(call) if number == which else call()
            if not interrupted:
                for sampler, _ in updates:
                    owed.compose(sampler.cost)
                done += 1
                written[together([sampler.cost for sampler, _ in updates])] += 1
        assert done >= 4
        assert (accountant.rdp >= owed.rdp * (1 - 1e-9)).all()
        assert accountant.epsilon(1e-5) >= owed.epsilon(1e-5) * (1 - 1e-9)
        # The one that was interrupted may be in it or not; all others are, as they were.
        in_journal = Counter[Any]()
        for entry in accountant.journal:
            in_journal[entry.cost] += entry.count
        assert written <= in_journal
        assert in_journal.total() <= len(draws)

    for which in (2, 4):  # another than the last one, and several
        whole = Interrupter(None, SPENDING, instructions=True)
        lived(whole, which)
        for at in range(1, whole.seen + 1):
            lived(Interrupter(at, SPENDING, instructions=True), which)


@pytest.mark.slow
@pytest.mark.parametrize("look", [lambda each: each.rdp, lambda each: each.epsilon(1e-5)])
def test_no_charge_is_lost_after_an_interrupted_look(look: Callable[[RdpAccountant], Any]) -> None:
    """Equal charges are one entry until they are summed, however far that came."""
    cost = Diffuse(weight=0.01).cost
    truth = RdpAccountant(orders=FEW)
    truth.compose(cost, 3)

    def charged(interrupter: Interrupter) -> RdpAccountant:
        accountant = RdpAccountant(orders=FEW)
        accountant.compose(cost)
        interrupter(lambda: look(accountant))
        accountant.compose(cost)
        accountant.compose(cost)
        return accountant

    whole = Interrupter(None, SPENDING, instructions=True)
    charged(whole)
    assert whole.seen > 100
    for at in range(1, whole.seen + 1):
        accountant = charged(Interrupter(at, SPENDING, instructions=True))
        assert (accountant.rdp >= truth.rdp * (1 - 1e-9)).all(), at
