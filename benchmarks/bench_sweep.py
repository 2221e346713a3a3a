"""Sweeps: jobs per second in this process and on processes beside it."""

import pytest
from joblib import Parallel, delayed

from privrl.experiments import Method, SweepSpec, run_sweep
from privrl.experiments.sweeps.sweep import jobs_of


@pytest.mark.parametrize(("backend", "workers"), [("sequential", None), ("loky", 1), ("loky", 2)])
def test_sweep(measure, quick, backend, workers):
    spec = SweepSpec(
        methods=(Method(label="noisy counts"), Method(sampler="diffuse", label="Dirichlet draws")),
        epsilons=(0.1, 1.0, 10.0),
        renyi_order=2.0,
        episodes=3000 if quick else 30_000,
        runs=20,
        block=10,
    )

    def sweep() -> None:
        run_sweep(spec, backend=backend, workers=workers)

    # The first round, which starts the workers, is not counted.
    what = backend if workers is None else f"{backend}, {workers}"
    measure(what, sweep, work=len(jobs_of(spec)), rounds=3)


@pytest.mark.parametrize("workers", [1, 2])
def test_processors(measure, workers):
    """What the machine itself has to offer, at this moment: loops that need nothing but a core."""

    def loop() -> None:
        Parallel(n_jobs=workers, backend="loky")(delayed(_loop)() for _ in range(4))

    measure(f"processors, {workers}", loop, work=4, rounds=4)


def _loop() -> int:
    total = 0
    for i in range(4_000_000):
        total += i
    return total
