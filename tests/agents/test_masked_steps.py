"""Agents take plain arrays alone: checks do not see what is hidden, and tables would hold it."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import agent_of

from privrl.accounting import ApproxDP
from privrl.agents import PSRL, KnownRewards, Transition
from privrl.agents.continuous import ContinuousAgent, ContinuousStep
from privrl.agents.setup import self_loops
from privrl.envs import Ranged
from privrl.samplers import NoisyCounts

STEPS = ("state", "action", "reward", "next_state", "observed", "terminated")


def agent() -> PSRL:
    sampler = NoisyCounts(sigma=5.0, updates=2, loops=self_loops(3, 2))
    learner = agent_of(
        PSRL, 3, 2, 4, sampler=sampler, rewards=KnownRewards(np.zeros((3, 2))), rng=0
    )
    learner.begin_episode(0)
    return learner


class LooksMasked(np.ndarray):
    """Another package's masked array: comparisons see nothing."""

    mask = True

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return np.zeros(self.shape, np.bool_)


def hidden(array: np.ndarray, mask: list[bool], kind: str) -> Any:
    masked = np.ma.masked_array(array, np.resize(mask, array.shape))
    if kind == "array":
        return masked
    return array.view(LooksMasked) if kind == "lookalike" else list(masked)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(STEPS),
    kind=st.sampled_from(["array", "lookalike", "rows"]),
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=4
    ),
    mask=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_hidden_steps_are_refused(
    name: str, kind: str, steps: list[tuple[int, int, int]], mask: list[bool]
) -> None:
    """Whatever the steps are: a chain that is broken, or one that goes on after its end."""
    learner = agent()
    state, action, following = (np.array(column)[:, None] for column in zip(*steps, strict=True))
    told = {
        "state": state,
        "action": action,
        "reward": np.zeros(state.shape),
        "next_state": following,
        "observed": np.ones(state.shape, np.bool_),
        "terminated": np.arange(len(steps))[:, None] == 0,
    }
    told[name] = hidden(told[name], mask, kind)
    with pytest.raises(ValueError, match="plain array, got a masked array"):
        learner.observe_steps(**told)
    assert not learner._new.counts.any()


def test_what_a_masked_array_let_through() -> None:
    """Four steps in one cell that is no loop: a squared norm of 16, where 8 was paid for."""
    learner, ones = agent(), np.ones((4, 1), np.int64)
    with pytest.raises(ValueError, match="observed must be a plain array"):
        learner.observe_steps(
            0 * ones, 0 * ones, 0.0 * ones, ones,
            observed=np.ma.masked_array(ones == 1, ones == 1), terminated=ones == 0,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["counts", "reward"])
@pytest.mark.parametrize("kind", ["array", "lookalike", "rows"])
def test_hidden_counts_are_refused(name: str, kind: str) -> None:
    learner = agent()
    told = {"counts": np.full((3, 2, 3), -1), "reward": np.zeros((3, 2, 1))}
    told[name] = hidden(told[name], [True], kind)
    with pytest.raises(ValueError, match=f"{name} must be a plain array"):
        learner.observe_counts(**told)
    assert not learner._new.counts.any()


@pytest.mark.parametrize("place", range(5))
def test_a_hidden_number_is_refused(place: int) -> None:
    learner = agent()
    seen: list[Any] = [0, 1, 0.5, 1, False]
    for wrong in (np.ma.masked, np.ma.masked_array(seen[place], True)):
        with pytest.raises(ValueError, match="must be a plain array"):
            learner.observe(Transition(*seen[:place], wrong, *seen[place + 1 :]))
    assert not learner._new.steps


@pytest.mark.parametrize("shape", [(), (1,), (3, 2), (3, 2, 2), (2, 3, 2, 1)])
def test_rewards_of_counts_have_the_shape_of_their_table(shape: tuple[int, ...]) -> None:
    sampler = NoisyCounts(sigma=5.0, updates=2)
    learner = agent_of(
        PSRL, 3, 2, 4, sampler=sampler, rewards=KnownRewards(np.zeros((3, 2))), rng=0
    )
    learner.begin_episode(0)
    counts = np.ones((3, 2, 3), int)
    with pytest.raises(ValueError, match=r"reward must have shape \(3, 2, 1\) or \(3, 2, 3\)"):
        learner.observe_counts(counts, np.zeros(shape))
    learner.observe_counts(counts, np.zeros((3, 2, 1)))


@pytest.mark.parametrize("name", ContinuousStep._fields)
def test_a_hidden_number_beside_numbers_is_refused(name: str) -> None:
    """An action or an end that was hidden was recorded as what was under the mask."""
    env = gym.wrappers.TimeLimit(Ranged(gym.make("MountainCar-v0")), 4)
    learner = ContinuousAgent.private(env, target=ApproxDP(5.0, 1e-5), episodes=4, rng=0)
    learner.begin_episode(0)
    step = ContinuousStep(np.array([-0.5, 0.0]), 1, -1.0, np.array([-0.5, 0.0]), False)
    learner.observe(step)
    wrong = step._replace(**{name: np.ma.masked_array(getattr(step, name), True)})
    with pytest.raises(ValueError, match=r"must be .*(plain array|array of numbers|number)"):
        learner.observe(wrong)
    assert len(learner._steps) == 1
