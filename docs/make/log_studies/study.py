"""Studies: how good policies are that are learned from logs, by persons, budget and knowledge."""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from log_studies.simulate import simulate_log
from log_studies.worlds import Behaviour, World
from privrl.data.logs import Log
from privrl.experiments.workers import check_workers, on_workers
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_positive
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.offline import fit_policy


@dataclass(frozen=True)
class Condition:
    """How persons of a log were treated, and what of that is public.

    Parameters
    ----------
    behaviour : "uniform" or "half-expert"
        As for `World.behaviour`.
    known : bool
        Whether the chances of actions are public.
    admissible : bool
        Whether the admissible actions of each state are public.
    """

    behaviour: Behaviour = "uniform"
    known: bool = True
    admissible: bool = True

    def __post_init__(self) -> None:
        if self.behaviour not in get_args(Behaviour):
            raise ValueError(
                f"behaviour must be one of {', '.join(get_args(Behaviour))}, got "
                f"{shown(self.behaviour)}."
            )

    def __str__(self) -> str:
        unknown = [
            word
            for word, known in (("chances", self.known), ("actions", self.admissible))
            if not known
        ]
        return f"{self.behaviour}, {' and '.join(unknown) or 'all'} {_KNOWN[not unknown]}"


_KNOWN: Final = {True: "known", False: "unknown"}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that determines a study, but for its worlds; plain data.

    Parameters
    ----------
    sizes : tuple of (int, int)
        Numbers of persons, and the number of logs of each.
    conditions : tuple of Condition
        The behaviour policies, and the public facts.
    epsilons : tuple of float or None
        Budgets: pure differential privacy of a person, with all of their episodes, in nats; None
        for no privacy.
    draws : int
        Policies that are learned of each log; one without privacy.
    seed : int
        The root of all randomness. Results of a world do not depend on the other worlds, nor those
        of a size, condition or budget on others.

    Raises
    ------
    ValueError
        If a value is out of range, or a list is empty.
    """

    sizes: tuple[tuple[int, int], ...] = ((10_000, 4), (100_000, 4), (400_000, 3))
    conditions: tuple[Condition, ...] = (
        Condition(),
        Condition("half-expert", known=False),
        Condition(admissible=False),
    )
    epsilons: tuple[float | None, ...] = (None, 10.0, 1.0, 0.1)
    draws: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for persons, logs in self.sizes:
            check_count("persons of sizes", persons)
            check_count("logs of sizes", logs)
        for epsilon in self.epsilons:
            if epsilon is not None:
                check_positive("epsilons", epsilon, "smaller means more privacy")
        check_count("draws", self.draws)
        check_count("seed", self.seed, least=0)
        for name in ("sizes", "conditions", "epsilons"):
            if not getattr(self, name):
                raise ValueError(f"{name} must hold one at least, got none.")


class _Job(NamedTuple):
    """One log, and all that is learned from it."""

    study: Study
    world: str
    persons: int
    behaviour: Behaviour
    log: int

    def __str__(self) -> str:
        return f"{self.world}, {self.persons} persons, {self.behaviour}, log {self.log}"


def run_study(
    study: Study,
    worlds: Iterable[World],
    *,
    backend: str = "sequential",
    workers: int | None = None,
    on_progress: Callable[[str], object] | None = None,
) -> pd.DataFrame:
    """Learn policies from logs of simulated persons, and score them exactly.

    Parameters
    ----------
    study : Study
        What to do.
    worlds : iterable of World
        Where, of different names.
    backend : str
        As for `privrl.experiments.workers.on_workers`.
    workers : int, optional
        As for `privrl.experiments.workers.on_workers`.
    on_progress : callable, optional
        Called with a text after each log.

    Returns
    -------
    pandas.DataFrame
        A row for each policy, whatever the backend: ``world``, ``persons``, ``condition``,
        ``behaviour``, ``known``, ``admissible``, ``epsilon`` (infinite without privacy), ``log``,
        ``draw``, ``treated`` (the score of the behaviour policy), ``kind`` and ``signal`` of
        `privrl.offline.LoggedPolicy`, ``score`` and ``seconds``.

    Raises
    ------
    ValueError
        If two worlds have one name.
    privrl.experiments.workers.JobFailed
        If a job fails.
    privrl.experiments.workers.WorkersDied
        If workers die again and again.
    """
    check_workers(backend, workers, None)
    by_name: dict[str, World] = {}
    for world in worlds:
        if by_name.setdefault(world.name, world) is not world:
            raise ValueError(f"worlds must have different names, got two of {shown(world.name)}.")
    behaviours = dict.fromkeys(condition.behaviour for condition in study.conditions)
    jobs = [
        _Job(study, name, persons, behaviour, log)
        for persons, logs in sorted(study.sizes, reverse=True)  # the longest first
        for name in by_name
        for behaviour in behaviours
        for log in range(logs)
    ]
    rows = []
    for job, found in on_workers(_learn, jobs, by_name, backend=backend, workers=workers):
        rows += found
        if on_progress is not None:
            on_progress(str(job))
    order = {name: number for number, name in enumerate(by_name)}
    order |= {str(each): number for number, each in enumerate(study.conditions)}
    # Names in their order, budgets from none downwards.
    return pd.DataFrame(rows).sort_values(
        ["world", "persons", "condition", "epsilon", "log", "draw"],
        ascending=[True, True, True, False, True, True],
        key=lambda column: column.map(order) if column.name in ("world", "condition") else column,
        ignore_index=True,
    )


def _learn(job: _Job, worlds: Mapping[str, World]) -> list[dict[str, object]]:
    study, world = job.study, worlds[job.world]
    chances = world.behaviour(job.behaviour)
    treated = world.score(chances)
    place = (study.seed, job.world, job.persons, job.behaviour, job.log)
    log = simulate_log(world, chances, job.persons, _generator(*place))
    rows: list[dict[str, object]] = []
    for condition in study.conditions:
        if condition.behaviour != job.behaviour:
            continue
        for epsilon in study.epsilons:
            for draw in range(1 if epsilon is None else study.draws):
                rng = _generator(*place, condition, epsilon, draw)
                rows.append(
                    {
                        "world": job.world,
                        "persons": job.persons,
                        "condition": str(condition),
                        "behaviour": condition.behaviour,
                        "known": condition.known,
                        "admissible": condition.admissible,
                        "epsilon": math.inf if epsilon is None else epsilon,
                        "log": job.log,
                        "draw": draw,
                        "treated": treated,
                        **_scored(world, log, condition, epsilon, rng),
                    }
                )
    return rows


def _scored(
    world: World, log: Log, condition: Condition, epsilon: float | None, rng: np.random.Generator
) -> dict[str, object]:
    chances = world.behaviour(condition.behaviour)
    public: FloatArray | Literal["uniform"] | None = chances if condition.known else None
    if condition.known and condition.behaviour == "uniform":
        public = "uniform"  # which says nothing of which actions there are
    admissible: BoolArray | None = world.admissible if condition.admissible else None
    begin = perf_counter()
    fitted = fit_policy(
        log,
        epsilon=epsilon,
        discount=world.discount,
        admissible=admissible,
        behaviour=public,
        rng=rng,
    )
    seconds = perf_counter() - begin
    score = world.score(world.chances(fitted.action, chances))
    return {"kind": fitted.kind, "signal": fitted.signal, "score": score, "seconds": seconds}


def _generator(*words: object) -> np.random.Generator:
    """Return a generator for a place of a study, a separate one for each."""
    return np.random.default_rng([zlib.crc32(str(word).encode()) for word in words])
