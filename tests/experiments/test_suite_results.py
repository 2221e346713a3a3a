"""Suites: what they find is what their jobs earn, on the scale from chance to the optimum."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privrl.agents import PSRL
from privrl.agents.methods import Method
from privrl.envs import SUITE, TabularMDP, benchmark, save_tables
from privrl.experiments.suites import SuiteSpec, run_suite
from privrl.experiments.suites.presets import PRESETS, preset
from privrl.experiments.suites.suite import jobs_of
from privrl.experiments.sweeps import SweepSpec, run_sweep
from privrl.experiments.sweeps.jobs import run_job

TASKS = ("Queue3", "RiverSwim6", "Garnet5x3-1")
ORACLE, RANDOM = Method(agent="oracle"), Method(agent="random")


def small(**changes: Any) -> SuiteSpec:
    return SuiteSpec(**{"tasks": TASKS, "episodes": (40,), "runs": 3} | changes)


def run(spec: SuiteSpec, **options: Any) -> pd.DataFrame:
    return run_suite(spec, backend="sequential", **options).results


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    first, second = (table.drop(columns="seconds") for table in (first, second))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


@pytest.mark.slow
def test_a_row_for_each_task_method_budget_and_run() -> None:
    results = run(small(methods=(Method(), ORACLE)))
    sizes = results.groupby(["task", "method", "epsilon"], sort=False).size()
    assert tuple(sizes.index.levels[0]) == TASKS
    assert (sizes == 3).all()
    assert len(sizes) == 3 * (3 + 1)  # no privacy and two budgets, and the best policy once
    assert (results["spent"] <= results["epsilon"]).all()
    assert np.isfinite(results.loc[np.isfinite(results["epsilon"]), "epsilon_delta"]).all()
    assert (results["seconds"] > 0).all()
    assert results.query("task == 'RiverSwim6'")["half"].eq("set").all()
    assert results.query("task != 'RiverSwim6'")["half"].eq("judged").all()


@pytest.mark.slow
def test_the_best_policy_has_all_and_chance_nothing() -> None:
    """What is deployed is valued exactly. A mean of 30 runs, of which there are 12, is 5 of its
    standard errors off with probability 3e-5 (Student's t)."""
    results = run(small(methods=(ORACLE, RANDOM), runs=30, episodes=(100,), block=30))
    for (_, agent), rows in results.groupby(["task", "agent"]):
        aim = float(agent == "oracle")
        if aim:
            np.testing.assert_allclose(rows["final"], 1, atol=1e-12)
        for share in (rows["learning"], rows["final"]):
            assert share.mean() == pytest.approx(aim, abs=5 * share.sem() + 1e-9)
    assert results.groupby("agent")["learning"].sem().max() < 0.02  # that says something


@pytest.mark.slow
def test_shares_are_those_of_the_rewards_that_a_sweep_finds() -> None:
    """The same jobs: as a sweep of the task's tables, and on the task's own scale."""
    task = benchmark("Garnet5x3-1")
    found = run(small(tasks=("Garnet5x3-1",), epsilons=(1.0,)))
    sweep = SweepSpec(env="Garnet5x3-1", epsilons=(1.0,), episodes=40, horizon=20, runs=3)
    wanted = run_sweep(sweep, task.mdp, backend="sequential").results
    np.testing.assert_array_equal(found["learning_reward"], wanted["total_reward"] / 40)
    np.testing.assert_array_equal(found["final_reward"], wanted["final_value"])
    for name in ("learning", "final"):
        gain = found[f"{name}_reward"] - task.random_value
        np.testing.assert_allclose(found[name], gain / (task.optimal_value - task.random_value))


def test_what_is_valued_in_the_end_is_what_would_be_deployed(monkeypatch) -> None:
    best = benchmark("Queue3").mdp.plan()[0]
    shape = (1, 3, *best.shape)
    deploys = lambda agent: np.broadcast_to(best, shape)  # noqa: E731
    monkeypatch.setattr(PSRL, "policy", property(deploys))
    results = run(small(tasks=("Queue3",), epsilons=(None,)))
    np.testing.assert_allclose(results["final"], 1, atol=1e-12)
    assert (results["learning"] < 0.99).all()


def test_without_privacy_a_method_keeps_its_name_and_spends_nothing() -> None:
    windowed = Method(sampler="diffuse", window=2, schedule="geometric:1.5")
    results = run(small(tasks=("Queue3",), methods=(windowed,), epsilons=(None, 1.0)))
    assert results["method"].eq(windowed.label).all()
    assert results.groupby("epsilon")["sampler"].first().to_dict() == {
        1.0: "diffuse",
        np.inf: "non-private",
    }


@pytest.mark.slow
def test_rows_do_not_depend_on_their_company() -> None:
    alone = run(small(tasks=("Queue3",), epsilons=(1.0,)))
    beside = run(small(tasks=TASKS[:2], methods=(ORACLE, Method()), epsilons=(None, 1.0)))
    there = beside.query("task == 'Queue3' and epsilon == 1.0")
    same(alone, there.reset_index(drop=True))


@pytest.mark.slow
def test_processes_change_nothing() -> None:
    same(run_suite(small(), workers=2).results, run(small()))


@pytest.mark.slow
def test_a_suite_goes_on_where_it_stopped_and_grows(tmp_path: Path) -> None:
    path = tmp_path / "suite.sqlite"
    whole = small(methods=(Method(), ORACLE))
    fewer = replace(whole, tasks=("Queue3",), epsilons=(1.0,))

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.done == 4:
            raise Stop

    told = []
    run(fewer, database=path)  # 2 jobs
    with pytest.raises(Stop):
        run(whole, database=path, on_progress=stop)
    found = run(whole, database=path, on_progress=told.append)
    assert (told[0].already, told[0].jobs, told[-1].done) == (4, 12, 12)
    same(found, run(whole))
    again = run(whole, database=path, on_progress=told.append)
    assert told[-1].already == 12
    pd.testing.assert_frame_equal(again, found, check_exact=True)  # their times too


def test_another_file_of_the_same_name_is_another_task(tmp_path: Path) -> None:
    path, told = tmp_path / "mine.npz", []
    for pay in (1.0, 2.0):
        save_tables(path, TabularMDP(np.ones((1, 2, 1)), np.array([[0.0, pay]]), np.ones(1), 5))
        spec = small(tasks=(str(path),), methods=(ORACLE,))
        found = run(spec, database=tmp_path / "suite.sqlite", on_progress=told.append)
        assert found["final_reward"].eq(5 * pay).all()
        assert found["task"].eq("mine").all()
    assert {progress.already for progress in told} == {0}


@pytest.mark.slow
def test_users_are_private_as_a_whole() -> None:
    spec = small(tasks=("FrozenLake4x4",), epsilons=(1.0,), relation="replace-episode", runs=1)
    results = run(replace(spec, episodes=(20, 50)))
    assert results["episodes"].tolist() == [20, 50]
    assert (results["final"] < 0.5).all()  # a user has 100 steps, and noise is for all of them
    assert (results["spent"] <= 1).all()


def test_what_rewards_on_arrival_cost_is_covered() -> None:
    """Tables tell where they are; an agent whose relation did not cover them would be refused."""
    assert benchmark("Inventory2").mdp.reward.ndim == 3
    (job,) = jobs_of(small(tasks=("Inventory2",), epsilons=(1.0,), runs=1))
    assert run_job(job, benchmark("Inventory2").mdp).spent <= 1


def test_jobs_hold_as_many_runs_as_fit() -> None:
    spec = SuiteSpec(tasks=("Taxi-3k", "RiverSwim6"), epsilons=(None,), runs=20)
    sizes = {job.env: [] for job in jobs_of(spec)}
    firsts = []
    for job in jobs_of(spec):
        sizes[job.env].append(job.runs)
        firsts += [job.first_run] if job.env == "Taxi-3k" else []
    assert sizes == {"Taxi-3k": [5, 5, 5, 5], "RiverSwim6": [20]}
    assert firsts == [0, 5, 10, 15]
    # Of what is kept of all draws, too: today's noise keeps each.
    noisy = [job.runs for job in jobs_of(replace(spec, tasks=("DeepSea20",), epsilons=(1.0,)))]
    assert sum(noisy) == 20
    assert max(noisy) < 20


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_plain_data(name: str) -> None:
    spec = PRESETS[name]
    assert SuiteSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    changed = preset(name, agents=["ucbvi"], spec={"runs": 2, "episodes": (1e5,)})
    assert [method.agent for method in changed.methods] == ["ucbvi"]
    assert (changed.runs, changed.episodes) == (2, (100_000,))


def test_words_stand_for_tasks() -> None:
    assert SuiteSpec().tasks == tuple(SUITE)
    halves = [SuiteSpec(tasks=(half,)).tasks for half in ("set", "judged")]
    assert {*halves[0]} | {*halves[1]} == {*SUITE}
    assert {SUITE[name].half for name in halves[1]} == {"judged"}
    assert SuiteSpec(tasks=("Queue5", "judged", "Queue5")).tasks == ("Queue5", *halves[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("Qeue",)}, "did you mean 'Queue'"),
        ({"tasks": ()}, "tasks must name at least one"),
        ({"tasks": ("a/x.npz", "b/x.npz")}, "tasks must differ in name, got x, x"),
        ({"epsilons": ()}, "epsilons must hold at least one"),
        ({"epsilons": (None, None)}, "epsilons must not repeat itself, got None, None"),
        ({"epsilons": (0.0,)}, "epsilons must be a number > 0"),
        ({"episodes": ()}, "episodes must be different numbers"),
        ({"episodes": (10, 10.0)}, "episodes must be different numbers"),
        ({"episodes": (1.5,)}, "episodes must be a whole number"),
        ({"relation": "replace-user"}, "relation must be one of"),
        ({"runs": 0}, "runs must be a whole number"),
        ({"renyi_order": 1.0}, "order must be a number > 1"),
    ],
    ids=str,
)
def test_bad_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        small(**changes)


def test_what_cannot_run_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path, database = tmp_path / "flat.npz", tmp_path / "suite.sqlite"
    save_tables(path, TabularMDP(np.ones((1, 2, 1)), np.ones((1, 2)), np.ones(1), 5))
    with pytest.raises(ValueError, match="task 'flat': it must have something to learn, but"):
        run(small(tasks=("Queue3", str(path))), database=database)
    with pytest.raises(OSError, match=re.escape("none.npz")):
        run(small(tasks=("none.npz",)), database=database)
    large = small(tasks=("Taxi-30k",), methods=(Method(schedule="every-episode"),), episodes=None)
    with pytest.raises(ValueError, match="task 'Taxi-30k': block must be small enough for memory"):
        run(large, database=database)
    assert not database.exists()
