"""No number of a record makes a warning, nor an error of NumPy's, whatever `numpy.seterr` says."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from privrl.accounting import RdpAccountant
from privrl.agents import PSRL
from privrl.agents.rewards import NoisyRewards
from privrl.agents.setup import TabularSetup
from privrl.continuous import ContinuousLog, ContinuousSchema, Number
from privrl.data.logs import Log
from privrl.mechanisms import GaussianMechanism, LaplaceMechanism, SimplexMechanism
from privrl.models import histogram
from privrl.samplers import Diffuse, NoisyCounts, draw

EXTREME = [
    *map(np.longdouble, ("1e4000", "-1e4000", "1e-4000", "nan")),
    *(1.7e308, -1.7e308, 5e-324, np.inf, -np.inf, np.nan),
]
GAUSSIAN, LAPLACE = GaussianMechanism(sigma=1.0), LaplaceMechanism(scale=1.0)
SIMPLEX = SimplexMechanism(weight=1.0, eta=0.1, sensitive=(0, 1))


def _log(reward: Any) -> object:
    return Log(
        n_states=1,
        n_actions=1,
        outcomes=(),
        outcome_rewards=(),
        step_rewards=(0.0, 1.0),
        most_steps=2,
        most_episodes=1,
        state=np.array([0, 0]),
        action=np.array([0, 0]),
        next_state=np.array([0, -1]),
        reward=reward,
        episode_starts=np.array([0, 2]),
        person_starts=np.array([0, 1]),
    )


def _continuous(state: Any) -> object:
    schema = ContinuousSchema(
        state={"x": Number(low=-1e30, high=1e30, periodic=True)},
        action={"a": Number(low=0, high=1, levels=2)},
    )
    return ContinuousLog.of_arrays(
        schema, person=[0, 1], state=state, next_state=[0, 0], action=[0, 1]
    )


def _agent() -> PSRL:
    rewards = NoisyRewards(NoisyCounts(sigma=3.0, updates=2, table="rewards"))
    setup = TabularSetup(2, 1, 2, sampler=NoisyCounts(sigma=3.0, updates=2), rewards=rewards, rng=0)
    return PSRL(setup)


def _steps(reward: Any) -> None:
    whole, true = np.zeros((2, 1), int), np.ones((2, 1), bool)
    _agent().observe_steps(
        whole, whole, np.reshape(reward, (2, 1)), whole, observed=true, terminated=~true
    )


def _counts(reward: Any) -> None:
    _agent().observe_counts(np.ones((2, 1, 2), int), np.reshape(reward, (2, 1, 1)))


CALLS: dict[str, Callable[[Any], object]] = {
    "log": _log,
    "continuous": _continuous,
    "steps": _steps,
    "counts": _counts,
    "histogram": lambda values: histogram(values, 2, (0, 1), epsilon=1),
    "gaussian": lambda data: GAUSSIAN.release(data, np.random.default_rng(0)),
    "laplace": lambda data: LAPLACE.release(data, np.random.default_rng(0)),
    "simplex": lambda data: SIMPLEX.release(data, np.random.default_rng(0)),
    "noisy counts": lambda data: draw(
        RdpAccountant(), [(NoisyCounts(sigma=1.0, updates=1), np.reshape(data, (1, 2)))]
    ),
    "dirichlet": lambda data: Diffuse().update(np.reshape(data, (1, 2)), np.random.default_rng(0)),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("settings", ["warn", "raise"])
def test_no_number_of_a_record_is_told(name: str, settings: Any) -> None:
    loud = []
    for extreme in EXTREME:
        for fill in ([extreme, 0], [0, extreme], [extreme, extreme]):
            for kind in (type(extreme), object):
                try:
                    with suppress(ValueError), np.errstate(all=settings, under="ignore"):
                        CALLS[name](np.array(fill, kind))
                except (RuntimeWarning, ArithmeticError) as error:
                    loud.append(f"{fill}: {error}")
    assert not loud
