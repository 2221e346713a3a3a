"""Seeds on the command line: for research alone, and said so in every file."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

Seed = Annotated[
    int | None,
    typer.Option(
        help="For repeatable research only, with --reproducible: who knows the seed can undo the "
        "noise. By default randomness is secret."
    ),
]
Reproducible = Annotated[
    bool | None, typer.Option("--reproducible", help="Take a seed, and give up privacy for it.")
]


def check_seed(seed: int | None, *, reproducible: bool | None) -> None:
    """Check a seed of a command that writes something to share.

    Raises
    ------
    ValueError
        If it is no seed, or there is one and not both options are given.
    """
    from privrl.numerics.checks import check_count

    if seed is not None:
        check_count("seed", seed, least=0)
    if seed is not None and not reproducible:
        raise ValueError(
            "seed must be left out where files are to be shared: whoever knows it can undo the "
            "noise. For research on data that need no protection, add --reproducible."
        )
    if reproducible and seed is None:
        raise ValueError("--reproducible goes with a seed; give --seed, or leave it out.")


def rng_of(seed: int | None, *, reproducible: bool | None) -> "np.random.Generator":
    """Return a generator: a secret one unless there is a seed, see `check_seed`."""
    import numpy as np

    from privrl.numerics.randomness import secret_rng

    check_seed(seed, reproducible=reproducible)
    return secret_rng() if seed is None else np.random.default_rng(seed)


def randomness_with(seed: int | None) -> str:
    """Return what statements say of the randomness."""
    from privrl.numerics.randomness import SECRET, SEEDED

    return SECRET if seed is None else SEEDED
