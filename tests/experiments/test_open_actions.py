"""However an agent is trained, what its policy leaves open is one of the actions that are free."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl.agents import PSRL, Geometric, NoisyRewards
from privrl.agents import training as stretches
from privrl.envs import riverswim
from privrl.envs.vector import RiverSwimVectorEnv
from privrl.experiments.training.run import train
from privrl.samplers.noisy_counts import NonPrivate

S, A, H = 4, 2, 6
MDP = riverswim(S, H)
#: In the first run's states one action is free, in the last one's the other, but both in state 2.
FREE = np.array([[[1, 0], [1, 0], [1, 1], [1, 0]], [[0, 1], [0, 1], [1, 1], [0, 1]]], np.bool_)


class Open(PSRL):
    """An agent that leaves all actions open but those of state 3: action 1 there."""

    def _plan(self, transition, reward):
        free = FREE if self.batch_shape else FREE[1]
        self._free = free
        policy = np.full((*self.batch_shape, H, S), -1)
        policy[..., 3] = 1
        return policy


def vector() -> Any:
    return RiverSwimVectorEnv(num_envs=2, n_states=S, horizon=H)


WAYS: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "tables, by counts": (lambda: MDP, (2,), 2**20),
    "tables, by steps": (lambda: MDP, (2,), 0),
    "tables, a single run": (lambda: MDP, (), 2**20),
    "tables, a single run by steps": (lambda: MDP, (), 0),
    "an environment": (lambda: gym.make("privrl/RiverSwim-v0", n_states=S, horizon=H), (), 0),
    "environments side by side": (vector, (2,), 0),
    "one run in several environments": (vector, (), 0),
}


@pytest.mark.few(9)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_left_open_is_free(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, batch, large = WAYS[way]
    monkeypatch.setattr(stretches, "_LARGE", large)
    learner = agent_of(
        Open,
        S, A, H, sampler=NonPrivate(), rewards=NoisyRewards(NonPrivate()),
        rng=np.random.default_rng(0), schedule=Geometric(1e6), batch_shape=batch,
    )  # fmt: skip
    train(learner, make(), 1000, np.random.default_rng(1))
    learner._count_steps()
    taken = learner._new.counts.sum(axis=-1).reshape(-1, S, A)
    assert (taken.sum(axis=(1, 2)) == 1000 * H).all()
    free = FREE.copy()
    free[:, 3] = [False, True]
    for number, allowed in zip(taken, free if batch else free[1:], strict=True):
        assert not number[~allowed].any()
        if number[2].sum() > 100:  # the last one's, who swims against the current
            assert 0.4 < number[2, 0] / number[2].sum() < 0.6
    assert taken[-1, 2].sum() > 100
