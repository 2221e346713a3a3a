"""Random numbers that nobody can predict or undo, for noise that protects persons.

NumPy's generators are made for simulation: a few hundred outputs, or the seed, determine all
others. A `SecretGenerator` is the block cipher AES in counter mode, with a 128-bit key from the
operating system. Distinguishing its numbers from random ones would break the cipher.
"""

import hashlib
import os
import secrets
import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, SupportsIndex

import numpy as np

from privrl.files.sharing import SECRET, SEEDED
from privrl.files.shown import shown
from privrl.numerics.processes import check_made_here, from_elsewhere, this_process
from privrl.numerics.special import FloatArray

__all__ = ["SECRET", "SEEDED", "Rng", "SecretGenerator", "VectorisedGenerator", "as_rng", "by_row",
           "columns", "derived_rng", "generators", "own_rng", "randomness_of",
           "secret_rng"]  # fmt: skip

#: What every public ``rng`` may be, see `as_rng`.
Rng = np.random.Generator | int | None

_KEY: Final = 16  # bytes of a key of AES-128


class SecretGenerator(np.random.Generator):
    """A NumPy generator keyed by the operating system, for the process that made it.

    Parameters
    ----------
    key : int, optional
        A secret key of 128 bits; by default a new one from the operating system.

    Notes
    -----
    After a fork the child's copy has another key and refuses all draws. Copies, loaded pickles and
    spawned generators have new keys, so no two releases share their noise. Threads may share a
    generator.
    """

    def __init__(self, key: int | None = None) -> None:
        super().__init__(_keyed(key))
        self.made_in = this_process()
        _living.add(self)

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Return generators with new keys."""
        return [SecretGenerator() for _ in range(n_children)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return secret_rng, ()


class _Forked(SecretGenerator):
    """The class of a secret generator in the child of a fork."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            raise from_elsewhere()
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return "SecretGenerator of another process"

    __str__ = __repr__


def secret_rng() -> np.random.Generator:
    """Return a generator for real data: cryptographic, keyed by the operating system.

    Returns
    -------
    numpy.random.Generator
        A `SecretGenerator`, for any argument that takes a generator.

    Notes
    -----
    The state in memory reveals past and future numbers, because AES can run backwards: the
    generator protects against readers of releases, not against readers of the process. A snapshot
    of a virtual machine that is started twice has the same generator twice.

    References
    ----------
    NIST FIPS 197, *Advanced Encryption Standard*; NIST SP 800-38A, counter mode. The generator is
    that of the package ``randomgen``.
    """
    return SecretGenerator()


def derived_rng(key: bytes, context: bytes) -> np.random.Generator:
    """Return the secret generator of one context: its numbers follow from key and context alone.

    Parameters
    ----------
    key : bytes
        32 secret bytes.
    context : bytes
        Purpose of the numbers. The numbers of two contexts are computationally independent without
        the key.

    References
    ----------
    RFC 7693, *The BLAKE2 cryptographic hash and message authentication code*: keyed BLAKE2b is a
    pseudorandom function, and gives the generator's own key.
    """
    own = hashlib.blake2b(context, key=key, digest_size=_KEY, person=b"privrl noise").digest()
    return SecretGenerator(int.from_bytes(own, "little"))


def as_rng(rng: Rng) -> np.random.Generator:
    """Return the generator for a public ``rng`` argument.

    Parameters
    ----------
    rng : numpy.random.Generator, int or None
        A generator is used as given. None is a secret one, see `secret_rng`: for real data. A
        number >= 0 is a seed, ``numpy.random.default_rng(rng)``, for repeatable results. Statements
        report it as known, and the same seed gives the same noise.

    Raises
    ------
    ValueError
        If it is anything else, or a generator from before a fork.

    References
    ----------
    Scientific Python, SPEC 7, *Seeding pseudo-random number generation*; there None is a
    generator that is not fit for secrets.
    """
    if rng is None:
        return secret_rng()
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            "rng must be a numpy.random.Generator, a whole number >= 0, which is a seed that "
            f"anybody may know, or None, which is secret; got {shown(rng)}."
        )
    check_made_here(rng)
    return rng


def randomness_of(rng: np.random.Generator) -> str:
    """Return the description of a generator in statements of privacy: `SECRET` or `SEEDED`.

    NumPy's generators count as seeded: a seed cannot be excluded, and they are not secure.
    """
    return SECRET if isinstance(rng, SecretGenerator) else SEEDED


def own_rng(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that nobody else has, if the given one is secret."""
    # A checkpoint restores its state. With the caller's, two releases would have one noise.
    return secret_rng() if randomness_of(rng) == SECRET else rng


def _keyed(key: int | None = None) -> Any:
    # Loaded here: importing the library is quicker without.
    return import_module("randomgen").AESCounter(key=secrets.randbits(128) if key is None else key)


_living: weakref.WeakSet[SecretGenerator] = weakref.WeakSet()


def _disown() -> None:
    for rng in list(_living):
        rng.bit_generator.state = _keyed().state  # for those who hold a method, or what drives it
        rng.__class__ = _Forked
    _living.clear()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_disown)


class VectorisedGenerator(np.random.Generator):
    """Independent generators for the rows of an array: row i has the numbers of the i-th alone.

    A row's numbers do not depend on the other rows. The rows are the first axis of each drawn
    array; methods that have no such axis are refused.

    Parameters
    ----------
    each : sequence of numpy.random.Generator
        One for each row.
    """

    def __init__(self, each: Sequence[np.random.Generator]) -> None:
        super().__init__(each[0].bit_generator)
        self.each = tuple(each)

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Return uniform numbers, shape (rows, ...)."""
        return self._of_size("random", size)

    def standard_exponential(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Return exponential numbers, shape (rows, ...)."""
        return self._of_size("standard_exponential", size)

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Return normal numbers, shape (rows, ...)."""
        return self._of_size("standard_normal", size)

    def standard_gamma(self, shape: Any, *_: Any, **__: Any) -> Any:
        """Return gamma numbers for shapes (rows, ...)."""
        return by_row(lambda own, rng: rng.standard_gamma(own), self, shape)

    def binomial(self, n: Any, p: Any, *_: Any, **__: Any) -> Any:
        """Return successes in n trials, shape (rows, ...); all rows share the probabilities."""
        return by_row(lambda own, rng: rng.binomial(own, p), self, n)

    def _of_size(self, name: str, size: tuple[int, ...]) -> FloatArray:
        rows, *own = size
        if rows != len(self.each):
            raise _no_rows(name)
        return np.stack([getattr(each, name)(own) for each in self.each])


def by_row(
    draw: Callable[..., FloatArray], rng: np.random.Generator, *arrays: FloatArray
) -> FloatArray:
    """Return ``draw(*arrays, rng)``, row by row if the generator is vectorised.

    Parameters
    ----------
    draw : callable
        Takes arrays and a generator, returns an array.
    rng : numpy.random.Generator
        Source of randomness.
    *arrays : array, shape (rows, ...)
        Arguments of ``draw``.
    """
    if not isinstance(rng, VectorisedGenerator):
        return draw(*arrays, rng)
    if any(len(array) != len(rng.each) for array in arrays):
        raise _no_rows("an array")
    return np.stack([draw(*own, each) for *own, each in zip(*arrays, rng.each, strict=True)])


def columns(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Return uniform numbers, shape (m, n); each row of a vectorised generator has a block."""
    if not isinstance(rng, VectorisedGenerator):
        return rng.random(shape)
    part, left = divmod(shape[1], len(rng.each))
    if left:
        raise _no_rows("columns")
    return np.concatenate([each.random((shape[0], part)) for each in rng.each], axis=1)


def generators(rng: np.random.Generator) -> tuple[np.random.Generator, ...]:
    """Return the generators of all rows, or the only one."""
    return rng.each if isinstance(rng, VectorisedGenerator) else (rng,)


def _no_rows(what: str) -> ValueError:
    return ValueError(f"{what} must have a row for each generator.")


_KNOWN: Final = {name for name in vars(VectorisedGenerator) if not name.startswith("_")}


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: VectorisedGenerator, *_: Any, **__: Any) -> Any:
        raise _no_rows(name)

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in {*_KNOWN, "bit_generator"}:
        setattr(VectorisedGenerator, _name, _refusing(_name))
