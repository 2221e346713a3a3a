"""Checkpoints of agents: files from which a stopped run resumes with the same results.

A checkpoint is not private: it holds raw counts and the state of the noise. Never share it. After
its first checkpoint, an agent with secret randomness enters each draw in a ledger before making it.
A run that resumes from the checkpoint can then not repeat that draw with other data (`Draws`). A
checkpoint holds all charges of the agent's accountant, including those of other agents that share
it in the same process.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from secrets import token_bytes, token_hex
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.ledger import Ledger, drawn_twice
from privrl.agents.observer import Observer, counted_types
from privrl.agents.rewards import BetaPosterior, HatPosterior
from privrl.costs import DirichletCost, GaussianCost, Relation
from privrl.costs.base import BatchCost, NoPrivacy, Together
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost, LaplaceCost
from privrl.costs.simplex import SimplexCost
from privrl.envs import TabularMDP
from privrl.files.chosen import check_file
from privrl.files.files import read_bytes, save_private
from privrl.files.fixed import fixed
from privrl.files.plain import parse_json
from privrl.files.shown import shown
from privrl.files.states import (
    Restorer,
    Snapshot,
    lost_change,
    pack,
    settings_digest,
    settings_of,
    unpack,
)
from privrl.numerics.cells import Cells
from privrl.numerics.checks import check_count, check_positive, check_rng
from privrl.numerics.dirichlet_rows import DirichletPosterior
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import SECRET, derived_rng, own_rng, randomness_of
from privrl.numerics.typing import FloatArray
from privrl.samplers.base import Sampler
from privrl.samplers.dirichlet import SingleDraw
from privrl.samplers.noisy_counts import NoisyPosterior

if TYPE_CHECKING:
    from privrl.agents.tabular import TabularAgent


_TITLE: Final = (
    b"privrl checkpoint, NOT PRIVATE: it holds raw counts and the state of the noise. Keep it to "
    b"yourself, and never share it.\n"
)
_KEY: Final = 32  # bytes of a key or digest
_PACKAGES: Final = ("privrl", "numpy", "randomgen")  # whose versions may change the noise
_POSTERIORS: Final = (
    NoisyPosterior,
    DirichletPosterior,
    SingleDraw,
    BetaPosterior,
    HatPosterior,
)
_COSTS: Final = (
    BatchCost,
    DirichletCost,
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
    NoPrivacy,
    SimplexCost,
    Together,
)


class Draws:
    """The draws of a saved agent, as entries in a ledger.

    Each draw has a keyed digest of its number, the new records and the previous digest. The first
    digest is that of the agent's state in its first checkpoint. The ledger compares digests. The
    randomness of a draw is derived from its digest, a secret key, and a random number in its entry.
    A repeated draw therefore has the same noise. Draws with other data, or in another copy of the
    ledger, have independent noise.

    Parameters
    ----------
    ledger : Ledger
        The ledger for the draws.
    agent : str
        Name of the agent in the ledger.
    key : bytes
        Secret key of digests and randomness, 32 bytes.
    number : int
        Number of draws so far.
    digest : bytes
        Digest of the initial state and all earlier draws.
    """

    def __init__(self, ledger: Ledger, agent: str, key: bytes, number: int, digest: bytes) -> None:
        self.ledger, self._agent, self._key = ledger, agent, key
        self._number, self._digest = number, digest

    @classmethod
    def begin(cls, ledger: Ledger, number: int, state: bytes) -> Self:
        """Return the draws of an agent at its first checkpoint, with the given state."""
        return cls(ledger, token_hex(16), token_bytes(_KEY), number, hashlib.sha256(state).digest())

    @classmethod
    def from_plain(cls, ledger: Ledger, said: Mapping[str, Any]) -> Self:
        """Return the draws described by `to_plain`."""
        key, digest = bytes.fromhex(said["key"]), bytes.fromhex(said["digest"])
        if not len(key) == len(digest) == _KEY:
            raise TypeError("a key and a digest have 32 bytes")
        return cls(ledger, str(said["agent"]), key, int(said["number"]), digest)

    def to_plain(self) -> dict[str, Any]:
        """Return the draws as plain data, including the secret key."""
        return {
            "ledger": self.ledger.identity,
            "head": self.ledger.head,
            "agent": self._agent,
            "key": self._key.hex(),
            "number": self._number,
            "digest": self._digest.hex(),
        }

    def place_of(self, batches: Sequence[FloatArray | Cells]) -> "NumberedDraw":
        """Return the next draw, of these batches; refuse it if entered with other batches."""
        digest = hashlib.blake2b(key=self._key, digest_size=_KEY, person=b"privrl draw")
        digest.update(self._digest + repr(self._number).encode())
        for batch in batches:
            cells = Cells.of(batch)  # few of large tables
            digest.update(repr((cells.shape, len(cells.places))).encode())
            digest.update(cells.places.astype("<i8").tobytes())
            digest.update(cells.amounts.astype("<f8").tobytes())
        entered = self.ledger.drawn(self._agent, self._number)
        if entered is not None and not hmac.compare_digest(entered.digest, digest.hexdigest()):
            raise drawn_twice(self._number)
        return NumberedDraw(self, digest.digest(), None if entered is None else entered.nonce)

    def _enter(self, digest: bytes, charge: Callable[[], None]) -> str:
        return self.ledger.enter_draw(self._agent, self._number, digest.hex(), charge).nonce

    def _rng(self, digest: bytes, nonce: str) -> np.random.Generator:
        return derived_rng(self._key, digest + nonce.encode())

    def _move_on(self, digest: bytes) -> None:
        self._number, self._digest = self._number + 1, digest


class NumberedDraw:
    """The next draw of an agent; a `privrl.accounting.releases.Place`."""

    def __init__(self, draws: Draws, digest: bytes, nonce: str | None) -> None:
        self._draws, self._digest, self._nonce = draws, digest, nonce

    @property
    def taken(self) -> bool:
        """Whether the draw was entered before, with the same data."""
        return self._nonce is not None

    def enter(self, charge: Callable[[], None]) -> None:
        """Enter the draw, and charge its cost."""
        self._nonce = self._draws._enter(self._digest, charge)

    def rng(self) -> np.random.Generator:
        """Return the randomness of the draw."""
        assert self._nonce is not None
        return self._draws._rng(self._digest, self._nonce)

    def leave(self) -> None:
        """Advance to the next draw."""
        self._draws._move_on(self._digest)


def save(
    agent: "TabularAgent", path: str | PathLike[str], more: Any = None, *, ledger: Ledger | None
) -> None:
    """Write a checkpoint of an agent with further data; see `Checkpointed.save`."""
    check_file(agent)  # a restored agent would not be marked
    for part in (agent._sampler, agent._rewards):
        _check_remembers(part)
    taken = Snapshot(_relations(agent))
    accountant = _accountant(agent)
    tree = {
        "agent": taken.inside(agent),
        "charges": taken.value(accountant.charges()),
        "more": taken.value(more),
    }
    for unknown in taken.types.difference(_types(agent)):
        raise ValueError(
            f"{unknown.__name__} cannot be saved: it is no release or cost of privrl, and no "
            "sampler of the agent names it in a tuple `released_as` of its class. No checkpoint "
            "that holds it could be loaded."
        )
    heads, data = pack(taken.arrays)
    head: dict[str, Any] = {
        "versions": _versions(),
        "settings": _settings(agent),
        "arrays": heads,
        "tree": tree,
    }
    if agent._entered is None and randomness_of(agent.rng) == SECRET:
        state = json.dumps(head, allow_nan=False).encode() + data
        agent._entered = Draws.begin(Ledger() if ledger is None else ledger, agent.draws, state)
    head["draws"] = None if agent._entered is None else agent._entered.to_plain()
    # One line each for title, checksum and plain data, followed by the arrays.
    body = json.dumps(head, allow_nan=False).encode() + b"\n" + data
    save_private(Path(path), _TITLE + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def load(
    agent: "TabularAgent",
    path: str | PathLike[str],
    check: Callable[[Any], None] = lambda _: None,
    *,
    ledger: Ledger | None,
) -> Any:
    """Restore a checkpoint into an unused agent, and return the further data saved with it.

    ``check`` gets these data first, and may raise an error.
    """
    agent.check_unused("load must be called on an unused agent; make a new one.")
    head, data = _read(Path(path))
    known = _relations(agent)
    try:
        arrays = unpack(head["arrays"], data)
        entered = _entered(path, head["draws"], ledger)
        back = Restorer(arrays, _types(agent), known)
        settings, parts = head["settings"], head["tree"]["agent"]
        costs, numbers = back.value(head["tree"]["charges"])
        more = back.value(head["tree"]["more"])
        check(more)
    except (LookupError, TypeError, AttributeError) as error:
        raise _no_checkpoint(path) from error
    if settings != _settings(agent):
        raise ValueError(
            f"{path} is of an agent with other settings (its class, sizes, samplers, schedule, "
            "budget and kind of randomness are settings); make the agent with the same settings."
        )
    agent._half_done = "a load"  # a partial load must not be used
    try:
        _accountant(agent).resume(costs, numbers)
        back.inside(agent, parts)
    except (LookupError, TypeError, AttributeError) as error:
        raise _no_checkpoint(path) from error
    agent._entered = entered
    agent._half_done = None
    return more


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return head and array data of a file, after the checks that need no agent."""
    content = read_bytes(path)
    title, _, rest = content.partition(b"\n")
    if title + b"\n" != _TITLE:
        raise _no_checkpoint(path)
    digest, _, body = rest.partition(b"\n")
    if digest != hashlib.sha256(body).hexdigest().encode():
        raise ValueError(f"{path} is damaged: its checksum does not match. Restore a backup.")
    text, _, data = body.partition(b"\n")
    try:
        head = parse_json(text.decode())
        versions = {name: str(head["versions"][name]) for name in _PACKAGES}
    except (ValueError, LookupError, TypeError) as error:
        raise _no_checkpoint(path) from error
    ours = _versions()
    if versions != ours:
        wanted = ", ".join(f"{name} {number}" for name, number in versions.items())
        raise ValueError(
            f"{path} was made with {wanted} and needs the same versions, got "
            f"{', '.join(f'{name} {number}' for name, number in ours.items())}: with others, noise "
            "may differ. Install the versions of the file."
        )
    return head, data


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import version  # noqa: PLC0415 # it takes a quarter of NumPy's time

    return {name: version(name) for name in _PACKAGES}


def _entered(path: str | PathLike[str], said: Any, ledger: Ledger | None) -> Draws | None:
    if said is None:
        return None
    ledger = Ledger() if ledger is None else ledger
    if not ledger.is_there or ledger.identity != said["ledger"]:
        raise ValueError(
            f"{path} is of an agent whose draws are entered in another ledger than "
            f"{str(ledger.path)!r}; pass that ledger by ledger= or PRIVRL_LEDGER."
        )
    if not ledger.holds(*said["head"]):
        raise ValueError(
            f"{path} was made when the ledger {str(ledger.path)!r} had more entries than now: an "
            "older copy of the ledger lacks some of the draws. Restore the latest copy."
        )
    return Draws.from_plain(ledger, said)


def _check_remembers(part: Sampler) -> None:
    """Check that a sampler or reward model remembers all that has changed since it was made.

    A resumed run would begin with less, and enter its next draw as the same one: with the same
    noise on other totals.
    """
    lost = lost_change(part, part.fresh())
    if lost is not None:
        raise ValueError(
            f"{type(part).__name__} cannot be saved: its attribute {shown(lost)} has changed in "
            "use, and its class does not name it in `remembered`. Name it there, or in `derived` "
            "if it follows from those, and make a new agent."
        )


def _accountant(agent: "TabularAgent") -> KeepsJournal:
    accountant = agent.accountant
    if not isinstance(accountant, KeepsJournal):
        raise ValueError(
            f"accountant must be one of privrl's to be saved, got {type(accountant).__name__}."
        )
    return accountant


def _settings(agent: "TabularAgent") -> str:
    settings = settings_of(agent)
    accountant = settings.pop("accountant")
    for name in ("_entered", "_noise", "env"):
        del settings[name]
    settings |= {"_sampler": agent._sampler.fresh(), "_rewards": agent._rewards.fresh()}
    bits = type(agent.rng.bit_generator).__name__
    return settings_digest(
        {
            "class": type(agent),
            "agent": settings,
            "accountant": [type(accountant), _accountant(agent).settings],
            "randomness": [randomness_of(agent.rng), bits],
        }
    )


def _relations(agent: "TabularAgent") -> list[Relation]:
    """Return the relations of the agent's costs, which are settings and not saved."""
    costs = (agent._sampler.fresh().cost, agent._rewards.fresh().cost)
    found = [cost.relation for cost in costs if cost is not None]
    found += [] if agent.accountant.relation is None else [agent.accountant.relation]
    return list(dict.fromkeys(found))


def _types(agent: "TabularAgent") -> Iterator[type]:
    """Return the types that may be created for an agent, with those declared by its samplers."""
    yield from (*_COSTS, *_POSTERIORS, *counted_types())
    for each in (agent._sampler, agent._rewards, getattr(agent._rewards, "_sampler", None)):
        yield from getattr(type(each), "released_as", ())


def _no_checkpoint(path: str | PathLike[str]) -> ValueError:
    return ValueError(f"{path} is no checkpoint of such an agent; its save method writes one.")


class Checkpointed(Observer):
    """An observer with checkpoints that cannot be copied once it has been used."""

    accountant: KeepsJournal = fixed()
    _sampler: Sampler
    _noise: np.random.Generator
    _draws: int
    _entered: Draws | None
    _half_done: str | None
    _deployed: object

    def _check_made_here(self) -> None:
        if self._made_in != this_process():
            raise ValueError(
                "agent must be used in the process that made it: after a fork, two agents have the "
                "same records and budget, and the difference of their releases reveals the data. "
                "Make the agent in the process that uses it."
            )
        check_rng(self._rng)

    def _check_whole(self) -> None:
        """Raise ValueError if a draw or a load failed midway."""
        if self._half_done is not None:
            raise ValueError(
                f"agent must not be used after {self._half_done} that failed midway; restore the "
                "last checkpoint, or make a new agent, which is charged again."
            )

    def save(self, path: str | PathLike[str], *, ledger: Ledger | None = None) -> None:
        """Write a checkpoint, from which an agent of the same settings resumes.

        It is **not private**: it holds raw counts and the state of the noise. Only its owner can
        read the file (mode 0600). It replaces an older file, and is never half-written. It holds
        all charges of the accountant, also those of other agents that share it.

        Parameters
        ----------
        path : str or path-like
            The file.
        ledger : Ledger, optional
            Where draws are entered from the first checkpoint on, so that a resumed run repeats no
            draw with other data; by default the user's ledger. An agent with a seeded generator
            makes no claim and needs none.

        Raises
        ------
        ValueError
            If a sampler, reward model or accountant cannot be saved. Its class must name the
            attributes that change in its use in a tuple ``remembered`` (one that has changed and
            is not named is refused), and the dataclasses that its updates return in a tuple
            ``released_as``. Or if the agent was chosen among several.
        OSError
            If the file cannot be written, or the ledger not used.
        """
        self._check_made_here()
        with self._lock:
            self._check_whole()
            save(self, path, ledger=ledger)  # type: ignore[arg-type] # a tabular agent

    def load(self, path: str | PathLike[str], *, ledger: Ledger | None = None) -> None:
        """Restore a checkpoint: records, releases, noise, accountant and random numbers.

        Call it on an unused agent of the same settings, with the same versions of the libraries.
        A run that was saved between two draws resumes bit for bit. A draw that was made after the
        checkpoint is repeated if its data are the same, and refused if they are not.

        Parameters
        ----------
        path : str or path-like
            A file written by `save`.
        ledger : Ledger, optional
            The ledger that was passed to `save`.

        Raises
        ------
        ValueError
            If the agent is already used, the ledger differs, or the file is damaged, is not a
            checkpoint, or was made with other settings or versions.
        OSError
            If the file or the ledger cannot be read.
        """
        self._check_made_here()
        with self._lock:
            self._check_whole()
            load(self, path, ledger=ledger)  # type: ignore[arg-type] # likewise

    def check_unused(self, otherwise: str) -> None:
        """Raise ValueError with this message if the agent has observed or drawn anything."""
        if self._draws or self._step or self._new.steps or not self._new.is_empty:
            raise ValueError(otherwise)

    def __copy__(self) -> Self:
        """Return a copy of this unused agent, with separate random numbers."""
        self._check_made_here()
        self._check_whole()
        self.check_unused(
            "agent must not be copied once it has observed or drawn anything: its records would be "
            "released twice and charged once. Make a new agent, which is charged again."
        )
        other = object.__new__(type(self))
        other.__dict__.update(vars(self) | {"accountant": copy(self.accountant)})
        other._sampler, other._rewards = self._sampler.fresh(), self._rewards.fresh()
        other._rng = self._rng.spawn(1)[0]
        other._new, other._lock = self._nothing(), RLock()
        other._noise, other._entered = own_rng(other._rng), None
        other._deployed = None
        return other

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        raise ValueError(
            "agent must not be pickled: agents loaded from one file would have the same noise, and "
            "the difference of their releases would reveal the data. Make it where it is used."
        )


Record = dict[str, NDArray[Any]]
_MINUTE = 60.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run of `train` is saved, and how often; the run resumes from an existing file.

    The file is **not private**, see `privrl.agents.TabularAgent.save`. An agent of secret
    randomness is also saved before each draw, so that it can always resume.

    Parameters
    ----------
    path : str or path-like
        The file, of this one run.
    episodes : int, optional
        The run is saved after this number of episodes.
    minutes : float, optional
        The run is saved after this time, between two episodes (or stretches under one policy).
    run : str
        Distinguishes the run from others of the same agent and environment, such as a seed; the
        file of another run is refused.
    ledger : Ledger, optional
        See `privrl.agents.TabularAgent.save`.

    Raises
    ------
    ValueError
        If neither ``episodes`` nor ``minutes`` is given, or one is out of range.
    """

    path: str | os.PathLike[str]
    episodes: int | None = None
    minutes: float | None = None
    run: str = ""
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        if self.episodes is None and self.minutes is None:
            raise ValueError("episodes or minutes must say how often to save; give one or both.")
        if self.episodes is not None:
            check_count("episodes", self.episodes)
        if self.minutes is not None:
            check_positive("minutes", self.minutes)

    @classmethod
    def parse(
        cls,
        every: str,
        *,
        path: str | os.PathLike[str],
        run: str = "",
        ledger: Ledger | None = None,
    ) -> Self:
        """Parse an interval: a number of episodes such as ``500``, or ``10min``.

        Raises
        ------
        ValueError
            If the text is neither.
        """
        number, minutes, _ = every.strip().partition("min")
        try:
            if minutes:
                return cls(path=path, minutes=float(number), run=run, ledger=ledger)
            return cls(path=path, episodes=int(number), run=run, ledger=ledger)
        except ValueError:
            raise ValueError(
                f"checkpoint_every must be a number of episodes, or of minutes as in 10min, got "
                f"{shown(every)}."
            ) from None


class CheckpointManager:
    """Saves one run, or resumes it.

    Attributes
    ----------
    first, last : int
        The run's first episode, and the one after its last.
    record : dict of arrays
        The record before the run was stopped; empty for a new run.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        agent: "TabularAgent",
        env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP,
        rng: np.random.Generator,
        episodes: int,
    ) -> None:
        self._checkpoint, self._agent, self._rng = checkpoint, agent, rng
        self.first, self.record = agent.episodes_done, Record()
        self.last = self.first + episodes
        if checkpoint is None:
            return
        self._of = _of(checkpoint, env, episodes)
        self._every_draw = randomness_of(agent.rng) == SECRET
        if Path(checkpoint.path).exists():
            more = load(agent, checkpoint.path, self._is_ours, ledger=checkpoint.ledger)
            self.first, self.record = more["first"], more["record"]
            self.last = self.first + episodes
            rng.bit_generator.state = more["rng"]
        self._saved, self._when = agent.episodes_done, time.monotonic()

    @property
    def next(self) -> int:
        """The next episode."""
        return self._agent.episodes_done

    @property
    def seeds_episodes(self) -> bool:
        """Whether each episode gets a seed, so that the run can resume after any of them."""
        return self._checkpoint is not None

    def before(self, episode: int, record: Callable[[], Record]) -> None:
        """Save the record so far before an episode, if a save is due."""
        kept = self._checkpoint
        if kept is None or episode == self._saved:
            return
        episodes, minutes = episode - self._saved, (time.monotonic() - self._when) / _MINUTE
        if (
            (kept.episodes is not None and episodes >= kept.episodes)
            or (kept.minutes is not None and minutes >= kept.minutes)
            or (self._every_draw and self._agent.schedule.is_due(episode))
        ):
            self._save(record())

    def end(self, record: Callable[[], Record]) -> None:
        """Save the finished run, so that it is not repeated."""
        if self._checkpoint is not None and self._saved != self.last:
            self._save(record())

    def _save(self, record: Record) -> None:
        kept = self._checkpoint
        assert kept is not None
        more = {
            "of": self._of,
            "first": self.first,
            "record": record,
            "rng": dict(self._rng.bit_generator.state),
        }
        save(self._agent, kept.path, more, ledger=kept.ledger)
        self._saved, self._when = self._agent.episodes_done, time.monotonic()

    def _is_ours(self, more: Any) -> None:
        if more is None or more["of"] != self._of:
            raise ValueError(
                f"{self._checkpoint and self._checkpoint.path} must be a checkpoint of this run, "
                "got that of another (the environment, the number of episodes and the run's name "
                "must be the same); choose another path, or remove the file."
            )


def _of(
    checkpoint: Checkpoint,
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP,
    episodes: int,
) -> str:
    where = env if isinstance(env, TabularMDP) else (env.spec, getattr(env, "num_envs", 1))
    return settings_digest({"env": where, "episodes": episodes, "run": checkpoint.run})
