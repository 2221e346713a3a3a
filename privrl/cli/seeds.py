"""Seeds on the command line: only for research, as every file then states."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

Seed = Annotated[
    int | None,
    "For repeatable research only, with --reproducible: anyone who knows the seed can "
    "undo the noise. By default randomness is secret.",
]
Reproducible = Annotated[
    bool | None, typer.Option("--reproducible", help="Use a seed, without any privacy guarantee.")
]


def check_seed(seed: int | None, *, reproducible: bool | None) -> None:
    """Check the seed of a command that writes shareable files.

    Raises
    ------
    ValueError
        If the seed is invalid, or only one of the two options is given.
    """
    from privrl.numerics.checks import check_count

    if seed is not None:
        check_count("seed", seed, least=0)
    if seed is not None and not reproducible:
        raise ValueError(
            "seed must be left out for files that are to be shared: anyone who knows it can undo "
            "the noise. For research on data that need no protection, add --reproducible."
        )
    if reproducible and seed is None:
        raise ValueError("--reproducible needs a seed; add --seed, or leave both out.")


def rng_of(seed: int | None, *, reproducible: bool | None) -> "np.random.Generator":
    """Return a generator: secret without a seed, see `check_seed`."""
    import numpy as np

    from privrl.numerics.randomness import secret_rng

    check_seed(seed, reproducible=reproducible)
    return secret_rng() if seed is None else np.random.default_rng(seed)


def randomness_with(seed: int | None) -> str:
    """Return the entry of a statement about randomness."""
    from privrl.numerics.randomness import SECRET, SEEDED

    return SECRET if seed is None else SEEDED
