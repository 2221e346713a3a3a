"""Jobs done on workers: what is kept of an earlier time is not done again."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from joblib import cpu_count  # type: ignore[import-untyped] # has no types

from privrl.agents.training import Stretch
from privrl.envs import TabularMDP
from privrl.experiments.sweeps.database import Database
from privrl.experiments.sweeps.jobs import (
    Budgets,
    Job,
    JobResult,
    JobsAbreast,
    abreast,
    conditions,
    run_abreast,
    versions,
    work,
)
from privrl.experiments.sweeps.progress import Counts, SweepProgress, counts
from privrl.experiments.workers import on_workers

Found = dict[str, JobResult]  # by the keys of jobs
_WORTH_A_WORKER: Final = 0.25  # of the longest job, that another worker has to do


def do_jobs(
    jobs: Sequence[Job],
    mdps: Mapping[str, TabularMDP],
    budgets: Budgets,
    *,
    backend: str,
    workers: int | None = None,
    address: str | None = None,
    block: int = 1,
    database: Path | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> Found:
    """Do those jobs that are not in the database yet.

    Parameters
    ----------
    jobs : sequence of Job
        What to do. Those that differ in what they are called alone are done once.
    mdps : mapping of str to TabularMDP
        Where, by the jobs' ``env``.
    budgets : mapping of str to RenyiDP or None
        What `privrl.experiments.sweeps.jobs.check_jobs` returned of them.
    backend, workers, address
        Where the work is done, see `privrl.experiments.workers.on_workers`. By default loky has as
        many workers as jobs keep busy.
    block : int
        Most runs that go side by side where budgets do, see `privrl.experiments.sweeps.jobs`.
    database : pathlib.Path, optional
        A file that keeps each job as soon as it is finished, and from which finished jobs are
        taken; see `privrl.experiments.sweeps.database.Database`.
    on_progress : callable, optional
        Receives the progress, before the first job and after each.

    Returns
    -------
    dict
        The jobs' results, by their keys.

    Raises
    ------
    ValueError
        If the database is none.
    privrl.experiments.workers.JobFailed
        If a job fails.
    privrl.experiments.workers.WorkersDied
        If workers die again and again.
    """
    todo: dict[str, Job] = {}
    for job in jobs:
        todo.setdefault(job.key, job)
    with ExitStack() as stack:
        kept: dict[str, Database] = {}  # one file; what results depend on is each task's own
        if database is not None:
            for env, mdp in mdps.items():
                kept[env] = stack.enter_context(Database(database, conditions(mdp)))
        found: Found = {}
        for env, those in kept.items():
            there = those.finished(job for job in todo.values() if job.env == env)
            found |= {job.key: result for job, result in there.items()}
        effort = {key: work(job, mdps[job.env]) for key, job in todo.items() if key not in found}
        missing = sorted(effort, key=effort.__getitem__, reverse=True)
        all_of_it, already = sum(effort.values()), len(found)
        every = sum(todo[key].episodes * todo[key].runs for key in missing)
        running = stack.enter_context(counts())

        def progress() -> SweepProgress:
            ended, had = len(found), running.read()
            done, episodes = 0.0, 0
            for key in missing:
                job = todo[key]
                if key in found:
                    done += effort[key]
                    episodes += job.episodes * job.runs
                elif key in had:
                    done += work(job, mdps[job.env], upto=had[key])
                    episodes += had[key] * job.runs
            share = done / all_of_it if missing else 1.0
            return SweepProgress(ended, len(todo), already, share, episodes, every, progress)

        def tell() -> None:
            if on_progress is not None:
                on_progress(progress())

        tell()
        groups = abreast([todo[key] for key in missing], mdps, block, budgets)
        if workers is None and backend == "loky":
            workers = _useful([sum(effort[job.key] for job in group.jobs) for group in groups])
        for done, results in on_workers(
            _do_there,
            groups,
            (dict(mdps), versions(), running),
            backend=backend,
            workers=workers,
            address=address,
        ):
            for job, result in zip(done.jobs, results, strict=True):
                if database is not None:
                    kept[job.env].save(job, result)
                found[job.key] = result
                running.drop(job.key)
                tell()
    return found


def _useful(efforts: Sequence[float]) -> int:
    """Return how many workers to start, at most one for each core.

    No sweep is shorter than its longest job. A worker that has less to do than a quarter of that
    costs more than it saves.
    """
    others = sum(efforts) / max(efforts, default=1.0) - 1
    return min(cpu_count(), 1 + max(0, math.ceil(others - _WORTH_A_WORKER)))


def _do_there(
    todo: JobsAbreast, shared: tuple[dict[str, TabularMDP], dict[str, str], Counts]
) -> list[JobResult]:
    """Run jobs, wherever this is, if the libraries here are those that the sweep began with."""
    mdps, wanted, running = shared
    if versions() != wanted:
        raise ValueError(f"workers must have the versions {wanted}, got {versions()}.")
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore", UserWarning)  # said when the jobs were checked
        counting = [stack.enter_context(running.counting(job.key)) for job in todo.jobs]

        def count(stretch: Stretch) -> None:
            for tell in counting:
                if tell is not None:
                    tell(stretch)

        return run_abreast(todo, mdps[todo.jobs[0].env], callback=count)
