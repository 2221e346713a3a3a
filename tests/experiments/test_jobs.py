"""Jobs: what their results depend on, and what not."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made import job_of
from numpy.testing import assert_array_equal

from privrl.agents.methods import Method
from privrl.agents.training import learn_counts
from privrl.envs import TabularMDP, riverswim
from privrl.experiments.sweeps.jobs import (
    Job,
    check_jobs,
    conditions,
    curve_episodes,
    run_job,
    work,
)
from privrl.experiments.sweeps.presets import PRESETS
from privrl.experiments.sweeps.sweep import jobs_of

JOB = job_of(episodes=40, runs=3)
OTHERS = {
    "env": "privrl/RiverSwimDPS-v0",
    "horizon": 31,
    "episodes": 41,
    "method": Method(alpha=2.0),
    "relation": "replace-transition",
    "renyi_order": 3.0,
    "epsilon": 1.5,
    "first_run": 3,
    "runs": 4,
}


@pytest.mark.parametrize("name", PRESETS)
def test_jobs_are_plain_data(name: str) -> None:
    for job in jobs_of(PRESETS[name]):
        again = Job.from_dict(json.loads(json.dumps(job.to_dict())))
        assert again == job
        assert again.key == job.key


def test_all_jobs_of_all_presets_have_keys_and_seeds_of_their_own() -> None:
    every = {job for spec in PRESETS.values() for job in jobs_of(spec)}
    every = {replace(job, first_run=100 * i) for job in every for i in range(5)}
    assert len({job.key for job in every}) == len(every)
    states = {tuple(job.seed_sequence().generate_state(4)) for job in every}
    assert len(states) == len(every)


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_job_is_changes_its_key_and_its_seed(name: str) -> None:
    other = replace(JOB, **{name: OTHERS[name]})
    assert other.key != JOB.key
    assert _state(other) != _state(JOB)


def test_the_root_seed_changes_both() -> None:
    assert replace(JOB, seed=1).key != JOB.key
    assert _state(replace(JOB, seed=1)) != _state(JOB)


@pytest.mark.parametrize("seed", [2**53, 2**64, 2**128, 10**400], ids=["53", "64", "128", "10^400"])
def test_large_seeds_are_told_apart_to_the_last_digit(seed: int) -> None:
    """As floats, the next one would be the same: results of the one be taken for the other's."""
    jobs = [replace(JOB, seed=seed + i) for i in range(4)]
    assert len({job.key for job in jobs}) == 4
    assert len({tuple(_state(job)) for job in jobs}) == 4


def test_what_is_only_reported_changes_no_randomness() -> None:
    later = replace(JOB, delta=1e-6)
    assert later.key != JOB.key
    assert _state(later) == _state(JOB)


def test_a_label_and_the_type_of_a_number_change_nothing() -> None:
    for same in (
        replace(JOB, method=Method(label="mine")),
        replace(JOB, renyi_order=2, epsilon=1, method=Method(alpha=1)),
    ):
        assert same.key == JOB.key
        assert _state(same) == _state(JOB)


def test_the_seed_stays_what_it_is_from_version_to_version() -> None:
    """Published numbers hang on it: where this fails, they must be made anew."""
    assert _state(JOB) == [2495082272, 3223418217]


@pytest.mark.slow
def test_a_result_depends_on_the_job_alone() -> None:
    first = run_job(JOB, riverswim())
    np.random.default_rng().random()
    run_job(replace(JOB, seed=5), riverswim())
    again = run_job(JOB, riverswim())
    assert_array_equal(first.rewards, again.rewards)
    assert not np.array_equal(first.rewards, run_job(replace(JOB, seed=1), riverswim()).rewards)


def test_runs_of_a_job_are_what_the_agent_earns() -> None:
    """The best policy draws nothing, so the environment's generator alone decides."""
    job = replace(JOB, method=Method(agent="oracle"), epsilon=None)
    mdp = riverswim()
    _, child = job.seed_sequence().spawn(2)

    class Best:
        n_states, n_actions, horizon = mdp.n_states, mdp.n_actions, mdp.horizon
        terminates, support, batch_shape, covers_arrival = False, None, (1, 3), True
        sampler = free = None
        needs_steps = False
        episodes_done = 0
        behaviour = np.broadcast_to(mdp.plan()[0], (1, 3, mdp.horizon, mdp.n_states))

        def starts(self, episodes):
            return range(episodes)

        def begin_episode(self, episode):
            pass

        def observe_counts(self, counts, reward, **ends):
            pass

    _, rewards = learn_counts(Best(), mdp, job.episodes, np.random.default_rng(child))
    found = run_job(job, mdp)
    np.testing.assert_allclose(found.rewards, rewards[:, 0].cumsum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.final, mdp.optimal_value(), rtol=1e-12)
    assert np.isinf(found.spent)


def test_rewards_are_kept_at_the_ends_of_bins() -> None:
    assert_array_equal(curve_episodes(3), [1, 2, 3])
    assert_array_equal(curve_episodes(120), np.arange(2, 121, 2))
    assert len(curve_episodes(10**6)) == 60
    rewards = run_job(replace(JOB, episodes=100), riverswim()).rewards
    assert rewards.shape == (60, 3)
    assert (np.diff(rewards, axis=0) >= 0).all()  # RiverSwim pays, and never takes


def test_a_longer_job_costs_more() -> None:
    mdp = riverswim()
    assert work(replace(JOB, runs=100), mdp) > work(JOB, mdp)
    assert work(JOB, riverswim(7)) > work(JOB, mdp)
    long = replace(JOB, episodes=1000)
    resampled = replace(long, method=Method(resamples="geometric:1.2"))
    every = replace(long, method=Method(schedule="every-episode"))
    assert work(every, mdp) > work(resampled, mdp) > work(long, mdp)
    assert work(replace(long, method=Method(agent="random")), mdp) == work(every, mdp)


def test_conditions_tell_tables_apart() -> None:
    mdp = riverswim()
    reward = np.array(mdp.reward)
    reward[0, 0] += 1e-12
    other = TabularMDP(mdp.transition, reward, mdp.start, mdp.horizon)
    assert conditions(mdp) == conditions(riverswim())
    assert conditions(mdp)["tables"] != conditions(other)["tables"]
    assert conditions(mdp).keys() == {"tables", "privrl", "numpy", "scipy"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"espilon": 1.0}, "job has no field 'espilon'; did you mean 'epsilon'"),
        ({"what": 1.0}, "job has no field 'what'; it has env, horizon"),
        ({"runs": 2.5}, "job.runs must be of type int, got 2.5"),
        ({"runs": True}, "job.runs must be of type int"),
        ({"epsilon": "1"}, "job.epsilon must be of type float or NoneType"),
        ({"method": None}, "job.method must be a JSON object"),
        ({"method": {"alpha": "1"}}, "job.method.alpha must be of type float"),
        ({"method": {"rewards": "gamma"}}, "job.method.rewards must be of type"),
        ({"method": {"support": 1}}, "job.method.support must be of type bool"),
        ({"method": {"window": 3}}, "window is for the samplers"),
    ],
    ids=str,
)
def test_bad_plain_data(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Job.from_dict(JOB.to_dict() | changes)


def test_a_field_without_default_must_be_there() -> None:
    data = JOB.to_dict()
    del data["seed"]
    with pytest.raises(ValueError, match=r"job is not complete: .* 'seed'"):
        Job.from_dict(data)


def test_tables_that_do_not_fit_are_found_before_anything_runs() -> None:
    n = 400
    reward = np.arange(2 * n).reshape(n, 2)
    mdp = TabularMDP(np.full((n, 2, n), 1 / n), reward, np.full(n, 1 / n), 30)
    job = replace(JOB, method=Method(sampler="diffuse"))
    check_jobs([replace(job, runs=97)], mdp)  # 97 tables of 320 000 numbers: 0.248 GB
    with pytest.raises(ValueError, match="at most 97 fit, or make the possible next states"):
        check_jobs([replace(job, runs=98)], mdp)


def test_noise_that_does_not_fit_is_found_before_anything_runs() -> None:
    """Noise is kept from draw to draw: 3000 tables of 32 runs, not one."""
    n = 50
    mdp = TabularMDP(np.full((n, 2, n), 1 / n), np.arange(2.0 * n).reshape(n, 2), np.eye(n)[0], 30)
    often = replace(JOB, episodes=3000, method=Method(schedule="every-episode"))
    check_jobs([replace(often, runs=33)], mdp)  # 33 * 3000 tables of 5000 numbers: 3.96 GB
    with pytest.raises(
        ValueError, match=r"got 34 .* 4.1 GB for what is kept of all draws; at most"
    ):
        check_jobs([replace(often, runs=34)], mdp)
    for method in (Method(), Method(sampler="diffuse", schedule="every-episode")):
        check_jobs([replace(often, runs=100, method=method)], mdp)
    window = Method(sampler="diffuse", schedule="every-episode", window=2000)
    with pytest.raises(ValueError, match="at most 50 fit"):
        check_jobs([replace(often, runs=51, method=window)], mdp)
    buffered = Method(sampler="noisy-counts:buffered", schedule="every-episode")
    check_jobs([replace(often, runs=100, method=buffered)], mdp)


def _state(job: Job) -> list[int]:
    return job.seed_sequence().generate_state(2).tolist()
