"""Reward against epsilon: many methods, budgets and runs."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from privrl.accounting.targets import DEFAULT_DELTA
from privrl.agents.methods import Method
from privrl.envs import TabularMDP
from privrl.experiments.names import make_env
from privrl.experiments.specs import Block, Delta, RenyiOrder, Runs, Seed, Unit
from privrl.experiments.sweeps.comparison import Comparison
from privrl.experiments.sweeps.execution import Found, do_jobs
from privrl.experiments.sweeps.jobs import Job, JobResult, check_jobs, columns_of, curve_episodes
from privrl.experiments.sweeps.progress import SweepProgress
from privrl.experiments.workers import check_workers
from privrl.files.html import InHtml
from privrl.numerics.checks import check_count, check_is, check_positive
from privrl.numerics.special import FloatArray

if TYPE_CHECKING:  # it takes longer to load than all that a worker needs
    import pandas as pd

_Budgets = Annotated[tuple[float, ...], "Comma-separated privacy budgets of a whole run, in nats."]


@dataclass(frozen=True, kw_only=True)
class SweepSpec(Comparison):
    """Everything that determines a sweep; plain data.

    Parameters
    ----------
    env : str
        Gymnasium id of an environment that carries its tables.
    methods : tuple of Method
        What is compared, under its label.
    epsilons : tuple of float
        Budgets of a whole run, in nats: (epsilon, delta)-differential privacy.
    delta : float
        Of all budgets, >= 0 and < 1; 0 is pure privacy.
    renyi_order : float, optional
        Makes the budgets Renyi divergences of this order, > 1; the (epsilon, delta) of each is then
        reported beside it.
    relation : str
        What one neighbour changes.
    episodes, horizon, runs : int
        Episodes of a run, steps of an episode, independent runs of each method and budget.
    seed : int
        The root of all randomness. A seed makes runs repeatable, and anyone who knows it can
        undo the noise: sweeps are research on simulated data.
    block : int
        Most runs that are computed together, those of several budgets side by side included.
        Results depend on it as on the seed; it bounds the memory of a worker, and is a compromise:
        a larger block is less work for each run, smaller ones spread over more workers.

    Raises
    ------
    ValueError
        If a value is out of range or a name unknown.
    """

    env: Annotated[str, "Gymnasium id, with tables."] = "privrl/RiverSwim-v0"
    methods: tuple[Method, ...] = field(default=(Method(),))
    epsilons: _Budgets = (0.01, 0.1, 1.0, 10.0)
    relation: Unit = "replace-step"
    episodes: Annotated[int, "Episodes of a run."] = 3000
    horizon: Annotated[int, "Steps of an episode."] = 30
    runs: Runs = 20
    seed: Seed = 0
    delta: Delta = DEFAULT_DELTA
    renyi_order: RenyiOrder = None
    block: Block = 100

    def __post_init__(self) -> None:
        self._check()
        for epsilon in self.epsilons:  # none would be no budget
            check_positive("epsilons", epsilon)
        for name in ("episodes", "horizon"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))


@dataclass(frozen=True)
class SweepResult(InHtml):
    """What a sweep found.

    Attributes
    ----------
    results : pandas.DataFrame
        One row for each method, budget and run. The exact value of the policy that the run would
        deploy is its ``final_value``.
    curves : pandas.DataFrame
        One row for each method, budget and bin of episodes, ``episode`` its end: mean over runs
        of the reward per episode and of the regret so far, with their standard errors.
    optimal_value, random_value : float
        Expected reward of an episode under the best policy, and of uniformly random actions.
    """

    results: "pd.DataFrame"
    curves: "pd.DataFrame"
    optimal_value: float
    random_value: float


def jobs_of(spec: SweepSpec) -> tuple[Job, ...]:
    """Return the jobs of a sweep: methods, their budgets, and blocks of runs, in that order."""
    check_is("spec", spec, SweepSpec)
    return tuple(
        spec.job(
            method,
            epsilon,
            env=spec.env,
            horizon=spec.horizon,
            episodes=spec.episodes,
            first_run=first,
            runs=min(spec.block, spec.runs - first),
        )
        for method in spec.methods
        for epsilon in (spec.epsilons if method.is_private else (None,))
        for first in range(0, spec.runs, spec.block)
    )


def run_sweep(
    spec: SweepSpec,
    mdp: TabularMDP | None = None,
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    database: Path | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Run every job of a sweep that is not in the database yet.

    Parameters
    ----------
    spec : SweepSpec
        What to run.
    mdp : TabularMDP, optional
        Where to run it, of the same horizon; ``spec.env`` is then only what plots call it. By
        default it is read from the environment of that id.
    backend, workers, address
        Where the work is done, see `privrl.experiments.workers.on_workers`.
    database : pathlib.Path, optional
        A file that keeps each job as soon as it is finished, whatever happens to the others,
        and from which finished jobs are taken; see `privrl.experiments.sweeps.database.Database`.
    on_progress : callable, optional
        Receives the progress of the sweep, before the first job and after each.

    Returns
    -------
    SweepResult
        The same for the same spec and library versions. A job's rows do not depend on which
        others are in the sweep, nor on where it is run.

    Raises
    ------
    ValueError
        If the environment does not exist or carries no tables, the horizons differ, a method
        cannot run, or the database is none; all before the first job runs.
    privrl.experiments.workers.JobFailed
        If a job fails none the less.
    privrl.experiments.workers.WorkersDied
        If workers die again and again.
    """
    check_is("spec", spec, SweepSpec)
    if mdp is not None:
        check_is("mdp", mdp, TabularMDP)
    check_workers(backend, workers, address)
    if mdp is None:
        env = make_env(spec.env)
        try:
            mdp = TabularMDP.from_gymnasium(env, spec.horizon)
        finally:
            env.close()
    if mdp.horizon != spec.horizon:
        raise ValueError(f"mdp must have the spec's horizon {spec.horizon}, got {mdp.horizon}.")
    jobs = jobs_of(spec)
    budgets = check_jobs(jobs, mdp)
    found = do_jobs(
        jobs,
        {spec.env: mdp},
        budgets,
        backend=backend,
        workers=workers,
        address=address,
        block=spec.block,
        database=database,
        on_progress=on_progress,
    )
    return _assembled(spec, jobs, found, mdp)


def _assembled(spec: SweepSpec, jobs: Iterable[Job], found: Found, mdp: TabularMDP) -> SweepResult:
    """Return the tables of a sweep: blocks of runs one after the other."""
    import pandas as pd  # noqa: PLC0415

    optimum = mdp.optimal_value()
    blocks: dict[tuple[Method, float | None], list[Job]] = {}
    for job in jobs:
        blocks.setdefault((job.method, job.epsilon), []).append(job)
    results, curves = [], []
    for (method, budget), those in blocks.items():
        epsilon = math.inf if budget is None else budget
        block = [found[job.key] for job in those]
        results += [_rows(job, found[job.key], block[0], optimum) for job in those]
        rewards = np.concatenate([each.rewards for each in block], axis=1)
        curves.append(_curve(spec, method.label, epsilon, rewards, optimum))
    return SweepResult(
        pd.concat(results, ignore_index=True),
        pd.concat(curves, ignore_index=True),
        optimum,
        mdp.random_value(),
    )


def _rows(job: Job, result: JobResult, cost: JobResult, optimum: float) -> "pd.DataFrame":
    """Return a row for each run of a job; what it cost is that of its first block."""
    import pandas as pd  # noqa: PLC0415

    totals, best = result.rewards[-1], optimum * job.episodes
    return pd.DataFrame(
        {
            **columns_of(job, cost),
            "episodes": job.episodes,
            "horizon": job.horizon,
            "draws": cost.draws,
            "weight": cost.weight,
            "alpha": cost.alpha,
            "sigma": cost.sigma,
            "total_reward": totals,
            "final_value": result.final,
            # Where the best is to lose little, a share of it says nothing.
            "optimal_share": totals / best if optimum > 0 else math.nan,
            "regret": best - totals,
        }
    )


def _curve(
    spec: SweepSpec, label: str, epsilon: float, rewards: FloatArray, optimum: float
) -> "pd.DataFrame":
    """Average rewards so far, shape (P, runs), over runs: in each bin, and the regret so far."""
    import pandas as pd  # noqa: PLC0415

    ends = curve_episodes(spec.episodes)
    per_episode = np.diff(rewards, axis=0, prepend=0.0) / np.diff(ends, prepend=0.0)[:, None]
    regret = optimum * ends[:, None] - rewards

    def error(values: FloatArray) -> FloatArray:
        if spec.runs == 1:
            return np.zeros(values.shape[:-1])
        return values.std(axis=-1, ddof=1) / math.sqrt(spec.runs)

    return pd.DataFrame(
        {
            "method": label,
            "epsilon": epsilon,
            "episode": ends,
            "reward_per_episode": per_episode.mean(axis=-1),
            "standard_error": error(per_episode),
            "regret": regret.mean(axis=-1),
            "regret_standard_error": error(regret),
        }
    )
