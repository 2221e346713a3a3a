"""Checkpoints of agents: files from which one goes on, whatever stopped it, as if nothing had.

A checkpoint is not private: it holds raw counts, and the state of the noise. It is for its owner
alone, and never to be shared. What is drawn twice with the same noise, of other data, shows what
the noise hides; so an agent of secret randomness that was saved once enters the number of each
further draw, and a keyed digest of its data, in a ledger before the draw is made.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING, Any, Final, Self

from privrl._files import read_bytes, save_private
from privrl._plain import parse_json
from privrl._states import PutBack, Taken, pack, settings_digest, settings_of, unpack
from privrl._typing import FloatArray
from privrl.accounting.journal import KeepsJournal
from privrl.agents.observer import counted_types
from privrl.agents.rewards import BetaPosterior, HatPosterior
from privrl.costs import (
    BatchCost,
    DirichletCost,
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
    NoPrivacy,
    Relation,
    SimplexCost,
    Together,
)
from privrl.ledger.ledger import Ledger, drawn_twice
from privrl.numerics.randomness import SECRET, randomness_of
from privrl.samplers.dirichlet import SingleDraw
from privrl.samplers.noisy_counts import NoisyPosterior

if TYPE_CHECKING:
    from privrl.agents.tabular import TabularAgent

_TITLE: Final = (
    b"privrl checkpoint, NOT PRIVATE: it holds raw counts and the state of the noise. Keep it to "
    b"yourself, and never share it.\n"
)
_PACKAGES: Final = ("privrl", "numpy", "randomgen")  # by which noise may differ
_POSTERIORS: Final = (NoisyPosterior, SingleDraw, BetaPosterior, HatPosterior)
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


@dataclass(frozen=True)
class Draws:
    """An agent's own entries in a ledger: the numbers of its draws.

    Attributes
    ----------
    ledger : Ledger
        Where they are.
    agent : str
        What the agent is called there.
    key : bytes
        Of the digests of its data.
    """

    ledger: Ledger
    agent: str
    key: bytes = field(repr=False)

    @classmethod
    def begin(cls, ledger: Ledger) -> Self:
        """Return the entries of an agent that is about to be saved for the first time."""
        return cls(ledger, token_hex(16), token_bytes(32))

    def at(self, number: int) -> "NumberedDraw":
        """Return the entry of the next draw."""
        return NumberedDraw(self, number)


@dataclass(frozen=True)
class NumberedDraw:
    """The next draw of an agent, as `privrl.samplers.base.Register` has it."""

    draws: Draws
    number: int

    def was_made(self, batches: Sequence[FloatArray]) -> bool:
        """Whether it was entered before, of these data; if of others, refuse it."""
        before = self.draws.ledger.drawn(self.draws.agent, self.number)
        if before is not None and not hmac.compare_digest(before, self._digest(batches)):
            raise drawn_twice(self.number)
        return before is not None

    def enter(self, batches: Sequence[FloatArray]) -> None:
        """Enter it."""
        self.draws.ledger.enter_draw(self.draws.agent, self.number, self._digest(batches))

    def _digest(self, batches: Sequence[FloatArray]) -> str:
        digest = hmac.new(self.draws.key, repr(self.number).encode(), hashlib.sha256)
        for batch in batches:
            digest.update(repr(batch.shape).encode())
            digest.update(batch.tobytes())
        return digest.hexdigest()


def save(
    agent: "TabularAgent", path: str | PathLike[str], more: Any = None, *, ledger: Ledger | None
) -> None:
    """Write a checkpoint of an agent, and more plain data and arrays with it; see its ``save``."""
    if agent._entered is None and randomness_of(agent.rng) == SECRET:
        agent._entered = Draws.begin(Ledger() if ledger is None else ledger)
    taken = Taken(_relations(agent))
    accountant = _accountant(agent)
    tree = {
        "agent": taken.inside(agent),
        "charges": taken.value(accountant.charges()),
        "more": taken.value(more),
    }
    heads, data = pack(taken.arrays)
    entered = agent._entered
    head = {
        "versions": _versions(),
        "settings": _settings(agent),
        "draws": None
        if entered is None
        else {
            "ledger": entered.ledger.identity,
            "head": entered.ledger.head,
            "agent": entered.agent,
            "key": entered.key.hex(),
        },
        "arrays": heads,
        "tree": tree,
    }
    # One line each for the title, a digest, and what is plain; the numbers of all arrays follow.
    body = json.dumps(head, allow_nan=False).encode() + b"\n" + data
    save_private(Path(path), _TITLE + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def load(
    agent: "TabularAgent",
    path: str | PathLike[str],
    check: Callable[[Any], None] = lambda _: None,
    *,
    ledger: Ledger | None,
) -> Any:
    """Let an unused agent go on from a checkpoint, and return what was saved with it.

    ``check`` may refuse that first.
    """
    agent.check_unused("load must be called on an agent that has seen nothing; make another.")
    head, data = _read(Path(path))
    known = _relations(agent)
    try:
        arrays = unpack(head["arrays"], data)
        entered = _entered(path, head["draws"], ledger)
        back = PutBack(arrays, (*_COSTS,), known)
        settings, parts = head["settings"], head["tree"]["agent"]
        costs, numbers = back.value(head["tree"]["charges"])
        more = back.value(head["tree"]["more"])
        check(more)
    except (LookupError, TypeError, AttributeError) as error:
        raise _no_checkpoint(path) from error
    if settings != _settings(agent):
        raise ValueError(
            f"{path} is of an agent with other settings (its class, sizes, samplers, schedule, "
            "budget and kind of randomness are settings); make the agent as it was made then."
        )
    try:
        _accountant(agent).resume(costs, numbers)
        types = (*_COSTS, *_POSTERIORS, *counted_types(), *_own_types(agent))
        PutBack(arrays, types, known).inside(agent, parts)
    except BaseException as error:
        agent._half_loaded = True  # it may remember a part, and is not to go on from that
        if isinstance(error, LookupError | TypeError | AttributeError):
            raise _no_checkpoint(path) from error
        raise
    agent._entered = entered
    return more


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the head and the numbers of a file, checked as far as no agent is needed."""
    content = read_bytes(path)
    title, _, rest = content.partition(b"\n")
    if title + b"\n" != _TITLE:
        raise _no_checkpoint(path)
    digest, _, body = rest.partition(b"\n")
    if digest != hashlib.sha256(body).hexdigest().encode():
        raise ValueError(f"{path} is damaged: it has not the digest that it says; take another.")
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
            f"{path} was made with {wanted}, and goes on with these alone, got "
            f"{', '.join(f'{name} {number}' for name, number in ours.items())}: with others, noise "
            "may not be the same. Install them."
        )
    return head, data


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in _PACKAGES}


def _entered(path: str | PathLike[str], said: Any, ledger: Ledger | None) -> Draws | None:
    if said is None:
        return None
    ledger = Ledger() if ledger is None else ledger
    if not ledger.is_there or ledger.identity != said["ledger"]:
        raise ValueError(
            f"{path} is of an agent whose draws are entered in another ledger than "
            f"{str(ledger.path)!r}; give it that one, by ledger= or PRIVRL_LEDGER."
        )
    if not ledger.holds(*said["head"]):
        raise ValueError(
            f"{path} was made when more was entered in the ledger {str(ledger.path)!r} than is "
            "there: an older copy of it does not know which draws were made. Put back the last one."
        )
    return Draws(ledger, str(said["agent"]), bytes.fromhex(said["key"]))


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
    for name in ("_entered", "_streams", "env"):
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
    """Return which neighbours the agent's costs are about: they are settings, and not saved."""
    costs = (agent._sampler.fresh().cost, agent._rewards.fresh().cost)
    found = [cost.relation for cost in costs if cost is not None]
    found += [] if agent.accountant.relation is None else [agent.accountant.relation]
    return list(dict.fromkeys(found))


def _own_types(agent: "TabularAgent") -> Iterator[type]:
    """Return what samplers of other makers release, as their classes say."""
    for each in (agent._sampler, agent._rewards, getattr(agent._rewards, "_sampler", None)):
        yield from getattr(type(each), "released_as", ())


def _no_checkpoint(path: str | PathLike[str]) -> ValueError:
    return ValueError(f"{path} is no checkpoint of such an agent; its save writes one.")
