"""Blackjack's tables against the game that they are about, played."""

import gymnasium as gym
import numpy as np
import pytest
from oracle_tabular import FALSE_ALARM
from scipy.stats import chi2

from privrl.envs.blackjack import blackjack

EPISODES = 5000
STICK, HIT = 0, 1
LOST, DRAWN, WON = 714, 715, 716
ENDS = {-1.0: LOST, 0.0: DRAWN, 1.0: WON}


def shown(total, dealer, ace):
    return (total * 11 + dealer) * 2 + ace


NATURALS = [shown(21, dealer, True) for dealer in range(1, 11)]
HIT_21 = list(range(704, 714))


@pytest.fixture(scope="module")
def mdp():
    return blackjack()


@pytest.fixture(scope="module")
def played(mdp):
    """Return first states and moves in ``privrl/Blackjack-v0``, half at random, half planned."""
    policy, _ = mdp.plan()
    env = gym.make("privrl.envs:privrl/Blackjack-v0", disable_env_checker=True)
    rng = np.random.default_rng(0)
    start = np.zeros(mdp.n_states, dtype=int)
    counts = np.zeros(mdp.transition.shape, dtype=int)
    env.reset(seed=1)
    for _ in range(EPISODES):
        seen, _ = env.reset()
        state = int(seen)
        start[state] += 1
        for step in range(mdp.horizon):
            action = int(policy[step, seen] if rng.random() < 0.5 else rng.integers(2))
            seen, reward, over, cut, _ = env.step(action)
            assert over or reward == 0
            # After a card, 21 with an ace is no natural, though it looks like one.
            drawn = HIT_21[NATURALS.index(seen)] if seen in NATURALS else int(seen)
            arrival = ENDS[reward] if over else drawn
            counts[state, action, arrival] += 1
            state = arrival
            if over:
                break
            assert not cut
    return start, counts


def p_value(counts, chances):
    """Return the p-value of all rows together; what is rare in a row is taken together."""
    statistic, freedom = 0.0, 0
    for seen, chance in zip(counts, chances, strict=True):
        expected = seen.sum() * chance
        if seen[chance == 0].any():
            return 0.0
        often = expected >= 5
        observed = np.append(seen[often], seen[~often].sum())
        expected = np.append(expected[often], expected[~often].sum())
        if 0 < expected[-1] < 5 and len(expected) > 1:  # with the rarest of the others, then
            least = expected[:-1].argmin()
            observed[least] += observed[-1]
            expected[least] += expected[-1]
            expected[-1] = 0
        filled = expected > 0
        statistic += ((observed[filled] - expected[filled]) ** 2 / expected[filled]).sum()
        freedom += max(filled.sum() - 1, 0)
    return chi2.sf(statistic, freedom)


def test_the_game_follows_the_tables(mdp, played):
    """All rows that are played, in one chi-square test at FALSE_ALARM; first states in another."""
    start, counts = played
    assert p_value(start[None], mdp.start[None]) > FALSE_ALARM
    rows = counts.reshape(-1, mdp.n_states)
    assert p_value(rows, mdp.transition.reshape(rows.shape)) > FALSE_ALARM


@pytest.mark.parametrize("mistake", ["dealer", "aces"])
def test_other_rules_are_noticed(mdp, played, mistake):
    """The power: a dealer who loses most ties, an ace that always counts 11."""
    rows = mdp.transition.copy()
    if mistake == "dealer":
        rows[:LOST, STICK, WON] += 0.75 * rows[:LOST, STICK, DRAWN]
        rows[:LOST, STICK, DRAWN] *= 0.25
    else:
        for dealer in range(1, 11):
            rows[shown(15, dealer, True), HIT] = rows[shown(15, dealer, False), HIT]
    counts = played[1].reshape(-1, mdp.n_states)
    assert p_value(counts, rows.reshape(counts.shape)) < FALSE_ALARM


def test_naturals_are_not_tied_with(mdp, played):
    """Unless by another; if other 21s did, a game without a tie had a chance below e^-10."""
    counts = played[1][NATURALS, STICK]
    np.testing.assert_array_equal(counts[1:9, DRAWN], 0)
    ties = counts.sum(axis=1) * mdp.transition[HIT_21, STICK, DRAWN]
    assert ties[1:9].sum() > 10
    assert counts[:, WON].sum() > 0


def test_the_optimum(mdp):
    """Example 5.3 of Sutton and Barto, figure 5.2; its value by other people's enumeration."""
    policy, value = mdp.plan()
    assert value == pytest.approx(-0.047, abs=0.005)
    first = policy[0]
    for dealer in range(1, 11):
        stands = 13 if dealer in {2, 3} else 12 if dealer in {4, 5, 6} else 17
        soft = 19 if dealer in {1, 9, 10} else 18
        for total in range(4, 22):
            assert first[shown(total, dealer, False)] == (HIT if total < stands else STICK)
        for total in range(12, 22):
            assert first[shown(total, dealer, True)] == (HIT if total < soft else STICK)
    assert (policy[:, NATURALS] == STICK).all()
    assert (policy[:-1, HIT_21] == STICK).all()


def test_a_natural_beats_all_but_another(mdp):
    two_cards = {1: 4 / 13, 10: 1 / 13}
    for dealer in range(1, 11):
        state = shown(21, dealer, True)
        assert mdp.transition[state, STICK, WON] == pytest.approx(1 - two_cards.get(dealer, 0))
        assert mdp.transition[state, STICK, LOST] == 0
    assert mdp.start[NATURALS].sum() == pytest.approx(2 * 1 / 13 * 4 / 13)
    assert mdp.start[HIT_21].sum() == 0


def test_dealers_totals(mdp):
    """Sticking on 4 wins if the dealer has more than 21, by cards: a 6 is the worst."""
    bust = [mdp.transition[shown(4, dealer, False), STICK, WON] for dealer in range(1, 11)]
    known = [0.1153, 0.3536, 0.3739, 0.3945, 0.4164, 0.4232, 0.2623, 0.2447, 0.2284, 0.2121]
    np.testing.assert_allclose(bust, known, atol=6e-4)


def test_what_is_never_shown_ends_the_episode(mdp):
    reachable = mdp.start > 0
    for _ in range(mdp.horizon):
        reachable = reachable | (reachable @ mdp.transition.any(axis=1) > 0)
    hands = [(t, a) for a in (False, True) for t in range(12 if a else 4, 22)]
    shown_ones = [shown(t, d, a) for t, a in hands for d in range(1, 11)]
    assert set(np.flatnonzero(reachable)) == {*shown_ones, *HIT_21, LOST, DRAWN, WON}
    assert (mdp.transition[~reachable, :, DRAWN] == 1).all()
    assert mdp.reward_range == (-1.0, 1.0)
