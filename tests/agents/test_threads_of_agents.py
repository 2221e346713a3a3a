"""Threads that share an agent: what each records is in one batch, once, and episodes stay whole."""

import contextlib
import itertools
import time
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import privrl  # noqa: F401 # registers environments
from privrl.agents import PSRL, Transition
from privrl.agents.observer import Tally
from privrl.costs import ReplaceEpisode

H, E = 3, 40


def made() -> PSRL:
    """An agent on RiverSwim whose episodes are of three steps."""
    env = gym.make("privrl/RiverSwim-v0", max_episode_steps=H)
    agent = PSRL.private(env, epsilon=1, episodes=50, relation=ReplaceEpisode(H), rng=0)
    assert agent.horizon == H
    agent.begin_episode(0)
    return agent


class Meets(int):
    """A horizon that waits, where it is compared, until another thread is there as well."""

    barrier = Barrier(2)

    def __le__(self, other: int) -> bool:
        with contextlib.suppress(BrokenBarrierError):
            self.barrier.wait(0.5)
        return int(self) <= other


@pytest.mark.slow
def test_threads_record_no_more_steps_than_an_episode_has() -> None:
    """Both found room for one more step before either was counted."""
    agent, refused = made(), []
    for _ in range(H - 1):
        agent.observe(Transition(0, 0, 0.0, 0))
    vars(agent)["horizon"] = Meets(H)

    def last() -> None:
        try:
            agent.observe(Transition(0, 0, 0.0, 0))
        except ValueError as error:
            refused.append(str(error))

    threads = [Thread(target=last) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(agent._new.steps) == H
    assert len(refused) == 1
    assert "at most 3 steps" in refused[0]


def test_a_number_that_observes_adds_no_step_beyond_the_horizon() -> None:
    class Observes:
        def __index__(self) -> int:
            agent.observe(Transition(0, 0, 0.0, 0))
            return 0

    agent = made()
    for _ in range(H - 1):
        agent.observe(Transition(0, 0, 0.0, 0))
    with pytest.raises(ValueError, match="at most 3 steps"):
        agent.observe(Transition(Observes(), 0, 0.0, 0))  # type: ignore[arg-type]
    assert len(agent._new.steps) == H


def episodes(agent: PSRL) -> None:
    """Record episodes of one step, side by side."""
    zeros, ones = np.zeros((1, E), int), np.ones((1, E), bool)
    agent.observe_steps(zeros, zeros, 0.0 * zeros, zeros, observed=ones, terminated=~ones)


def counts(agent: PSRL) -> None:
    """Record as many steps, as counts."""
    counted = np.zeros(agent._new.transitions.shape, int)
    counted[0, 0, 0] = E
    agent.observe_counts(counted, np.zeros((agent.n_states, agent.n_actions, 1)))


@pytest.mark.few(2)
@pytest.mark.parametrize("record", [episodes, counts])
def test_what_is_recorded_during_a_draw_is_released_once(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a draw had released came back, because a thread had begun to add to it before."""
    agent, drawn = made(), []
    due = [each for each in agent.schedule.starts(50) if each > 0]
    record(agent)

    def slowly(self: Tally, *given: Any) -> Tally:
        monkeypatch.undo()
        draw = Thread(target=agent.begin_episode, args=(due[0],))
        draw.start()
        draw.join(0.5)  # it draws meanwhile, if it is not kept from it
        drawn.append(draw)
        return getattr(self, name)(*given)  # type: ignore[no-any-return]

    name = "plus" if record is episodes else "plus_table"
    monkeypatch.setattr(Tally, name, slowly)
    before = agent.draws
    record(agent)
    drawn[0].join()
    assert agent.draws == before + 1
    assert agent._new.counts.sum() in (0, E)  # and not the first ones again


def test_threads_that_learn_take_turns() -> None:
    """A draw of one thread divided an episode of the other, so one step was in two batches."""

    class Waits(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            running.append(id(self))
            time.sleep(0.002)
            return super().step(action)

    running: list[int] = []
    agent = made()
    envs = [Waits(gym.make("privrl/RiverSwim-v0", max_episode_steps=H)) for _ in "ab"]
    threads = [Thread(target=agent.learn, args=(2,), kwargs={"env": env}) for env in envs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agent.episodes_done == 4
    assert len(running) == 4 * H
    assert sum(a != b for a, b in itertools.pairwise(running)) == 1


def test_a_draw_during_a_plan_leaves_no_policy_of_the_draw_before() -> None:
    """Or `policy` stayed that of the first draw until there was a third."""
    agent = made()
    first, second, *_ = agent.schedule.starts(50)
    agent.begin_episode(first)
    before, plan = agent.draws, agent._plan_to_deploy

    def during_a_draw() -> np.ndarray:
        policy = plan()
        thread = Thread(target=agent.begin_episode, args=(second,))
        thread.start()
        thread.join()
        vars(agent).pop("_plan_to_deploy")
        return policy

    vars(agent)["_plan_to_deploy"] = during_a_draw
    stale = agent.policy
    assert agent.draws == before + 1
    assert agent.policy is not stale
    np.testing.assert_array_equal(agent.policy, plan())
