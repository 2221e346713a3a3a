"""DP-UCBVI: private counts against a linear program, the plan by hand, and what it learns."""

import math

import numpy as np
import pytest
from made import agent_of
from scipy.optimize import linprog
from told import Told

from privrl.agents import DPUCBVI, BetaRewards, Geometric, KnownRewards, NoisyRewards
from privrl.agents.dp_ucbvi import private_counts
from privrl.agents.training import learn_counts
from privrl.envs import Support, riverswim
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate


def test_private_counts_solve_the_papers_linear_program() -> None:
    """The least t with |x − N| <= t in each cell, x >= 0 and a sum within the slack."""
    rng = np.random.default_rng(0)
    valid = np.array([True, True, False, True, True])
    for _ in range(200):
        noisy, slack = rng.normal(3, 10, 5), rng.choice([0.0, 1.0, 20.0])
        if noisy[valid].sum() + slack < 0:
            continue
        found = private_counts(noisy, np.array(slack), valid)
        n, t = noisy[valid], np.ones((4, 1))
        sums = np.append(np.ones(4), 0.0)
        rows = [np.hstack([np.eye(4), -t]), np.hstack([-np.eye(4), -t]), [sums], [-sums]]
        bounds = [n, -n, [n.sum() + slack], [slack - n.sum()]]
        best = linprog(np.eye(5)[4], A_ub=np.vstack(rows), b_ub=np.concatenate(bounds))
        assert np.abs(found[valid] - n).max() == pytest.approx(best.fun, abs=1e-7)
        assert (found >= 0).all()
        assert abs(found.sum() - n.sum()) <= slack + 1e-9
        assert found[2] == 0


def test_counts_that_can_be_stay_and_none_are_made_of_nothing() -> None:
    counts = np.array([[0.0, 3.0, 5.0], [-9.0, 2.0, 1.0]])
    made = private_counts(counts, np.zeros(2), np.ones((1, 3), bool))
    np.testing.assert_array_equal(made, [[0.0, 3.0, 5.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("scale", [1e-3, 0.1])
@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, -1.0), (2.0, 5.0)])
def test_the_plan_by_hand(scale, terminates, narrow, low, high) -> None:
    rng = np.random.default_rng(5)
    S, A, H, d = 3, 2, 4, 0.7
    mask = rng.random((S, A, S + terminates)) < 0.7
    mask[..., 1] = True
    support = Support.from_mask(mask) if narrow else None
    following = support.next_states if support else np.arange(S + terminates) + np.zeros((S, A, 1))
    following = following.astype(int)
    counts, paid = rng.normal(300, 250, following.shape), rng.normal(300, 250, (S, A, 2))
    counts[0, 0] = -500.0  # nothing, whatever the slack
    learner = agent_of(
        DPUCBVI,
        S,
        A,
        H,
        sampler=Told(counts, d),
        rewards=BetaRewards(Told(paid, 1.3), low=low, high=high),
        rng=np.random.default_rng(0),
        bonus_scale=scale,
        terminates=terminates,
        support=support,
    )
    learner.begin_episode(0)
    worst, best = (min(low, 0), max(high, 0)) if terminates else (low, high)
    L, above, below = math.log(30 * S * A * H / 0.05), np.zeros(S + 1), np.zeros(S + 1)
    for h in reversed(range(H)):
        ahead = H - 1 - h
        upper, lower = np.empty((S, A)), np.empty((S, A))
        for s, a in np.ndindex(S, A):
            cells = [w for w, to in enumerate(following[s, a]) if to >= 0]
            to, W = following[s, a, cells], len(cells)
            E = 4 * scale * d * math.sqrt(2 * W * L)
            x = private_counts(counts[s, a, cells], np.array(E / 4), np.ones(W, bool)) + E / 2 / W
            n = x.sum()
            p, mean = (
                x / n,
                low
                + (high - low)
                * np.clip((1 + (paid[s, a, 0] - paid[s, a, 1]) / max(n, 1)) / 2, 0, 1),
            )
            V, v = above[to], below[to]
            variance = p @ ((V + v) / 2) ** 2 - (p @ (V + v) / 2) ** 2
            wide = math.sqrt(variance * L / n) + (best - worst) * (H * S * E + H * H * S) * L / n
            wide = scale * (p @ (V - v) / H + wide) * (ahead > 0)
            wide += scale * (high - low) * (math.sqrt(L / n) + E / n)
            upper[s, a] = min(high + ahead * best, mean + p @ V + wide)
            lower[s, a] = max(low + ahead * worst, mean + p @ v - wide)
        np.testing.assert_array_equal(learner.behaviour[h], upper.argmax(axis=1))
        above[:S], below[:S] = upper.max(axis=1), lower[np.arange(S), upper.argmax(axis=1)]


@pytest.mark.slow
def test_theory_learns_nothing_in_time_and_the_default_does() -> None:
    """20 runs of 2000 episodes; over seeds the shares are below 0.1 and above 0.97."""
    mdp, shares = riverswim(), []
    for scale in (1.0, None):
        tables = (NoisyCounts(sigma=5.0, updates=155, table=t) for t in ("transitions", "rewards"))
        learner = agent_of(
             DPUCBVI, 6, 2, 30, sampler=next(tables), rewards=NoisyRewards(next(tables)),
            rng=np.random.default_rng(0), schedule=Geometric(1.05), batch_shape=(20,),
            bonus_scale=scale,
        )  # fmt: skip
        learn_counts(learner, mdp, 2000, np.random.default_rng(1))
        shares.append(mdp.policy_value(learner.behaviour).mean() / mdp.optimal_value())
    assert shares[0] < 0.3
    assert shares[1] > 0.9


def test_what_it_refuses() -> None:
    options = {"rewards": KnownRewards(np.zeros((2, 2))), "rng": np.random.default_rng(0)}
    for bad in (0, -1.0, np.nan, True):
        with pytest.raises(ValueError, match="bonus_scale must be a number > 0"):
            agent_of(DPUCBVI, 2, 2, 3, sampler=NonPrivate(), bonus_scale=bad, **options)
    with pytest.raises(ValueError, match=r"as NoisyCounts and NonPrivate.*Diffuse"):
        agent_of(DPUCBVI, 2, 2, 3, sampler=Diffuse(weight=0.1), **options)
    assert agent_of(DPUCBVI, 2, 2, 5, sampler=NonPrivate(), **options).bonus_scale == 1 / 50
