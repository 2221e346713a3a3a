"""The agent for an environment, chosen from public facts and a budget alone."""

from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from privrl.accounting.calibration import calibrate
from privrl.accounting.journal import KeepsJournal
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP, Target
from privrl.agents.rewards import HatRewards, reward_loops
from privrl.agents.sparse_psrl import SparsePSRL, sparse_schedule
from privrl.agents.tabular import self_loops
from privrl.costs.base import together
from privrl.costs.relations import DAMPED, Relation, ReplaceStep
from privrl.envs.facts import PublicFacts, public_facts
from privrl.envs.support import Support
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is, check_positive
from privrl.numerics.randomness import Rng
from privrl.numerics.typing import BoolArray
from privrl.samplers.noisy_counts import NoisyCounts

REWARD_SHARE = 1 / 3
"""Part of a budget for the rewards: noise is then as large in both tables, but for rewards that are
paid on arrival."""


def private_agent(
    env: gym.Env[Any, Any] | TabularMDP,
    *,
    epsilon: float,
    delta: float | None = None,
    episodes: int = 1000,
    order: float = 2.0,
    relation: Relation | None = None,
    support: Support | None = None,
    accountant: KeepsJournal | None = None,
    rng: Rng = None,
) -> SparsePSRL:
    """Return the agent to start with: all that can be chosen is, from public facts alone.

    Parameters
    ----------
    env : gymnasium.Env or TabularMDP
        Is read for what is public of it: sizes, horizon, range of the rewards, whether they
        can depend on the next state (`privrl.envs.public_facts`). No step is taken. What it does
        not say is said to it: ``max_episode_steps`` of gymnasium.make, without which an episode
        has 100 steps, and ``reward_range = (low, high)`` in its class, without which rewards are
        from 0 to 1.
    epsilon : float
        What the whole run may spend (nats), > 0, in Rényi divergence of the order or, with a delta,
        as (epsilon, delta). Of its Rényi divergence two thirds are for transitions, one third for
        rewards.
    delta : float, optional
        In (0, 1): far below one over the number of people.
    episodes : int
        How many there will be, a public number: the noise is planned for so many. `learn` refuses
        what needs more draws than they do.
    order : float
        Of the Rényi divergence, > 1; says nothing where a delta is given.
    relation : Relation, optional
        What is hidden; by default one step. `privrl.costs.ReplaceEpisode` is for a person's
        whole episode.
    support : Support, optional
        Which next states are possible, if that is public.
    accountant : RdpAccountant, PldAccountant or LedgerAccountant, optional
        Is charged for the run before its first draw, for instance a ledger's:
        ``Ledger().accountant("patients")``. The noise is calibrated to ``epsilon`` and ``delta`` as
        always, and the agent's statements are about this run alone. The accountant's own budget
        decides whether there is enough left for the run: if not, the first draw raises
        `BudgetExceeded`, and nothing is spent. By default an accountant of this run alone, whose
        budget is ``epsilon``.
    rng : numpy.random.Generator, int or None
        The agent's randomness; by default secret, see `privrl.secret_rng`.

    Returns
    -------
    SparsePSRL
        To `learn` in that environment, with `privrl.experiments.train`, or step by step.

    Raises
    ------
    ValueError
        If spaces are not Discrete (`privrl.envs.numbered` mends that), or a value is out of
        range.
    """
    if isinstance(env, VectorEnv):
        raise ValueError(
            "env must be one environment, got several side by side; make the agent of a single "
            "one, and learn in all: PSRL.private(gymnasium.make(...), ...).learn(env=...)."
        )
    if not isinstance(env, gym.Env | TabularMDP):
        raise ValueError(
            f"env must be an environment, got {shown(env)}; make one with gymnasium.make, or a "
            "TabularMDP."
        )
    facts = _facts_of_tables(env, support) if isinstance(env, TabularMDP) else public_facts(env)
    check_count("episodes", episodes)
    epsilon = check_positive("epsilon", epsilon, "smaller means more privacy")
    if relation is None:
        relation = ReplaceStep(arrival_rewards=facts.arrival_rewards)
    check_is("relation", relation, Relation, hint="ReplaceEpisode(horizon) in privrl.costs is one")
    schedule = sparse_schedule(episodes, private=True)
    draws = max(1, len(schedule.starts(episodes)))
    sizes = facts.n_states, facts.n_actions
    loops: BoolArray | None = None
    if DAMPED in dict(relation.tables):
        loops = self_loops(*sizes, terminates=facts.terminates, support=support)

    def samplers(amount: float) -> tuple[NoisyCounts, NoisyCounts]:
        transitions = NoisyCounts.calibrated(
            RenyiDP(order, amount * (1 - REWARD_SHARE)),
            draws=draws,
            relation=relation,
            factorisation="buffered",
            loops=loops,
        )
        rewards = NoisyCounts.calibrated(
            RenyiDP(order, amount * REWARD_SHARE),
            draws=draws,
            relation=relation,
            table="rewards",
            factorisation="buffered",
            loops=reward_loops(relation),
        )
        return transitions, rewards

    budget: Target = RenyiDP(order, epsilon)
    if delta is not None:
        budget = ApproxDP(epsilon, delta)
        epsilon = calibrate(
            budget,
            lambda amount: together([each.cost for each in samplers(amount) if each.cost]),
            rises=True,
        )
    transitions, rewards = samplers(epsilon)
    low, high = facts.reward_range
    agent = SparsePSRL(
        *sizes,
        facts.horizon,
        episodes=episodes,
        sampler=transitions,
        rewards=HatRewards(rewards, low=low, high=high),
        schedule=schedule,
        accountant=RdpAccountant(budget=budget) if accountant is None else accountant,
        terminates=facts.terminates,
        support=support,
        rng=rng,
    )
    agent.env, agent._target = env, budget
    return agent


def _facts_of_tables(mdp: TabularMDP, support: Support | None) -> PublicFacts:
    low, high = mdp.reward_range
    terminates = bool(mdp.ends.any())
    if terminates and support is not None:  # then ends are states like others, and pay nothing
        low, high, terminates = min(low, 0.0), max(high, 0.0), False
    return PublicFacts(
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        horizon=mdp.horizon,
        reward_range=(low, high if low < high else low + 1),
        terminates=terminates,
        arrival_rewards=mdp.reward.ndim == 3,
    )
