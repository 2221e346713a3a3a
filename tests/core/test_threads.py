"""Threads that share an accountant or a sampler: to check and to charge is one step.

Interleavings are made likely: threads start together and are switched every microsecond, and the
costs here let others go on while they are worked out. Without the lock every test fails.
"""

import copy
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from made import agent_of

from privrl.accounting import ApproxDP, BudgetExceeded, PldAccountant, RdpAccountant, RenyiDP
from privrl.accounting.journal import KeepsJournal
from privrl.agents import PSRL, KnownRewards
from privrl.costs import Cost, GaussianCost, ReplaceRecord
from privrl.costs.noise import GaussianBulk
from privrl.costs.relations import Relation
from privrl.numerics.randomness import secret_rng
from privrl.samplers import Diffuse, draw

THREADS = 8
RECORD = ReplaceRecord()


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@dataclass(frozen=True)
class Slow(GaussianCost):
    """While it is worked out, other threads go on."""

    def rdp(self, orders):
        time.sleep(1e-4)
        return super().rdp(orders)

    def epsilon(self, delta):
        time.sleep(1e-4)
        return super().epsilon(delta)


class SlowBulk(GaussianBulk):
    """While many at once are worked out, other threads go on."""

    def rdp(self, numbers, orders):
        time.sleep(1e-4)
        return super().rdp(numbers, orders)

    def numbers(self, cost):
        time.sleep(1e-4)
        return super().numbers(cost)

    def __deepcopy__(self, memo):
        time.sleep(1e-3)
        return self


@dataclass(frozen=True)
class SlowTogether(GaussianCost):
    """Of known kind, so that it waits with others."""

    def bulk(self):
        return SlowBulk(self.changes)


@dataclass(frozen=True)
class Unknown:
    """A user's own cost, of no kind that the accountant knows."""

    price: float = 1.0
    relation: Relation = RECORD

    def rdp(self, orders):
        time.sleep(1e-4)
        return np.full(np.shape(orders), self.price)

    def delta(self, epsilon):
        return np.ones(np.shape(epsilon))

    def epsilon(self, delta):
        return np.full(np.shape(delta), np.inf)


def at_once(call: Callable[[], Any], times: int = 1) -> int:
    """Make a call in each of several threads, so many times; return how often none refused."""
    start, done, wrong = threading.Barrier(THREADS), [], []

    def work() -> None:
        start.wait()
        for _ in range(times):
            try:
                call()
            except BudgetExceeded:
                continue
            except Exception as error:  # told to the test's own thread
                wrong.append(error)
                return
            done.append(1)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not any(each.is_alive() for each in threads)
    assert not wrong, wrong
    return len(done)


def test_no_more_of_unknown_costs_than_the_budget() -> None:
    for _ in range(5):
        accountant = RdpAccountant(orders=[2.0], budget=RenyiDP(2.0, 10.0))
        assert at_once(lambda: accountant.compose(Unknown()), 3) == 10  # noqa: B023 # runs now
        assert float(accountant.spent(2.0)) == 10.0
        assert sum(entry.count for entry in accountant.journal) == 10


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", [GaussianCost, Slow, SlowTogether])
def test_no_more_of_known_costs_than_the_budget(kind: type[GaussianCost]) -> None:
    cost = kind(sigma=1.0, relation=RECORD)
    price = float(cost.rdp(np.array([2.0]))[0])
    for _ in range(10):
        accountant = RdpAccountant(budget=RenyiDP(2.0, 100.5 * price))
        assert at_once(lambda: accountant.compose(cost), 20) == 100  # noqa: B023
        assert float(accountant.spent(2.0)) == pytest.approx(100 * price, rel=1e-9)


@pytest.mark.slow
def test_nothing_that_was_charged_is_lost() -> None:
    cost = Slow(sigma=30.0, relation=RECORD)
    accountant = PldAccountant(budget=ApproxDP(1e3, 1e-6))
    made = at_once(lambda: accountant.compose(cost), 4)
    one_by_one = PldAccountant()
    one_by_one.compose(cost, made)
    assert made == 4 * THREADS
    assert float(accountant.epsilon(1e-6)) == float(one_by_one.epsilon(1e-6))


def test_looking_while_others_charge_changes_nothing() -> None:
    accountant = RdpAccountant(orders=[2.0, 4.0], budget=RenyiDP(2.0, 1e9))
    costs = [SlowTogether(sigma=1.0 + i, relation=RECORD) for i in range(50)]

    def charge() -> None:
        for cost in costs:
            accountant.compose(cost)

    def look() -> None:
        assert accountant.epsilon(1e-6) > 0
        accountant.compose(costs[0])
        assert "Journal" in repr(accountant.journal)

    at_once(charge)
    at_once(look)
    alone = RdpAccountant(orders=[2.0, 4.0])
    for cost in costs:
        alone.compose(cost, THREADS)
    alone.compose(costs[0], THREADS)
    assert accountant.rdp == pytest.approx(alone.rdp, rel=1e-12)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
@pytest.mark.parametrize("make", [RdpAccountant, PldAccountant])
def test_copies_have_a_lock_of_their_own(
    again: Callable[[Any], Any], make: Callable[[], Any]
) -> None:
    one, cost = make(), GaussianCost(sigma=3.0, relation=RECORD)
    one.compose(cost, 2)
    other = again(one)
    with one._lock:  # as while another thread charges it
        thread = threading.Thread(target=other.compose, args=(cost,))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    assert [each.journal[0].count for each in (one, other)] == [2, 3]
    assert other.epsilon(1e-6) > one.epsilon(1e-6)


def test_a_copy_is_of_one_moment() -> None:
    accountant = RdpAccountant(orders=[2.0])
    kinds: list[Cost] = [SlowTogether(sigma=1.0 + i, relation=RECORD) for i in range(2)]
    prices = [float(kind.rdp(np.array([2.0]))[0]) for kind in kinds]

    def charge() -> None:
        for _ in range(50):
            for kind in kinds:
                accountant.compose(kind)
            time.sleep(1e-3)  # a lock goes to who is awake

    thread = threading.Thread(target=charge)
    thread.start()
    copies = []
    while thread.is_alive():
        copies.append(accountant.__getstate__())
    assert len(copies) > 5
    for state in copies[:: 1 + len(copies) // 100]:
        other = RdpAccountant()
        other.__setstate__(state)
        told = sum(entry.count * prices[kinds.index(entry.cost)] for entry in other.journal)
        assert float(other.spent(2.0)) == pytest.approx(told, rel=1e-12)


def test_a_charge_waits_until_a_copy_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the journal has been copied, and what is spent has not."""
    accountant = RdpAccountant(orders=[2.0])
    cost = GaussianCost(sigma=1.0, relation=RECORD)
    thread = threading.Thread(target=accountant.compose, args=[cost])
    whole = KeepsJournal.__copy__

    def interrupted(self):
        other = whole(self)
        thread.start()
        thread.join(0.3)
        return other

    monkeypatch.setattr(KeepsJournal, "__copy__", interrupted)
    other = copy.copy(accountant)
    thread.join(60)
    assert not thread.is_alive()
    assert len(other.journal) == 0
    assert float(other.spent(2.0)) == 0
    assert len(accountant.journal) == 1


class Once:
    """A sampler of a user's own that may be updated once."""

    def __init__(self) -> None:
        self.updates, self.cost = 0, GaussianCost(sigma=1.0, relation=RECORD)

    def fresh(self):
        return Once()

    def check(self, counts):
        if self.updates:
            raise BudgetExceeded("it was updated")
        time.sleep(1e-3)

    def invalidate(self):
        self.updates = 1

    def update(self, counts, rng):
        self.updates += 1


def test_a_sampler_is_checked_and_updated_in_one_step() -> None:
    for _ in range(5):
        sampler, accountant = Once(), RdpAccountant()
        rng = np.random.default_rng(0)
        made = at_once(lambda: draw(accountant, [(sampler, np.zeros(2))], rng))  # noqa: B023
        assert (made, sampler.updates, accountant.journal[0].count) == (1, 1, 1)


class Noted(Diffuse):
    """A sampler that notes the beginning of the random numbers of each draw, and its records."""

    noted: ClassVar[list[bytes]] = []
    drawn: ClassVar[list[float]] = []

    def check(self, counts):
        super().check(counts)
        time.sleep(1e-4)

    def update(self, counts, rng):
        state = rng.bit_generator.state
        self.noted.append(rng.bytes(16))
        self.drawn.append(float(counts.sum()))
        rng.bit_generator.state = state
        return super().update(counts, rng)


def noted(agent: type[PSRL] = PSRL) -> PSRL:
    Noted.noted.clear()
    Noted.drawn.clear()
    rewards = KnownRewards(np.zeros((3, 2)))
    return agent_of(agent, 3, 2, 4, sampler=Noted(), rewards=rewards, rng=secret_rng())


class Slowly(PSRL):
    """In one thread, when it has taken its records, it waits for another's draw."""

    other_drew = threading.Event()

    def _nothing(self):
        if threading.current_thread().name == "slow":
            self.other_drew.wait(1.0)
        return super()._nothing()


@pytest.mark.slow
def test_two_draws_of_one_agent_share_neither_noise_nor_records() -> None:
    agent = noted(Slowly)
    Slowly.other_drew.clear()
    agent.observe_counts(np.ones((3, 2, 3), np.int64), np.zeros((3, 2, 1)))
    slow = threading.Thread(target=agent.begin_episode, args=(0,), name="slow")
    slow.start()
    time.sleep(0.1)
    agent.begin_episode(1)
    Slowly.other_drew.set()
    slow.join(30)
    assert agent.draws == len(Noted.noted) == len(set(Noted.noted)) == 2
    assert sorted(Noted.drawn) == [0, 18]


def test_after_an_interrupt_there_is_new_noise_or_none() -> None:
    """Wherever it comes: the draw may have been seen, and its noise is not for another."""
    refused = 0
    for line in range(60):
        agent, left = noted(), [line]

        def trace(frame, event, _, left=left):
            # Not where the lock of all draws is taken: no signal comes between body and end of
            # a with statement, and threads of other tests wait for it.
            if frame.f_code.co_name not in ("begin_episode", "_begin_episode", "_pay", "update"):
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            agent.begin_episode(0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        try:
            agent.begin_episode(1)
        except ValueError:
            assert agent._half_done == "a draw"
            refused += 1
        assert len(set(Noted.noted)) == len(Noted.noted)
    assert refused > 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_draws_can_draw() -> None:
    stop = threading.Event()

    def one(seed: int) -> None:
        sampler = Diffuse(weight=1.0, alpha=1.0, relation=RECORD)
        draw(RdpAccountant(), [(sampler, np.ones(4))], np.random.default_rng(seed))

    def work() -> None:
        while not stop.is_set():
            one(1)
            time.sleep(1e-4)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                with suppress(BaseException):
                    one(2)
                    os._exit(0)
                os._exit(1)
            ends = time.monotonic() + 20
            while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < ends:
                time.sleep(1e-3)
            if not ended[0]:
                os.kill(child, 9)
                os.waitpid(child, 0)
            assert ended == (child, 0)
    finally:
        stop.set()
        thread.join()
