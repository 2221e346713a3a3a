"""Jobs: the parts that a sweep is made of, each a pure function of plain data.

A job is one method at one budget, for one block of runs. Its randomness comes from the root
seed and from what the job is, so its result is the same wherever, whenever and beside whatever
it is run. Several budgets of a method go side by side, as one array program in which each draws its
own random numbers: less work by far where runs are few.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from numbers import Real
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import RenyiDP, Target, target_of
from privrl.agents import TabularAgent
from privrl.agents.methods import Method, Task, facts_of_tables, make_agent, renyi_budget
from privrl.agents.schedules import schedule_named
from privrl.agents.training import Callback, learn_counts
from privrl.envs import TabularMDP
from privrl.experiments import memory
from privrl.experiments.names import rl_relation
from privrl.experiments.specs import Spec
from privrl.numerics.randomness import VectorisedGenerator
from privrl.numerics.special import FloatArray

_CURVE_POINTS = 60
_RUNS_PER_DRAW = 150  # a draw takes as long as so many more runs in it; measured on RiverSwim,
_CELLS_PER_RUN = 72  # whose tables have so many cells
_DRAWS_PER_JOB = 20  # and a job as long as so many more draws, for its calibration

Budgets = Mapping[str, RenyiDP | None]
"""What samplers can spend, by the keys of jobs."""


@dataclass(frozen=True, kw_only=True)
class Job(Spec):
    """One method at one budget, for one block of runs; plain data.

    Parameters
    ----------
    env : str
        What the environment, or the task, is called.
    horizon, episodes : int
        Steps of an episode, episodes of a run.
    method : Method
        How the agent learns.
    relation : str
        What one neighbour changes.
    epsilon : float or None
        Budget of a whole run (nats); None without privacy.
    delta : float
        Of the budget; of a Renyi budget, at which the (epsilon, delta) is reported.
    renyi_order : float or None
        The order of a Renyi budget.
    first_run, runs : int
        The block: its first run and how many there are.
    seed : int
        Root of all randomness of the sweep.
    """

    called: ClassVar[str] = "job"

    env: str
    horizon: int
    episodes: int
    method: Method
    relation: str
    epsilon: float | None
    delta: float
    renyi_order: float | None
    first_run: int
    runs: int
    seed: int

    @property
    def target(self) -> Target | None:
        """The privacy of a whole run."""
        if self.epsilon is None:
            return None
        return target_of(self.epsilon, self.delta, self.renyi_order)

    @property
    def key(self) -> str:
        """A hash, 64 hexadecimal digits, of all that determines the result but the versions."""
        return self._hash().hex()

    def seed_sequence(self) -> np.random.SeedSequence:
        """Return the root of the job's randomness: no other job of any sweep has it."""
        # A delta that is only reported changes no number; one that is spent does.
        reported = self.epsilon is None or self.renyi_order is not None
        words = np.frombuffer(self._hash("seed", *["delta"] * reported), dtype="<u4")
        return np.random.SeedSequence([self.seed, *words.tolist()])

    def _hash(self, *without: str) -> bytes:
        content = {name: value for name, value in self.to_dict().items() if name not in without}
        content["order"] = content.pop("renyi_order")
        content["method"] = {n: v for n, v in content["method"].items() if n != "label"}
        text = json.dumps(_canonical(content), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).digest()

    def __str__(self) -> str:
        budget = "" if self.epsilon is None else f" at epsilon = {self.epsilon:.12g}"
        last = self.first_run + self.runs - 1
        return f"{self.method.label}{budget}, runs {self.first_run} to {last} of {self.env}"


@dataclass(frozen=True, eq=False)
class JobResult:
    """What a job found.

    Attributes
    ----------
    rewards : array, shape (P, runs)
        Reward of each run up to the end of the first `curve_episodes`, and so on.
    final : array, shape (runs,)
        Expected reward of an episode, exact, under the policy that each run would deploy.
    seconds : float
        How long it took.
    draws : int
        How often the agent drew.
    spent, epsilon_delta : float
        What that cost: in the budget's own measure, and epsilon at the delta.
    weight, alpha, sigma : float
        What a row of transition counts was released with; NaN where the sampler has no such.
    """

    rewards: FloatArray
    final: FloatArray
    seconds: float
    draws: int
    spent: float
    epsilon_delta: float
    weight: float
    alpha: float
    sigma: float


def columns_of(job: Job, result: JobResult) -> dict[str, Any]:
    """Return the columns that the tables of sweeps and of suites have in common."""
    method = job.method
    return {
        "method": method.label,
        "agent": method.agent,
        "sampler": method.sampler,
        "schedule": method.schedule,
        "relation": job.relation,
        "renyi_order": math.nan if job.renyi_order is None else job.renyi_order,
        "epsilon": math.inf if job.epsilon is None else job.epsilon,
        "spent": result.spent,
        "delta": job.delta,
        "epsilon_delta": result.epsilon_delta,
        "run": np.arange(job.first_run, job.first_run + job.runs),
        "seed": job.seed,
    }


@dataclass(frozen=True)
class JobsAbreast:
    """Jobs that go side by side: one method, in blocks of as many runs, at several budgets."""

    jobs: tuple[Job, ...]
    budgets: tuple[RenyiDP | None, ...] = ()  # of their samplers, if they are known

    def __str__(self) -> str:
        return "; ".join(map(str, self.jobs))


def abreast(
    jobs: Iterable[Job],
    mdps: Mapping[str, TabularMDP],
    most_runs_abreast: int,
    budgets: Budgets | None = None,
) -> list[JobsAbreast]:
    """Put jobs side by side, as many as have no more runs than that, and fit into memory.

    Jobs of an agent whose draws have no row for each budget stay by themselves. So do jobs of a
    single run, which is planned for by itself, and rounded otherwise.
    """
    alike: dict[object, list[Job]] = {}
    for job in jobs:
        by_itself = job.runs == 1 or not job.method.side_by_side
        alike.setdefault(job if by_itself else replace(job, epsilon=None), []).append(job)
    found = []
    for those in alike.values():
        first = those[0]
        most = min(most_runs_abreast, most_runs(first, mdps[first.env])) // first.runs
        step = max(1, most)
        parts = (those[start : start + step] for start in range(0, len(those), step))
        found += [
            JobsAbreast(tuple(part), tuple(budgets[job.key] for job in part) if budgets else ())
            for part in parts
        ]
    return found


def run_job(job: Job, mdp: TabularMDP, *, callback: Callback | None = None) -> JobResult:
    """Run all runs of a job, as one batched agent.

    Parameters
    ----------
    job : Job
        What to run.
    mdp : TabularMDP
        Where.
    callback : callable, optional
        Is called for each stretch of episodes under one policy.

    Returns
    -------
    JobResult
        The same, but for its time, for the same job, tables and library versions.

    Raises
    ------
    ValueError
        If the method does not suit the environment, or cannot meet the budget.
    """
    return run_abreast(JobsAbreast((job,)), mdp, callback=callback)[0]


def run_abreast(
    todo: JobsAbreast, mdp: TabularMDP, *, callback: Callback | None = None
) -> list[JobResult]:
    """Run jobs side by side; each has the result that `run_job` has, and a part of the time."""
    began = perf_counter()
    job, jobs = todo.jobs[0], todo.jobs
    agent_rng, env_rng = (
        each[0] if len(jobs) == 1 else VectorisedGenerator(each)
        for each in zip(
            *(map(np.random.default_rng, job.seed_sequence().spawn(2)) for job in jobs), strict=True
        )
    )
    targets = [each.target for each in jobs]
    agent = make_agent(
        *(job.method, _task(job, mdp), targets, agent_rng), runs=job.runs, budgets=todo.budgets
    )
    starts, rewards = learn_counts(agent, mdp, job.episodes, env_rng, callback=callback)
    so_far = np.concatenate([np.zeros((1, *agent.batch_shape)), rewards.cumsum(axis=0)])
    at = _between([*starts, job.episodes], so_far, curve_episodes(job.episodes))
    at[-1] = so_far[-1]  # without the rounding of the interpolation
    spent = epsilon = np.full(len(jobs), math.inf)
    if job.method.is_private:
        accountant = agent.accountant
        assert isinstance(accountant, RdpAccountant)
        spent = epsilon = accountant.epsilon(job.delta)
        if job.renyi_order is not None:
            spent = accountant.spent(job.renyi_order)
        # A sampler of a single budget states one number.
        spent, epsilon = (np.broadcast_to(each, len(jobs)) for each in (spent, epsilon))
    settings = _settings(agent)
    seconds = (perf_counter() - began) / len(jobs)
    return [
        JobResult(
            rewards=at[:, i],
            final=np.asarray(mdp.policy_value(agent.policy[i : i + 1]))[0],
            seconds=seconds,
            draws=agent.draws,
            spent=float(spent[i]),
            epsilon_delta=float(epsilon[i]),
            **{name: float(values[i]) for name, values in settings.items()},
        )
        for i in range(len(jobs))
    ]


def work(job: Job, mdp: TabularMDP, *, upto: int | None = None) -> float:
    """Return how long a job takes, or its first so many episodes, about, beside others."""
    episodes = job.episodes if upto is None else upto
    draws = _DRAWS_PER_JOB
    schedules = [job.method.draws_of(job.episodes)]
    if job.method.resamples is not None:
        schedules.append(schedule_named(job.method.resamples))
    for schedule in schedules:
        draws += len(schedule.starts(episodes))
    cells = math.prod(_table(job, mdp))
    return float(draws * (_RUNS_PER_DRAW * _CELLS_PER_RUN + job.runs * cells))


def most_runs(job: Job, mdp: TabularMDP) -> int:
    """Return how many runs of a job's method fit into memory at a time, >= 0."""
    return memory.most_runs(job.method, _table(job, mdp), job.episodes)


def check_jobs(jobs: Iterable[Job], mdp: TabularMDP) -> Budgets:
    """Check, before any of them runs, that jobs can run, and return their samplers' budgets.

    Raises
    ------
    ValueError
        If one cannot, or needs too much memory.
    """
    checked: dict[object, RenyiDP | None] = {}
    budgets = {}
    for job in jobs:
        memory.check_memory(job.method, _table(job, mdp), job.episodes, runs=job.runs)
        alike = replace(job, first_run=0, runs=1)
        if alike not in checked:
            task = _task(job, mdp)
            checked[alike] = budget = renyi_budget(job.target, job.method, task)
            make_agent(job.method, task, [job.target], 0, runs=1, budgets=[budget])
        budgets[job.key] = checked[alike]
    return budgets


def conditions(mdp: TabularMDP) -> dict[str, str]:
    """Return what results depend on beside the job: the tables, and versions of libraries."""
    tables = hashlib.sha256(repr((mdp.reward.shape, mdp.horizon)).encode())
    for table in (mdp.transition, mdp.reward, mdp.start):
        tables.update(np.ascontiguousarray(table).tobytes())
    return {"tables": tables.hexdigest(), **versions()}


def versions() -> dict[str, str]:
    """Return the versions of the libraries that results depend on."""
    return {name: version(name) for name in ("privrl", "numpy", "scipy")}


def curve_episodes(episodes: int) -> FloatArray:
    """Return the numbers of episodes, shape (P,) with P <= 60, after which rewards are kept."""
    return np.unique(np.linspace(0, episodes, _CURVE_POINTS + 1).round())[1:]


def _task(job: Job, mdp: TabularMDP) -> Task:
    """Return the public facts of what a job learns."""
    support = mdp.support if job.method.support else None
    facts = facts_of_tables(mdp, support)
    return Task.of(
        facts,
        relation=rl_relation(
            job.relation, horizon=job.horizon, arrival_rewards=facts.arrival_rewards
        ),
        episodes=job.episodes,
        expected_reward=mdp.expected_reward,
        support=support,
        best_policy=mdp.plan()[0] if job.method.kind.needs_tables else None,
    )


def _settings(agent: TabularAgent) -> dict[str, FloatArray]:
    """Return what a row of transition counts was released with, at each budget."""
    sampler, budgets = agent.sampler, agent.batch_shape[0]
    found = {name: np.full(budgets, math.nan) for name in ("weight", "alpha", "sigma")}
    settings = getattr(sampler, "settings", ())
    told = {name: getattr(sampler, name) for name in settings if name in found}
    return found | {name: np.broadcast_to(each, budgets) for name, each in told.items()}


def _between(known: Sequence[int], values: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return what lies on straight lines between values, shape (n, ...), at points known."""
    x = np.asarray(known, np.float64)
    left = np.minimum(x.searchsorted(wanted, side="right"), len(x) - 1) - 1
    part = np.stack([x[left + 1] - wanted, wanted - x[left]]) * (1 / (x[left + 1] - x[left]))
    before, after = part.reshape(2, -1, *[1] * (values.ndim - 1))
    return values[left] * before + values[left + 1] * after


def _table(job: Job, mdp: TabularMDP) -> tuple[int, int, int]:
    """Return the shape of a run's table of transitions."""
    width = mdp.support.width if job.method.support else mdp.n_states
    return mdp.n_states, mdp.n_actions, width


def _canonical(data: Any) -> Any:
    """Return plain data so that 2 and 2.0 are the same: numbers as floats, where those are exact.

    A seed can have more digits than a float.
    """
    if isinstance(data, dict):
        return {name: _canonical(value) for name, value in data.items()}
    if isinstance(data, Real) and not isinstance(data, bool):
        exact = not isinstance(data, int) or abs(data) <= 2**53
        return float(data) if exact else data
    return data
