"""Make the table of docs/results/randomness.md: what secret randomness takes.

Run with ``python docs/make/randomness.py``; it takes half a minute.
"""

from collections.abc import Callable
from time import process_time
from timeit import timeit

import numpy as np
import pages
from randomgen import ChaCha

from privrl import secret_rng
from privrl.mechanisms import DiscreteGaussianMechanism
from privrl.numerics.discrete_gaussian import discrete_gaussian

ROUNDS = 25  # the least time counts: what else the machine does only adds to it
GENERATORS = {
    "PCG64 (NumPy)": np.random.default_rng(),
    "AES (privrl)": secret_rng(),
    "ChaCha20": np.random.Generator(ChaCha(rounds=20)),
}
RELEASE = DiscreteGaussianMechanism(sigma=20.0)
TASKS: dict[str, Callable[[np.random.Generator], object]] = {
    "1e6 uniform numbers": lambda rng: rng.random(1_000_000),
    "1e6 normal numbers": lambda rng: rng.standard_normal(1_000_000),
    "1e6 discrete Gaussians": lambda rng: discrete_gaussian(20.0, 1_000_000, rng),
    "1e6 gamma numbers": lambda rng: rng.standard_gamma(0.3, 1_000_000),
    "a release of 1e5 counts": lambda rng: RELEASE.release(np.zeros(100_000), rng),
}


def main() -> None:
    """Write the table between the markers of the page."""
    pages.main("results/randomness.md", {"speed": _speed})


def _speed() -> str:
    rows = []
    for name, task in TASKS.items():
        least = dict.fromkeys(GENERATORS, np.inf)
        for _ in range(ROUNDS):  # in turn, so that all see the same machine
            for kind, rng in GENERATORS.items():
                time = timeit(lambda t=task, r=rng: t(r), timer=process_time, number=1)
                least[kind] = min(least[kind], time)
        numpys = least["PCG64 (NumPy)"]
        times = [f"{1e3 * least[kind]:.1f} ms ({least[kind] / numpys:.2f})" for kind in GENERATORS]
        rows.append([name, *times])
    return pages.table(["", *GENERATORS], rows)


if __name__ == "__main__":
    main()
