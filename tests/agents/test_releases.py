"""A release is one transaction: whatever strikes at any line, no noise hides two data sets.

A tracer raises an exception at the n-th line of the library, for every n, while a checkpoint is
saved, loaded or gone on from. Afterwards everybody who can draws of other data. All that passed the
gate is compared: two releases are the same one, or have no noise in common. Noise that two releases
of counts have in common leaves a difference of whole numbers; rows of a Dirichlet draw that nobody
has counted in would be equal.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from interrupts import REFUSED, Interrupter
from made import agent_of

from privrl.accounting import Ledger, releases
from privrl.agents import PSRL, BetaRewards, HatRewards, KnownRewards, Transition
from privrl.costs.relations import ReplaceStep
from privrl.samplers import Diffuse, NoisyCounts
from privrl.samplers.noisy_counts import NoisyPosterior


class Gate:
    """See all that is charged and released."""

    def __init__(self) -> None:
        self.costs: list[Any] = []
        self.made: list[tuple[str, Any, np.ndarray, np.ndarray]] = []

    def charged(self, cost: Any) -> None:
        self.costs.append(cost)

    def released(self, who: Any, cost: Any, data: Any, rng: Any, draw: Any) -> Any:
        released = draw(data, rng)
        rows = getattr(released, "rows", released)  # of rewards
        values = getattr(rows, "counts", None)
        kind = "rows" if values is None else "counts"
        if data.size:  # known rewards are no release
            values = rows.mean if values is None else values
            self.made.append((f"{kind} of {type(who).__name__}", cost, data, values))
        return released

    def check(self) -> int:
        """Compare all releases; return how many pairs were different ones."""
        apart = 0
        for i, (kind, _, data, values) in enumerate(self.made):
            for other, _, theirs, others in self.made[:i]:
                if other != kind:
                    continue
                if np.array_equal(values, others):
                    assert np.array_equal(data, theirs), "one noise, and other data"
                    continue
                apart += 1
                shared = values - others == np.rint(values - others)
                if kind.startswith("rows"):
                    shared = (values == others).all(axis=-1)
                assert not shared.any(), "two releases have noise in common"
        return apart

    def check_paid(self, spent: int) -> None:
        """Check that so many charges pay for all different releases."""
        releases = {
            (kind, values.tobytes()) for kind, cost, _, values in self.made if cost is not None
        }
        for table in {kind for kind, _ in releases}:
            assert spent >= sum(kind == table for kind, _ in releases), "a release is unpaid"


Make = Callable[[Ledger], PSRL]
KNOWN = KnownRewards(np.zeros((2, 1)))


def noisy(name: str) -> Make:
    return lambda ledger: agent_of(
        PSRL,
        2,
        1,
        9,
        sampler=NoisyCounts(sigma=1000.0, updates=8, factorisation=name),
        rewards=KNOWN,
    )


def hats(ledger: Ledger) -> PSRL:
    rewards = HatRewards(NoisyCounts(sigma=1000.0, updates=8, table="rewards"), points=3)
    return agent_of(PSRL, 2, 1, 9, sampler=NoisyCounts(sigma=1000.0, updates=8), rewards=rewards)


def dirichlet(ledger: Ledger) -> PSRL:
    rewards = BetaRewards(Diffuse(weight=0.1, table="rewards"))
    return agent_of(
         PSRL, 2, 1, 9, sampler=Diffuse(weight=0.1), rewards=rewards,
        accountant=ledger.accountant("people", ReplaceStep()),
    )  # fmt: skip


MAKE: dict[str, Make] = {
    "square-root": noisy("square-root"),
    "buffered": noisy("buffered"),
    "hats": hats,
    "dirichlet": dirichlet,
}


def tell(agent: PSRL, state: int, times: int = 1) -> None:
    with suppress(*REFUSED):
        agent._begin()
        for _ in range(times):
            agent.observe(Transition(state, 0, 1.0, state))


def goes_on(agent: PSRL, episode: int, state: int, times: int) -> None:
    """Draw of these records, or be refused."""
    tell(agent, state, times)
    with suppress(*REFUSED):
        agent.begin_episode(episode)


class World:
    """A ledger, and a checkpoint of an agent that has drawn once."""

    def __init__(self, folder: Path, make: Make) -> None:
        self.folder, self.make, self.path = folder, make, folder / "checkpoint"
        self.ledger, self.before = Ledger(folder / "ledger.sqlite"), 0
        agent = self.new()
        agent.begin_episode(0)
        tell(agent, 0)
        agent.save(self.path, ledger=self.ledger)
        shutil.copy(self.ledger.path, folder / "copy")

    @property
    def spent(self) -> int:
        """How often something was charged to the ledger since the checkpoint, and its copies."""
        spends = [entry for entry in self.ledger.entries() if entry and entry["what"] == "spend"]
        return self.before + max(0, len(spends) - 1)

    def back(self) -> None:
        """Let the ledger be as it was at the checkpoint."""
        self.before = self.spent
        self.ledger = Ledger(self.folder / "ledger.sqlite")
        shutil.copy(self.folder / "copy", self.ledger.path)

    def new(self) -> PSRL:
        return self.make(self.ledger)

    def restored(self) -> PSRL:
        agent = self.new()
        agent.load(self.path, ledger=self.ledger)
        return agent


def draw_anew(world: World, first: Interrupter) -> None:
    """A draw that nobody has made; then others go on from the checkpoint.

    One has the same records, one has others, and one goes on beside the ledger as it was then.
    """
    agent = world.restored()
    tell(agent, 0)
    first(lambda: agent.begin_episode(1))
    goes_on(agent, 2, 1, 3)
    goes_on(world.restored(), 1, 0, 1)
    goes_on(world.restored(), 1, 1, 5)
    world.back()
    goes_on(world.restored(), 1, 1, 4)


def draw_again(world: World, first: Interrupter) -> None:
    """A draw that was made before, of the same records, and is made once more."""
    before = world.restored()
    goes_on(before, 1, 0, 1)
    draw_anew(world, first)


def load(world: World, first: Interrupter) -> None:
    """Another goes on from the checkpoint, and later beside the ledger as it was then."""
    agent, other = world.new(), world.restored()
    first(lambda: agent.load(world.path, ledger=world.ledger))
    goes_on(other, 1, 0, 4)
    goes_on(agent, 1, 1, 2)
    world.back()
    goes_on(agent, 1, 1, 1)
    goes_on(world.restored(), 1, 1, 3)


def save(world: World, first: Interrupter) -> None:
    """The first checkpoint of an agent, from which another goes on if it is there."""
    agent, path = world.new(), world.folder / "first"
    path.unlink(missing_ok=True)
    agent.begin_episode(0)
    first(lambda: agent.save(path, ledger=world.ledger))
    goes_on(agent, 1, 0, 4)
    other = world.new()
    if path.exists():
        other.load(path, ledger=world.ledger)
        goes_on(other, 1, 1, 2)
        goes_on(other, 2, 1, 2)


LIVES: dict[str, Callable[[World, Interrupter], None]] = {
    "anew": draw_anew,
    "again": draw_again,
    "load": load,
    "save": save,
}
#: Which life of which agent is interrupted at every line, and in how many parts: one of them is
#: fast enough for each run.
EVERYWHERE = [
    ("square-root", "again", 6),
    ("dirichlet", "anew", 20),
    ("buffered", "load", 6),
    ("buffered", "save", 6),
]
PARTS = [
    pytest.param(kind, life, nth, start, marks=[pytest.mark.slow] if start > 1 else [])
    for kind, life, nth in EVERYWHERE
    for start in range(1, nth + 1)
]


def interrupt_everywhere(
    folder: Path,
    kind: str,
    life: str,
    error: type[BaseException],
    *,
    each: bool,
    nth: int = 1,
    start: int = 1,
) -> None:
    world = World(folder, MAKE[kind])

    def lives(first: Interrupter) -> Gate:
        seen = Gate()
        world.back()
        world.before = 0
        with releases.watched_by(seen):
            LIVES[life](world, first)
        seen.check()
        if kind == "dirichlet":
            seen.check_paid(world.spent)
        return seen

    whole = Interrupter(None, each=each)
    assert lives(whole).made
    assert whole.seen > 100
    places = range(start, whole.seen + 1, nth)
    apart = sum(lives(Interrupter(at, error, each=each)).check() for at in places)
    assert apart > 10  # something could have been seen


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is such: thousands of entries wait for a disk for minutes."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="privrl-tests-") as name:
        yield Path(name)


# Where an interrupt strikes in tempfile or sqlite3, files are left for the collector of garbage.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Fails(NoisyCounts):
    """A sampler with a bug that does not always show."""

    shows: ClassVar[bool] = False

    def update(self, counts: np.ndarray, rng: np.random.Generator) -> NoisyPosterior:
        if self.shows:
            raise ValueError("a bug")
        return super().update(counts, rng)


def test_a_draw_made_again_that_fails_midway_counts_no_record_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge is in the ledger, so none is made; what was drawn before it failed is lost."""
    ledger = Ledger(folder / "ledger.sqlite")

    def agent() -> PSRL:
        rewards = HatRewards(Fails(sigma=1000.0, updates=8, table="rewards"), points=3)
        sampler = NoisyCounts(sigma=1000.0, updates=8)
        accountant = ledger.accountant("visits")
        return agent_of(PSRL, 2, 1, 9, sampler=sampler, rewards=rewards, accountant=accountant)

    first = agent()
    first.save(folder / "agent", ledger=ledger)
    first.begin_episode(0)
    again = agent()
    again.load(folder / "agent", ledger=ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Fails, "shows", True)
        with pytest.raises(ValueError, match="a bug"):
            again.begin_episode(0)
    with pytest.raises(ValueError, match="failed midway"):
        again.begin_episode(0)


@pytest.mark.few(64)
@pytest.mark.parametrize(("kind", "life", "nth", "start"), PARTS)
def test_an_interrupt_at_any_line_shares_no_noise(
    kind: str, life: str, nth: int, start: int, folder: Path
) -> None:
    interrupt_everywhere(folder, kind, life, KeyboardInterrupt, each=False, nth=nth, start=start)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "start"), [(KeyboardInterrupt, 1), (MemoryError, 12), (ValueError, 23)]
)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("kind", MAKE)
def test_an_exception_at_many_lines_shares_no_noise(
    kind: str, life: str, error: type[BaseException], start: int, folder: Path
) -> None:
    """Three errors start at different lines, so about every eleventh line is struck.

    All lines with all errors take an hour where the disk is slow.
    """
    interrupt_everywhere(folder, kind, life, error, each=True, nth=33, start=start)
