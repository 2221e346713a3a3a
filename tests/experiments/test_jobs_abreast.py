"""Jobs side by side have the results that each has by itself, bit for bit."""

from dataclasses import fields, replace

import numpy as np
import pytest
from made import job_of
from numpy.testing import assert_array_equal

from privrl.agents import methods
from privrl.agents.methods import Method
from privrl.envs import riverswim, rollouts
from privrl.experiments.sweeps.jobs import (
    Job,
    JobsAbreast,
    abreast,
    check_jobs,
    run_abreast,
    run_job,
)
from privrl.numerics import exact_dirichlet

JOB = job_of(episodes=45, runs=2)
BUDGETS = (0.1, 1.0, 10.0)
METHODS = (
    Method(),
    Method(schedule="geometric:1.5", resamples="every-episode"),
    Method(sampler="noisy-counts:buffered", schedule="every-episode", rewards="known"),
    Method(sampler="diffuse", schedule="every-episode", alpha=10.0),
    Method(sampler="concentrated", window=2),
    Method(agent="rlsvi"),
    Method(agent="dp-ucbvi"),
    Method(agent="explore-then-plan"),
)


def side_by_side(method: Method, **changes: object) -> JobsAbreast:
    jobs = [replace(JOB, method=method, epsilon=e, **changes) for e in BUDGETS]
    (together,) = abreast(jobs, {JOB.env: riverswim()}, 100)
    assert together.jobs == tuple(jobs)
    return together


def same(together: JobsAbreast) -> None:
    mdp = riverswim()
    for job, found in zip(together.jobs, run_abreast(together, mdp), strict=True):
        alone = run_job(job, mdp)
        for field in fields(found):
            if field.name != "seconds":
                assert_array_equal(getattr(found, field.name), getattr(alone, field.name))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_results_are_those_of_each_alone(method: Method) -> None:
    same(side_by_side(method))


@pytest.mark.slow
def test_samplers_are_calibrated_by_the_check_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, changes = riverswim(), {"renyi_order": None, "delta": 1e-5}
    jobs = [replace(JOB, method=Method(sampler="diffuse"), epsilon=e, **changes) for e in BUDGETS]
    budgets = check_jobs(jobs, mdp)
    (together,) = abreast(jobs, {JOB.env: mdp}, 100, budgets)
    alone = [run_job(job, mdp) for job in jobs]
    monkeypatch.setattr(methods, "renyi_budget", None)
    for mine, own in zip(run_abreast(together, mdp), alone, strict=True):
        assert_array_equal(mine.rewards, own.rewards)
        assert (mine.spent, mine.weight) == (own.spent, own.weight)


@pytest.mark.slow
def test_so_they_are_where_tables_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are drawn, or walked, one after the other; and where all go as flows."""
    monkeypatch.setattr(exact_dirichlet, "_CHUNK", 60)
    monkeypatch.setattr(rollouts, "_DRAWS_AT_ONCE", 40)
    same(side_by_side(Method(sampler="diffuse", schedule="geometric:1.5"), episodes=400))


def test_who_goes_abreast() -> None:
    mdps = {JOB.env: riverswim()}

    def sizes(*jobs: Job, most: int = 100) -> list[int]:
        return [len(each.jobs) for each in abreast(jobs, mdps, most)]

    budgets = [replace(JOB, epsilon=e) for e in np.linspace(0.1, 1, 10)]
    assert sizes(*budgets) == [10]
    assert sizes(*budgets, most=7) == [3, 3, 3, 1]
    assert sizes(*budgets, most=1) == [1] * 10
    assert sizes(JOB, replace(JOB, seed=1), replace(JOB, first_run=2)) == [1, 1, 1]
    assert sizes(*(replace(job, runs=1) for job in budgets)) == [1] * 10
    free = replace(JOB, method=Method(sampler="non-private"), epsilon=None)
    sparse = [replace(job, method=Method(agent="sparse-psrl")) for job in budgets]
    assert sizes(free, *sparse) == [1] * 11
