"""A suite: methods at several budgets on many tasks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from privrl.accounting.targets import DEFAULT_DELTA
from privrl.agents.methods import NO_PRIVACY, Method
from privrl.envs import SUITE, TabularMDP, benchmark
from privrl.envs.suite import Benchmark
from privrl.experiments.specs import Block, Delta, RenyiOrder, Runs, Seed, Unit
from privrl.experiments.sweeps.comparison import Comparison
from privrl.experiments.sweeps.execution import Found, do_jobs
from privrl.experiments.sweeps.jobs import Job, check_jobs, columns_of, most_runs
from privrl.experiments.sweeps.progress import SweepProgress
from privrl.experiments.workers import check_workers
from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is

_PART = 0.25  # of what a sweep's block may hold: Taxi's 5 runs were seen to take 2 GB

_Episodes = Annotated[
    tuple[int, ...] | None, "Episodes of a run, in place of each task's own; several with commas."
]


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Comparison):
    """Everything that determines a suite; plain data.

    Parameters
    ----------
    tasks : tuple of str
        What is learned: names that `privrl.envs.benchmark` knows, or ``"all"``, ``"set"`` and
        ``"judged"``, which stand for the tasks of `privrl.envs.SUITE` or a half of them.
    methods : tuple of Method
        What is compared, under labels of their own.
    epsilons : tuple of float or None
        Budgets of a whole run, in nats: (epsilon, delta)-differential privacy; None is no privacy.
        A method that is not private is run without, once.
    delta : float
        Of all budgets, >= 0 and < 1; 0 is pure privacy.
    renyi_order : float, optional
        As for `privrl.experiments.SweepSpec`.
    relation : str
        What one neighbour changes.
    episodes : tuple of int, optional
        Episodes of a run; each task is learned for each. By default its own.
    runs : int
        Independent runs of each method, budget and task.
    seed : int
        The root of all randomness, see `privrl.experiments.SweepSpec`.
    block : int
        Most runs that are computed together; fewer where tables are large. Results depend on it
        as on the seed.

    Raises
    ------
    ValueError
        If a value is out of range or a name unknown.
    """

    tasks: tuple[str, ...] = ("all",)
    methods: tuple[Method, ...] = field(default=(Method(),))
    epsilons: tuple[float | None, ...] = (None, 1.0, 0.1)
    relation: Unit = "replace-step"
    episodes: _Episodes = None
    runs: Runs = 20
    seed: Seed = 0
    delta: Delta = DEFAULT_DELTA
    renyi_order: RenyiOrder = None
    block: Block = 20

    def __post_init__(self) -> None:
        self._check()
        tasks = tuple(dict.fromkeys(name for word in self.tasks for name in _names(word)))
        if not tasks:
            raise ValueError("tasks must name at least one, got none.")
        names = [benchmark(name).name for name in tasks]
        if len(set(names)) < len(names):
            raise ValueError(f"tasks must differ in name, got {', '.join(names)}.")
        object.__setattr__(self, "tasks", tasks)
        if self.episodes is not None:
            episodes = tuple(check_count("episodes", _whole(number)) for number in self.episodes)
            if not episodes or len(set(episodes)) < len(episodes):
                raise ValueError(f"episodes must be different numbers, got {shown(self.episodes)}.")
            object.__setattr__(self, "episodes", episodes)


@dataclass(frozen=True)
class SuiteResult(InHtml):
    """What a suite found.

    Attributes
    ----------
    results : pandas.DataFrame
        One row for each task, number of episodes, method, budget (infinite without privacy) and
        run. ``learning`` and ``final`` say how far it came from chance, 0, to the optimum, 1: the
        mean of all its episodes, and the exact value of the policy that it would deploy;
        ``learning_reward`` and ``final_reward`` are the same as rewards of an episode.
        ``seconds`` is the run's part of its block's time.
    """

    results: pd.DataFrame


def jobs_of(spec: SuiteSpec) -> tuple[Job, ...]:
    """Return the jobs of a suite: tasks, episodes, methods, budgets and blocks of runs."""
    return tuple(job for lesson in _lessons(spec) for job in _jobs(spec, lesson))


def run_suite(
    spec: SuiteSpec,
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    database: Path | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> SuiteResult:
    """Run every job of a suite that is not in the database yet.

    Parameters
    ----------
    spec : SuiteSpec
        What to run.
    backend, workers, address
        Where the work is done, see `privrl.experiments.workers.on_workers`.
    database : pathlib.Path, optional
        A file that keeps each job as soon as it is finished, and from which finished jobs are
        taken; see `privrl.experiments.sweeps.database.Database`.
    on_progress : callable, optional
        Receives the progress of the suite, before the first job and after each.

    Returns
    -------
    SuiteResult
        The same, but for its times, for the same spec and library versions. A job's rows do not
        depend on which others are in the suite, nor on where it is run.

    Raises
    ------
    ValueError
        If a file holds no tables, a task has nothing to learn, a method cannot run on a task, or
        the database is none; all before the first job runs.
    privrl.experiments.workers.JobFailed
        If a job fails none the less.
    privrl.experiments.workers.WorkersDied
        If workers die again and again.
    """
    check_workers(backend, workers, address)
    lessons = list(_lessons(spec))
    jobs = {lesson: _jobs(spec, lesson) for lesson in lessons}
    budgets: dict[str, Any] = {}
    for lesson, those in jobs.items():
        try:
            _check_gain(lesson.task)
            budgets |= check_jobs(those, lesson.mdp)
        except ValueError as error:
            raise ValueError(f"task {shown(lesson.task.name)}: {error}") from error
    found = do_jobs(
        [job for those in jobs.values() for job in those],
        {lesson.task.name: lesson.mdp for lesson in lessons},
        budgets,
        backend=backend,
        workers=workers,
        address=address,
        database=database,
        on_progress=on_progress,
    )
    rows = [_rows(lesson, job, found) for lesson, those in jobs.items() for job in those]
    return SuiteResult(pd.concat(rows, ignore_index=True))


class _Lesson(NamedTuple):
    """A task, and for how many episodes it is learned."""

    task: Benchmark
    episodes: int

    @property
    def mdp(self) -> TabularMDP:
        return self.task.mdp


def _lessons(spec: SuiteSpec) -> Iterator[_Lesson]:
    check_is("spec", spec, SuiteSpec)
    for name in spec.tasks:
        task = benchmark(name)
        for episodes in spec.episodes or (task.episodes,):
            yield _Lesson(task, episodes)


def _jobs(spec: SuiteSpec, lesson: _Lesson) -> list[Job]:
    whole = (
        spec.job(
            method,
            epsilon,
            env=lesson.task.name,
            horizon=lesson.mdp.horizon,
            episodes=lesson.episodes,
            runs=spec.runs,
        )
        for method, epsilon in _contestants(spec)
    )
    return [block for job in whole for block in _blocks(job, spec.block, lesson.mdp)]


def _contestants(spec: SuiteSpec) -> Iterator[tuple[Method, float | None]]:
    """Return methods and their budgets, under the methods' own labels also without privacy."""
    for method in spec.methods:
        for epsilon in spec.epsilons if method.is_private else (None,):
            free = epsilon is None and method.is_private
            yield (_without_privacy(method) if free else method), epsilon


def _without_privacy(method: Method) -> Method:
    return replace(method, sampler=NO_PRIVACY, window=None)


def _blocks(job: Job, most: int, mdp: TabularMDP) -> Iterator[Job]:
    """Return a job in blocks that fit into memory; what does not fit at all is refused later."""
    size = max(1, min(most, int(_PART * most_runs(job, mdp))))
    for first in range(0, job.runs, size):
        yield replace(job, first_run=first, runs=min(size, job.runs - first))


def _names(word: str) -> Iterable[str]:
    """Return the names of tasks that a word stands for."""
    if word in ("all", "set", "judged"):
        return [name for name, task in SUITE.items() if word in ("all", task.half)]
    return [word]


def _whole(number: Any) -> Any:
    """Return 1e5, as the command line reads it, as a whole number; what is none stays."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _check_gain(task: Benchmark) -> None:
    if not task.optimal_value - task.random_value > 1e-9 * max(1, abs(task.optimal_value)):
        raise ValueError(
            f"it must have something to learn, but random actions get {task.random_value:g} and "
            f"the best {task.optimal_value:g}; lengthen the episodes, or leave it out."
        )


def _rows(lesson: _Lesson, job: Job, found: Found) -> pd.DataFrame:
    """Return a row for each run of a job."""
    task, result = lesson.task, found[job.key]
    learning = result.rewards[-1] / job.episodes
    return pd.DataFrame(
        {
            "task": task.name,
            "half": task.half,
            "states": lesson.mdp.n_states,
            "actions": lesson.mdp.n_actions,
            "horizon": lesson.mdp.horizon,
            "episodes": job.episodes,
            **columns_of(job, result),
            "draws": result.draws,
            "seconds": result.seconds / job.runs,
            "random_value": task.random_value,
            "optimal_value": task.optimal_value,
            "learning_reward": learning,
            "final_reward": result.final,
            "learning": task.share(learning),
            "final": task.share(result.final),
        }
    )
