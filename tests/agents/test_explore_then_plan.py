"""Explore, release once, plan: uniform actions, one draw, and a plan against one by hand."""

import numpy as np
import pytest
from made import agent_of
from told import Told

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import RenyiDP
from privrl.agents import BetaRewards, ExploreThenPlan, Geometric, KnownRewards, NoisyRewards
from privrl.agents.schedules import Once
from privrl.agents.training import learn_counts
from privrl.envs import Support, riverswim
from privrl.envs.random_tables import garnet
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

MDP = garnet(6, 3, 2, 5, seed=3)
SIZES = MDP.n_states, MDP.n_actions, MDP.horizon


def explorer(sampler=None, rewards=None, sizes=SIZES, **options) -> ExploreThenPlan:
    return agent_of(
        ExploreThenPlan,
        *sizes,
        sampler=NonPrivate() if sampler is None else sampler,
        rewards=NoisyRewards(NonPrivate()) if rewards is None else rewards,
        **{"rng": np.random.default_rng(0), "schedule": Once(10**6), **options},
    )


def test_it_explores_by_uniform_actions() -> None:
    """20,000 episodes: every count within 5 standard errors, a false alarm in 30,000.

    Of a step, which is an action in each state, there are no two in an episode: a share p of all
    steps h has the variance p (1 − p), and the steps of an episode together at most H times that.
    """
    learner = explorer(batch_shape=(20,))
    learn_counts(learner, MDP, 1000, np.random.default_rng(1))
    counts = learner._new.counts.sum(axis=0)
    here, wanted = MDP.start, np.zeros(counts.shape)
    for _ in range(MDP.horizon):
        moves = here[:, None, None] * MDP.transition / MDP.n_actions
        wanted += 20_000 * moves
        here = moves.sum(axis=(0, 1))
    error = np.sqrt(MDP.horizon * np.maximum(wanted, 1.0))
    assert (np.abs(counts - wanted) < 5 * error).all()
    assert counts.sum() == 20_000 * MDP.horizon


def test_it_draws_once_and_keeps_its_plan() -> None:
    tables = (NoisyCounts(sigma=2.0, updates=1, table=t) for t in ("transitions", "rewards"))
    accountant = RdpAccountant(budget=RenyiDP(2, 10.0))
    learner = explorer(
        next(tables), NoisyRewards(next(tables)), schedule=Once(7), accountant=accountant
    )
    assert list(learner.starts(20)) == [0, 7]
    assert list(learner.starts(7)) == [0]
    policies = []
    for episode in range(20):
        learner.begin_episode(episode)
        policies.append(learner.behaviour.tobytes())
        assert ((learner.behaviour == -1) == (episode < 7)).all()
        assert learner.draws == (episode >= 7)
        assert (float(learner.accountant.spent(2.0)) > 0) == (episode >= 7)
    assert len(set(policies[7:])) == 1


def test_nothing_that_is_observed_shows_before_the_draw() -> None:
    policies = []
    for reward in (0.0, 1.0):
        learner = explorer(schedule=Once(3))
        for episode in range(3):
            learner.begin_episode(episode)
            counts = np.full((6, 3, 6), int(1 + 99 * reward))
            learner.observe_counts(counts, np.full((6, 3, 1), reward))
            policies.append(learner.behaviour)
    np.testing.assert_array_equal(policies[:3], policies[3:])


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, -1.0), (2.0, 5.0)])
def test_the_plan_by_hand(terminates, narrow, low, high) -> None:
    rng = np.random.default_rng(int(4 + low))
    S, A, H = 4, 2, 3
    mask = rng.random((S, A, S + terminates)) < 0.7
    mask[..., 1] = True
    support = Support.from_mask(mask) if narrow else None
    following = support.next_states if support else np.arange(S + terminates) + np.zeros((S, A, 1))
    following = following.astype(int)
    counts = rng.choice([-3.0, 2.9, 40.0, 90.0], following.shape)
    counts[0, 0] = 3.99  # nothing above four deviations of 1
    paid = rng.normal(50, 40, (S, A, 2))
    learner = explorer(
        Told(counts, 1.0), BetaRewards(Told(paid, 1.3), low=low, high=high), (S, A, H),
        schedule=Once(0), terminates=terminates, support=support,
    )  # fmt: skip
    learner.begin_episode(0)
    value, unknown = [0.0] * (S + 1), 0
    for h in reversed(range(H)):
        worth = np.empty((S, A))
        for s, a in np.ndindex(S, A):
            cells = [
                (int(to), c)
                for to, c in zip(following[s, a], counts[s, a], strict=True)
                if to >= 0 and c > 4
            ]
            total = sum(c for _, c in cells)
            if not cells:
                steps = min(low, 0.0) if terminates else low
                worth[s, a], unknown = low + (H - 1 - h) * steps, unknown + 1
                continue
            share = min(max((1 + (paid[s, a, 0] - paid[s, a, 1]) / total) / 2, 0.0), 1.0)
            worth[s, a] = low + (high - low) * share + sum(c / total * value[to] for to, c in cells)
        np.testing.assert_array_equal(learner.behaviour[h], worth.argmax(axis=1))
        value[:S] = worth.max(axis=1)
    assert unknown >= H


def test_what_was_never_seen_is_not_tried() -> None:
    """An unknown action that may pay 1 a step is not worth a known one that pays 0.2."""
    counts = np.zeros((2, 2, 2))
    counts[:, 0, :] = 50.0
    paid = np.zeros((2, 2, 2))
    paid[:, 0] = 20.0, 80.0
    for low, action in ((0.0, 0), (-1.0, 0)):
        learner = explorer(
            Told(counts, 1.0), BetaRewards(Told(paid, 1.0), low=low), (2, 2, 5), schedule=Once(0)
        )
        learner.begin_episode(0)
        assert (learner.behaviour == action).all()


@pytest.mark.parametrize("sigma", [0.0, 3.0])
def test_it_finds_the_best_policy_that_uniform_actions_show(sigma: float) -> None:
    """10 runs of 2000 episodes; over seeds the worst of them keeps more than 0.97."""
    mdp = riverswim(n_states=4, horizon=10)
    made = (NoisyCounts(sigma=sigma or 1, updates=1, table=t) for t in ("transitions", "rewards"))
    transitions, rewards = made if sigma else (NonPrivate(), NonPrivate())
    learner = explorer(
        transitions, NoisyRewards(rewards), (4, 2, 10), schedule=Once(1999), batch_shape=(10,)
    )
    _, paid = learn_counts(learner, mdp, 2000, np.random.default_rng(1))
    assert (mdp.policy_value(learner.behaviour) > 0.97 * mdp.optimal_value()).all()
    assert paid.sum(axis=0).max() < 2000 * mdp.optimal_value() / 4


def test_known_rows_need_not_be_seen() -> None:
    """With all rows and rewards known the plan is the best one, though there are no data."""
    learner = explorer(
        rewards=KnownRewards(MDP.expected_reward), schedule=Once(0), known_rows=MDP.transition
    )
    learner.begin_episode(0)
    assert float(MDP.policy_value(learner.behaviour)) == pytest.approx(MDP.optimal_value())


def test_other_samplers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"as NoisyCounts and NonPrivate.*Diffuse"):
        explorer(Diffuse(weight=0.1))
    with pytest.raises(ValueError, match="schedule must be a schedule"):
        explorer(schedule=7)


def test_any_schedule_plans_again_at_each_draw() -> None:
    learner = explorer(schedule=Geometric(2.0))
    _, paid = learn_counts(learner, MDP, 500, np.random.default_rng(1))
    assert list(learner.starts(10)) == [0, 1, 3, 7]
    assert learner.draws == 9
    assert float(MDP.policy_value(learner.behaviour)) <= MDP.optimal_value()
    assert paid.shape == (9,)
