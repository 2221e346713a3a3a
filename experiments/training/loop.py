"""Training one agent, and the record of what it earned as a table."""

import numpy as np
import pandas as pd

from privrl.agents.resuming import Checkpoint
from privrl.agents.tabular import TabularAgent
from privrl.agents.training import Callback, Earned, Environment, run
from privrl.numerics.randomness import Rng, as_rng


def train(
    agent: TabularAgent,
    env: Environment,
    episodes: int,
    rng: Rng = None,
    *,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> pd.DataFrame:
    """Train an agent and record what it earned.

    An agent that was trained here before goes on where it was: its episodes are numbered on, so
    its schedule is, and in the environment that it was in last the random numbers are too. Two
    calls are as one of all their episodes: in a single Gymnasium environment bit for bit; where
    whole stretches are played at once, if the first ends with one, and otherwise by their law.
    A budget and a number of draws are planned for the total, when the agent is made.

    Parameters
    ----------
    agent : TabularAgent
        Learns; its policy afterwards is ``agent.policy``.
    env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP
        Where it learns. A Gymnasium environment needs Discrete spaces, and a single run. In a
        vector environment, whatever its autoreset mode, an agent with ``batch_shape ==
        (num_envs,)`` learns an independent run in each environment; the environments of an
        agent that is a single run play its episodes side by side, as many at once as the
        policy stays for.
    episodes : int
        How many more in each run, >= 1.
    rng : numpy.random.Generator, int or None
        The environment's randomness (the agent has its own).
    callback : callable, optional
        Is called with a `privrl.agents.Stretch` after each stretch of episodes under one policy;
        see `privrl.experiments.callbacks`.
    checkpoint : Checkpoint, optional
        Where the run is saved. If the file is there, it is gone on with, by an unused agent made as
        the one before: the same call after a stop gives what it would have given without one, bit
        for bit (the environment is then seeded before every episode, and is to follow from its
        seeds).

    Returns
    -------
    pandas.DataFrame
        A row for each stretch of episodes under one policy (in a single Gymnasium environment,
        for each episode) and each run: ``run`` (0 for a single one), ``episode`` the first of the
        stretch, ``episodes`` their number, ``reward`` their sum, ``draws`` made so far. This
        is the researcher's view: the guarantee covers the policy, not this record.

    Raises
    ------
    BudgetExceeded
        If the agent's budget does not last.
    ValueError
        If agent and environment do not fit together, so many episodes take more draws than the
        agent's sampler has left, a reward leaves the declared range, or rewards may be paid on
        arrival and the agent's relation does not cover that. That they are not is shown by the
        environment's public tables (``P``, or a `TabularMDP`) or declared by its attribute
        ``arrival_rewards = False``, if no unknown wrapper changes rewards.
    """
    return _record(run(agent, env, episodes, as_rng(rng), callback=callback, checkpoint=checkpoint))


def _record(earned: Earned) -> pd.DataFrame:
    """Return a row for each stretch and run."""
    starts, runs = earned.starts, earned.reward.shape[1]
    return pd.DataFrame(
        {
            "run": np.tile(np.arange(runs), len(starts)),
            "episode": np.repeat(starts, runs),
            "episodes": np.repeat(np.diff([*starts, earned.last]), runs),
            "reward": earned.reward.ravel(),
            "draws": np.repeat(earned.draws, runs),
        }
    )
