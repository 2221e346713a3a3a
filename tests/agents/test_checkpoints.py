"""Checkpoints: what goes on is what would have gone on, and nobody goes on from one twice."""

import hashlib
import json
import os
import shutil
import sqlite3
import stat
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pytest
from made import agent_of, task_of

from privrl import secret_rng
from privrl.accounting import (
    ApproxDP,
    Budget,
    BudgetExceeded,
    Ledger,
    LedgerError,
    PureDP,
    RdpAccountant,
    RenyiDP,
)
from privrl.agents import (
    PSRL,
    Checkpoint,
    KnownRewards,
    NoisyRewards,
    QLearning,
    TabularAgent,
    Transition,
    checkpoints,
)
from privrl.agents.methods import SAMPLERS, Method, Task, make_agent
from privrl.costs import ReplaceStep
from privrl.costs.base import Cost
from privrl.envs import riverswim
from privrl.envs.support import Support
from privrl.files.states import Snapshot, pack, unpack
from privrl.mechanisms import NoisyPosteriorMechanism, select_private
from privrl.numerics.randomness import SECRET, randomness_of
from privrl.samplers import Diffuse, NoisyCounts
from privrl.samplers.base import PaidSampler
from privrl.samplers.factorisations import LocalNoise, factorise

EPISODES = 24
MDP = riverswim(n_states=3, horizon=4)
TASK = task_of(MDP, EPISODES, best_policy=MDP.plan()[0])
FULL = Support.from_mask(np.ones((3, 2, 3), np.bool_))
METHODS = [
    *(Method(sampler=name, schedule="every-episode") for name in SAMPLERS),
    *(
        Method(agent=name)
        for name in ("ucbvi", "dp-ucbvi", "rlsvi", "explore-then-plan", "oracle", "random")
    ),
    Method(agent="sparse-psrl"),
    Method(agent="sparse-psrl", sampler="noisy-counts", schedule="geometric:2"),
    Method(rewards="known"),
    Method(rewards="beta"),
    Method(sampler="diffuse", window=2, schedule="every-episode"),
    Method(sampler="concentrated", window=1, schedule="every-episode"),
]


def made(method: Method, task: Task = TASK, runs: int | None = None) -> TabularAgent:
    budget = RenyiDP(2, 0.8) if method.is_private else None
    options = {} if runs is None else {"runs": runs}
    return make_agent(method, task, [budget], np.random.default_rng(0), **options)


def learn(agent: TabularAgent, first: int, last: int, seed: int = 0) -> None:
    """Episodes that follow from their number, and from what the agent does in them."""
    for episode in range(first, last):
        agent.begin_episode(episode)
        rng = np.random.default_rng([seed, episode])
        if agent.batch_shape:
            counts = MDP.rollout_counts(agent.behaviour, 3, rng, free=agent.free)
            agent.observe_counts(counts, MDP.reward_table)
            continue
        state = 0
        for step in range(agent.horizon):
            action = agent.act(state, step)
            following = int(rng.integers(3))
            agent.observe(Transition(state, action, float(following == 2), following))
            state = following


def state_of(agent: TabularAgent) -> str:
    """All that an agent remembers, and what it was charged, but for the times."""
    taken = Snapshot(checkpoints._relations(agent))
    tree = taken.inside(agent)
    heads, data = pack(taken.arrays)
    entries = [(repr(entry.cost), entry.count) for entry in agent.accountant.journal]
    spent = [] if not entries else np.asarray(agent.accountant.epsilon(1e-5)).tolist()
    return json.dumps([tree, heads, data.hex(), entries, spent])


@pytest.mark.few(48)
@pytest.mark.parametrize("runs", [None, 2])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_what_goes_on_from_a_checkpoint_is_what_would_have(method, runs, tmp_path) -> None:
    agent, other = made(method, runs=runs), made(method, runs=runs)
    learn(agent, 0, EPISODES // 2)
    agent.save(tmp_path / "agent")
    other.load(tmp_path / "agent")
    assert state_of(other) == state_of(agent)
    for each in (agent, other):
        learn(each, EPISODES // 2, EPISODES)
    assert state_of(other) == state_of(agent)
    np.testing.assert_array_equal(other.policy, agent.policy)
    np.testing.assert_array_equal(other.behaviour, agent.behaviour)


def test_a_chosen_agent_is_not_saved(tmp_path) -> None:
    """The policy of what was restored from it would state the cost of its trial."""
    agent = secretly(Ledger(tmp_path / "ledger.sqlite"))
    select_private({"it": lambda _: (agent, 0.0)}, target=PureDP(1.0), trials=1)
    with pytest.raises(ValueError, match="chosen among several"):
        agent.save(tmp_path / "agent.private")
    with pytest.raises(ValueError, match="chosen among several"):
        agent.learn(2, env=MDP, checkpoint=Checkpoint(path=tmp_path / "a.private", episodes=1))
    assert not list(tmp_path.glob("*.private"))


@pytest.mark.few(5)
@pytest.mark.parametrize("steps", range(5))
def test_it_may_be_in_the_middle_of_an_episode(steps: int, tmp_path) -> None:
    method = Method(agent="sparse-psrl")
    agent, other = made(method), made(method)
    learn(agent, 0, 10)
    agent.begin_episode(10)
    seen = [Transition(0, 1, 0.0, 1), Transition(1, 1, 0.0, 2), Transition(2, 0, 0.5, 1)] * 2
    for each in seen[:steps]:
        agent.observe(replaced(each, agent))
    agent.save(tmp_path / "agent")
    other.load(tmp_path / "agent")
    assert state_of(other) == state_of(agent)
    assert other._step == steps
    if steps == agent.horizon:
        with pytest.raises(ValueError, match="at most 4 steps"):
            other.observe(Transition(other._here, 0, 0.0, 1))


def replaced(seen: Transition, agent: TabularAgent) -> Transition:
    """A step that begins where the one before it ended."""
    state = agent._here if agent._here >= 0 else 0
    return seen._replace(state=state)


@pytest.mark.few(6)
@pytest.mark.parametrize("terminates", [False, True])
def test_ends_are_settings(terminates: bool, tmp_path) -> None:
    task = replace(TASK, terminates=terminates)
    agent, other = made(Method(), task), made(Method(), task)
    learn(agent, 0, 5)
    agent.save(tmp_path / "agent")
    other.load(tmp_path / "agent")
    assert state_of(other) == state_of(agent)
    with pytest.raises(ValueError, match="other settings"):
        made(Method(), replace(TASK, terminates=not terminates)).load(tmp_path / "agent")


@pytest.mark.few(12)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_settings_do_not_change_in_use(method: Method) -> None:
    """An attribute that changes and is not remembered would be lost: it counts as a setting."""
    agent = made(method)
    before = checkpoints._settings(agent)
    learn(agent, 0, EPISODES)
    _ = agent.policy
    assert checkpoints._settings(agent) == before


def check_resumed(path, agent, other, episodes: int) -> None:
    """Another agent that is loaded half-way ends as the one that was saved."""
    learn(agent, 0, episodes)
    agent.save(path)
    other.load(path)
    for each in (agent, other):
        learn(each, episodes, 2 * episodes)
    assert state_of(other) == state_of(agent)


def test_q_learning_is_saved_too(tmp_path) -> None:
    def q() -> QLearning:
        return agent_of(QLearning, 3, 2, 4, episodes=20, rng=np.random.default_rng(1))

    check_resumed(tmp_path / "agent", q(), q(), 10)


def agent_with(**changed) -> PSRL:
    options = {
        "sampler": NoisyCounts(sigma=2.0, updates=9),
        "rewards": KnownRewards(MDP.expected_reward),
        "accountant": RdpAccountant(budget=RenyiDP(2, 5.0)),
        "rng": np.random.default_rng(0),
    }
    return agent_of(PSRL, 3, 2, 4, **(options | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"sampler": NoisyCounts(sigma=1.9, updates=9)},
        {"sampler": NoisyCounts(sigma=2.0, updates=9, alpha=2.0)},
        {"sampler": NoisyCounts(sigma=2.0, updates=9, factorisation="tree")},
        {"sampler": NoisyCounts(sigma=2.0, updates=3, factorisation=LocalNoise((1, 1, 1)))},
        {"sampler": Diffuse()},
        {"rewards": KnownRewards(MDP.expected_reward + 1)},
        {"accountant": RdpAccountant(budget=RenyiDP(2, 6.0))},
        {"accountant": RdpAccountant(budget=ApproxDP(2, 1e-5))},
        {"rng": np.random.Generator(np.random.Philox(0))},
        {"rng": secret_rng()},
        {"known_rows": np.full((3, 2, 3), 1 / 3)},
        {"batch_shape": (1,)},
        {"support": FULL},
    ],
)
def test_another_setting_is_refused_and_nothing_is_done(changed, tmp_path) -> None:
    agent = agent_with()
    learn(agent, 0, 3)
    agent.save(tmp_path / "agent")
    other = agent_with(**changed)
    before = state_of(other)
    with pytest.raises(ValueError, match="other settings"):
        other.load(tmp_path / "agent")
    assert state_of(other) == before
    agent_with().load(tmp_path / "agent")


def test_only_an_unused_agent_goes_on(tmp_path) -> None:
    agent = agent_with()
    agent.save(tmp_path / "agent")
    learn(agent, 0, 1)
    with pytest.raises(ValueError, match="unused agent"):
        agent.load(tmp_path / "agent")
    charged = agent_with()
    charged.accountant.compose(charged.sampler.cost)
    with pytest.raises(ValueError, match="nothing was charged to yet"):
        charged.load(tmp_path / "agent")


def test_it_is_for_its_owner_alone_and_says_so(tmp_path) -> None:
    path = tmp_path / "agent"
    path.write_bytes(b"old")
    path.chmod(0o644)
    agent_with().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"privrl checkpoint, NOT PRIVATE: it holds raw counts")
    assert os.listdir(tmp_path) == ["agent"]


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch) -> None:
    agent, path = agent_with(), tmp_path / "agent"
    agent.save(path)
    before = path.read_bytes()
    learn(agent, 0, 2)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        agent.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["agent"]


@pytest.mark.slow
def test_every_damage_is_seen(tmp_path) -> None:
    agent, path = agent_with(), tmp_path / "agent"
    learn(agent, 0, 3)
    agent.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(content), size=300):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged|no checkpoint"):
            agent_with().load(path)
    for length in rng.integers(len(content), size=50):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"damaged|no checkpoint"):
            agent_with().load(path)


@pytest.mark.parametrize("missing", ["settings", "tree", "draws", "arrays"])
def test_a_right_digest_of_something_else_is_refused(tmp_path, missing) -> None:
    agent, path = agent_with(), tmp_path / "agent"
    agent.save(path)
    title, _, body = path.read_bytes().split(b"\n", 2)
    text, _, numbers = body.partition(b"\n")
    head = json.loads(text)
    del head[missing]
    body = json.dumps(head).encode() + b"\n" + numbers
    path.write_bytes(title + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(ValueError, match="no checkpoint"):
        agent_with().load(path)


def test_other_versions_are_refused_by_name(tmp_path, monkeypatch) -> None:
    agent_with().save(tmp_path / "agent")
    now = checkpoints._versions()
    monkeypatch.setattr(checkpoints, "_versions", lambda: now | {"randomgen": "9.9"})
    with pytest.raises(ValueError, match=r"randomgen 9\.9"):
        agent_with().load(tmp_path / "agent")


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        {},
        {"agent": 1},
        {"agent": {"type": "PSRL", "inside": {"__class__": 1}}},
        {"agent": {"type": "PSRL", "inside": {}}},
        {"agent": {"type": "Other", "inside": {}}},
    ],
)
def test_what_nobody_saved_is_refused_and_the_agent_spoiled(tree, tmp_path) -> None:
    """A planted file makes no object but those of the list, and sets no attribute but those."""
    path = tmp_path / "agent"
    agent_with().save(path)
    title, _, body = path.read_bytes().split(b"\n", 2)
    text, data = body.split(b"\n", 1)
    head = json.loads(text)
    head["tree"] = tree if not isinstance(tree, dict) else head["tree"] | tree
    if tree is not None and not tree:
        head["tree"] = tree
    body = json.dumps(head).encode() + b"\n" + data
    path.write_bytes(title + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(ValueError, match=r"no checkpoint|is not"):
        agent_with().load(path)


def test_arrays_are_within_the_file() -> None:
    array = np.arange(3.0)
    heads, data = pack([array])
    np.testing.assert_array_equal(unpack(heads, data)[0], array)
    for wrong in ([["<f8", [2]]], [["<f8", [10**12]]], [["|O", [3]]], [["<f8", [-1]]]):
        with pytest.raises(ValueError, match="array"):
            unpack(wrong, data)


class Plain:
    """A custom sampler that does not declare its state."""

    def __init__(self) -> None:
        self.inner = NoisyCounts(sigma=2.0, updates=9)

    cost = property(lambda self: self.inner.cost)

    def fresh(self) -> Self:
        return type(self)()

    def check(self, counts) -> None:
        self.inner.check(counts)

    def invalidate(self) -> None:
        self.inner.invalidate()

    def update(self, counts, rng):
        return self.inner.update(counts, rng)


def test_what_cannot_be_saved_is_named(tmp_path) -> None:
    class Own(NoisyCounts):
        def __init__(self) -> None:
            super().__init__(sigma=2.0, updates=9)
            self.loose = object()

    agent_with(sampler=Own()).save(tmp_path / "own")
    with pytest.raises(ValueError, match="Plain cannot be saved"):
        agent_with(sampler=Plain()).save(tmp_path / "plain")
    assert os.listdir(tmp_path) == ["own"]


class Mine(Plain):
    """A custom sampler that declares its state."""

    remembered = ("inner",)


def test_a_sampler_of_ones_own_is_saved_if_it_says_how(tmp_path) -> None:
    check_resumed(tmp_path / "agent", *(agent_with(sampler=Mine()) for _ in range(2)), 4)


class Forgetful(PaidSampler):
    """All counts so far with fresh noise, as on the page about own samplers; they are not named."""

    def __init__(self, table: str = "transitions") -> None:
        self._mechanism = NoisyPosteriorMechanism.calibrated(
            RenyiDP(2, 0.6),
            noise="discrete_gaussian",
            alpha=0.5,
            count=9,
            table=table,
            relation=ReplaceStep(),
        )
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._total: np.ndarray | float = 0.0

    @property
    def cost(self) -> Cost:
        return self._mechanism.cost

    def check(self, counts) -> None:
        self.check_usable()
        self._mechanism.check(counts)

    def update(self, counts, rng):
        self._total = self._total + counts
        self._done += 1
        return self._mechanism.release(self._total, rng)


class Afresh(Forgetful):
    remembered = ("_total",)


class InASlot(Forgetful):
    """As `Forgetful`; its sums are in no dictionary of attributes."""

    __slots__ = ("_total",)


class InOneSlot(Forgetful):
    __slots__ = "_total"  # noqa: PLC0205 # which Python takes for one name


class Counting(KnownRewards):
    """A reward model that changes, and says so to nobody."""

    def encode(self, reward, stays, rng):
        self.seen = getattr(self, "seen", 0) + 1
        return super().encode(reward, stays, rng)

    def fresh(self) -> Self:
        return type(self)(self._reward)


@dataclass(frozen=True)
class Own:
    """A posterior that is not one of privrl's."""

    mean: np.ndarray

    def sample(self, rng) -> np.ndarray:
        del rng
        return self.mean


class ReleasesItsOwn(Afresh):
    def update(self, counts, rng):
        return Own(super().update(counts, rng).mean)


class SaysSo(ReleasesItsOwn):
    released_as = (Own,)


def test_what_cannot_be_loaded_is_not_saved(tmp_path) -> None:
    check_resumed(tmp_path / "agent", *(agent_with(sampler=SaysSo()) for _ in range(2)), 3)
    agent = agent_with(sampler=ReleasesItsOwn())
    learn(agent, 0, 3)
    with pytest.raises(ValueError, match=r"^Own cannot be saved: .* in a tuple `released_as`"):
        agent.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_sampler_of_sums_is_saved_with_them(book, tmp_path) -> None:
    agent, other = (secretly(book, sampler=Afresh()) for _ in range(2))
    learn(agent, 0, 3)
    agent.save(tmp_path / "agent", ledger=book)
    other.load(tmp_path / "agent", ledger=book)
    np.testing.assert_array_equal(other.sampler._total, agent.sampler._total)
    for each in (agent, other):
        learn(each, 3, 6)
    assert state_of(other) == state_of(agent)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sampler": Forgetful()}, "^Forgetful cannot be saved: its attribute '_total' has"),
        (
            {"rewards": NoisyRewards(Forgetful("rewards"), low=0, high=1)},
            r"^NoisyRewards cannot be saved: its attribute '_sampler\._total' has changed",
        ),
        ({"sampler": InASlot()}, "^InASlot cannot be saved: its attribute '_total' has"),
        ({"sampler": InOneSlot()}, "^InOneSlot cannot be saved: its attribute '_total' has"),
        ({"rewards": Counting(MDP.expected_reward)}, "Counting cannot be saved: .* 'seen' has"),
    ],
)
def test_what_changed_and_is_not_remembered_is_refused(changed, said, book, tmp_path) -> None:
    """The run that went on had the same noise, on totals without those before."""
    agent = secretly(book, **changed)
    agent.save(tmp_path / "unused", ledger=book)
    learn(agent, 0, 3)
    with pytest.raises(ValueError, match=said):
        agent.save(tmp_path / "agent", ledger=book)
    assert not (tmp_path / "agent").exists()


# ---------------------------------------------------------------- who goes on twice


def secretly(ledger: Ledger, dataset: str | None = None, **changed) -> PSRL:
    accountant = RdpAccountant() if dataset is None else ledger.accountant(dataset)
    return agent_with(rng=secret_rng(), accountant=accountant, **changed)


@pytest.fixture
def book(tmp_path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_two_that_go_on_from_one_file_do_not_draw_of_other_data(book, tmp_path) -> None:
    agent, path = secretly(book), tmp_path / "agent"
    learn(agent, 0, 3)
    agent.save(path, ledger=book)
    learn(agent, 3, 5)
    other = secretly(book)
    other.load(path, ledger=book)
    with pytest.raises(LedgerError, match="restored twice"):
        learn(other, 3, 5, seed=1)
    spent = float(other.accountant.spent(2))
    assert spent == float(agent.accountant.spent(2))
    with pytest.raises(LedgerError, match="restored twice"):  # nor when it is asked once more
        other.begin_episode(5)


@pytest.mark.parametrize("other", [1, 3], ids=["same records", "others"])
@pytest.mark.parametrize("name", ["square-root", "buffered", "tree", "dirichlet"])
def test_beside_a_copy_of_the_ledger_draws_have_noise_of_their_own(
    name: str, other: int, book, tmp_path
) -> None:
    """The copy is of the moment of the checkpoint, and knows of no draw that was made since."""

    def make() -> PSRL:
        if name == "dirichlet":
            return agent_with(sampler=Diffuse(weight=0.1), rng=secret_rng())
        sampler = NoisyCounts(sigma=1000.0, updates=9, factorisation=name)
        return agent_with(sampler=sampler, rng=secret_rng())

    agent, path, copy = make(), tmp_path / "agent", tmp_path / "copy.sqlite"
    learn(agent, 0, 3)
    agent.save(path, ledger=book)
    assert not book.verify()[0]
    shutil.copy(book.path, copy)
    released = []
    for n in (1, other):
        went_on = make()
        went_on.load(path, ledger=Ledger(book.path))
        for episode in (3, 4):
            went_on.observe_counts(np.full((3, 2, 3), n), np.zeros((3, 2, 1)))
            went_on.begin_episode(episode)
        kept = went_on.released[0]
        released.append(kept.mean if name == "dirichlet" else kept.counts)
        shutil.copy(copy, book.path)
    apart = released[1] - released[0]
    if name != "dirichlet":  # the noise that they have in common is whole grains
        apart = apart - np.rint(apart)
    assert (apart != 0).all()


def test_noise_beside_a_copy_has_the_law_of_fresh_noise(book, tmp_path) -> None:
    """The variance of 18 cells over 24 runs, within 5 deviations: false alarms are below 1e-5."""
    agent, path, copy = agent_with(rng=secret_rng()), tmp_path / "agent", tmp_path / "copy.sqlite"
    learn(agent, 0, 1)
    agent.save(path, ledger=book)
    shutil.copy(book.path, copy)
    released = []
    for _ in range(24):
        went_on = agent_with(rng=secret_rng())
        went_on.load(path, ledger=Ledger(book.path))
        went_on.begin_episode(1)
        released.append(went_on.released[0].counts)
        shutil.copy(copy, book.path)
    factors = factorise("auto", 9)
    fresh = 2.0 * factors.column_norm * factors.fresh[1]
    spread = np.square((np.array(released) - np.mean(released, axis=0)) / fresh).sum()
    freedom = 23 * released[0].size
    assert abs(spread - freedom) < 5 * np.sqrt(2 * freedom)


def test_the_same_draw_is_made_again_and_paid_for_once(book, tmp_path) -> None:
    """Killed after a draw and before the next checkpoint: the draw comes out as it did."""
    book.set_budget("people", Budget(15.0, 1e-5))
    agent, path = secretly(book, "people"), tmp_path / "agent"
    agent.save(path, ledger=book)
    learn(agent, 0, 2)
    entries = len(book.entries())
    other = secretly(book, "people")
    other.load(path, ledger=book)
    learn(other, 0, 2)
    assert len(book.entries()) == entries
    np.testing.assert_array_equal(other.released[0].counts, agent.released[0].counts)
    # The accountant is a new one, and was told of no relation; it states what was spent.
    assert other.accountant.epsilon(1e-5) == agent.accountant.epsilon(1e-5) > 0
    assert [e.count for e in other.accountant.journal] == [
        e.count for e in agent.accountant.journal
    ]
    learn(other, 2, 4)
    with pytest.raises(LedgerError, match="restored twice"):
        learn(agent, 2, 4, seed=3)


def test_a_restored_agent_of_a_data_set_knows_what_it_was_charged(book, tmp_path) -> None:
    agent, path = secretly(book, "people"), tmp_path / "agent"
    learn(agent, 0, 3)
    agent.save(path, ledger=book)
    other = secretly(book, "people")
    other.load(path, ledger=book)
    assert str(other.accountant.journal) == str(agent.accountant.journal)
    assert other.accountant.relation == agent.accountant.relation
    assert float(other.accountant.epsilon(1e-5)) == float(agent.accountant.epsilon(1e-5))
    with pytest.raises(ValueError, match="other settings"):
        secretly(book, "others").load(path, ledger=book)


def test_another_ledger_is_refused(book, tmp_path) -> None:
    agent, path = secretly(book), tmp_path / "agent"
    agent.save(path, ledger=book)
    elsewhere = Ledger(tmp_path / "other.sqlite")
    with pytest.raises(ValueError, match="another ledger"):
        secretly(book).load(path, ledger=elsewhere)
    elsewhere.set_budget("people", Budget(1.0))
    with pytest.raises(ValueError, match="another ledger"):
        secretly(book).load(path, ledger=elsewhere)


def test_an_older_copy_of_the_ledger_is_refused(book, tmp_path) -> None:
    """It does not know which draws were made, and would let them be made again of other data."""
    agent, path, copy = secretly(book), tmp_path / "agent", tmp_path / "copy.sqlite"
    agent.save(path, ledger=book)
    with sqlite3.connect(book.path) as one, sqlite3.connect(copy) as other:
        one.backup(other)
    learn(agent, 0, 3)
    agent.save(path, ledger=book)
    learn(agent, 3, 4)
    with pytest.raises(ValueError, match="an older copy of the ledger"):
        secretly(book).load(path, ledger=Ledger(copy))
    secretly(book).load(path, ledger=book)


def test_an_accountant_of_another_ledger_is_refused(book, tmp_path) -> None:
    """There the data set has its whole budget still."""
    elsewhere, path = Ledger(tmp_path / "other.sqlite"), tmp_path / "agent"
    agent = secretly(book, "people")
    learn(agent, 0, 3)
    agent.save(path, ledger=book)
    with pytest.raises(ValueError, match="other settings"):
        secretly(elsewhere, "people").load(path, ledger=book)


def test_after_a_load_that_failed_the_agent_is_of_no_use(tmp_path) -> None:
    """Of no kind: samplers without privacy do not know what it is to be invalid."""
    path = tmp_path / "agent"
    kinds = [Method(sampler=name, schedule="every-episode") for name in SAMPLERS]
    for method in kinds:
        agent = made(method)
        learn(agent, 0, 3)
        agent.save(path)
        title, _, body = path.read_bytes().split(b"\n", 2)
        text, data = body.split(b"\n", 1)
        head = json.loads(text)
        head["tree"]["agent"]["inside"]["_released"] = {"made": "Nothing", "of": {}}
        body = json.dumps(head).encode() + b"\n" + data
        digest = hashlib.sha256(body).hexdigest().encode()
        path.write_bytes(title + b"\n" + digest + b"\n" + body)
        other = made(method)
        with pytest.raises(ValueError, match="no checkpoint"):
            other.load(path)
        with pytest.raises(ValueError, match="after a load that failed"):
            other.begin_episode(3)
        with pytest.raises(ValueError, match="after a load that failed"):
            other.save(path)


def test_a_ledger_that_cannot_be_written_loses_no_records(book, tmp_path, monkeypatch) -> None:
    """Nothing is drawn then; the records are in the draw after it is mended."""
    agent = secretly(book)
    agent.save(tmp_path / "agent", ledger=book)
    learn(agent, 0, 2)
    before = agent.draws

    def refuse(*_: object) -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "enter_draw", refuse)
        with pytest.raises(LedgerError):
            agent.begin_episode(2)
    assert agent.draws == before
    assert agent._new.steps or agent._new.counts.any()


def test_a_draw_has_numbers_of_its_own_whatever_came_before(book, tmp_path) -> None:
    """Who knows the random actions of a lost stretch learns nothing of the noise that follows."""
    agent, path = secretly(book), tmp_path / "agent"
    agent.save(path, ledger=book)
    released = []
    for wasted in (0, 1, 1000):
        other = secretly(book)
        other.load(path, ledger=book)
        other.rng.random(wasted)
        other.begin_episode(0)
        released.append(other.released[0].counts)
    np.testing.assert_array_equal(released[1], released[0])
    np.testing.assert_array_equal(released[2], released[0])
    assert randomness_of(agent._noise) == SECRET
    assert agent._noise is not agent.rng


def test_a_seeded_agent_makes_no_claim_and_enters_nothing(book, tmp_path) -> None:
    agent = agent_with()
    agent.save(tmp_path / "agent", ledger=book)
    learn(agent, 0, 2)
    assert not book.is_there


def test_draws_are_in_the_chain_of_the_ledger(book, tmp_path) -> None:
    agent = secretly(book)
    agent.save(tmp_path / "agent", ledger=book)
    learn(agent, 0, 3)
    assert book.verify()[0] == 3
    entries = book.entries()
    assert [entry["draw"] for entry in entries] == [0, 1, 2]  # type: ignore[index] # none was forgotten
    assert len({entry["digest"] for entry in entries}) == 3  # type: ignore[index] # none was forgotten


def test_a_number_is_entered_once(book) -> None:
    """Two processes may both have looked before one of them enters it."""
    nonces = {book.enter_draw("agent", 3, "one").nonce}
    for digest in ("one", "other"):
        with pytest.raises(LedgerError, match="made before"):
            Ledger(book.path).enter_draw("agent", 3, digest)
    nonces.add(book.enter_draw("agent", 4, "one").nonce)
    nonces.add(book.enter_draw("other agent", 3, "one").nonce)
    assert len(nonces) == 3
    assert book.drawn("agent", 3).digest == "one"
    assert book.drawn("agent", 5) is None


def test_what_a_charge_refuses_is_not_entered(book) -> None:
    def refuse() -> None:
        raise BudgetExceeded("too much")

    with pytest.raises(BudgetExceeded):
        book.enter_draw("agent", 3, "one", refuse)
    assert book.drawn("agent", 3) is None
    assert book.enter_draw("agent", 3, "other").digest == "other"


def test_a_draw_of_other_totals_is_refused(book, tmp_path) -> None:
    """Nothing new is in either draw: what was counted before them tells them apart."""

    def make() -> PSRL:
        return agent_with(sampler=Diffuse(weight=0.1), rng=secret_rng())

    agent, path = make(), tmp_path / "agent"
    agent.save(path, ledger=book)
    agent.observe_counts(np.ones((3, 2, 3), np.int64), np.zeros((3, 2, 1)))
    agent.begin_episode(0)
    agent.begin_episode(1)
    other = make()
    other.load(path, ledger=book)
    other._entered._number = 1  # as if a draw had been left out
    with pytest.raises(LedgerError, match="made before, from other data"):
        other.begin_episode(1)
    assert len(book.entries()) == 2


def test_a_draw_of_the_same_numbers_in_other_cells_is_refused(book, tmp_path) -> None:
    agent, path = secretly(book), tmp_path / "agent"
    agent.save(path, ledger=book)
    for cell in ((0, 0, 1), (2, 1, 0)):
        counts = np.zeros((3, 2, 3), np.int64)
        counts[cell] = 5
        other = secretly(book)
        other.load(path, ledger=book)
        other.observe_counts(counts, np.zeros((3, 2, 1)))
        if cell[0]:
            with pytest.raises(LedgerError, match="made before, from other data"):
                other.begin_episode(0)
        else:
            other.begin_episode(0)


def test_a_checkpoint_holds_no_noise_that_is_still_to_come(book, tmp_path) -> None:
    """Two that go on from it would both have that, whatever their records."""
    for name in ("square-root", "buffered"):
        sampler = NoisyCounts(sigma=2.0, updates=50, factorisation=name)
        agent = agent_with(sampler=sampler, rng=secret_rng())
        for done in range(1, 40):
            agent.begin_episode(done)
            noise = agent._sampler._noise
            if name == "buffered":
                assert not noise._ahead
            else:
                assert len(noise._drawn) + len(noise._recent) == done


def test_no_checkpoint_is_written_over_a_ledger(book, tmp_path) -> None:
    """What had been spent was lost, and with it the draws that the checkpoint speaks of."""
    agent = secretly(book)
    agent.begin_episode(0)
    with pytest.raises(ValueError, match="is a ledger, and what was spent would be lost"):
        agent.save(book.path, ledger=book)
    assert book.verify()
    agent.save(tmp_path / "agent", ledger=book)
    with pytest.raises(ValueError, match="is a ledger"):
        agent.to_policy().save(book.path)
    assert book.verify()
