"""The exact tables of Gymnasium's Blackjack."""

from collections import defaultdict
from functools import cache
from itertools import product

import numpy as np

from privrl._registration import LONGEST_HAND
from privrl.envs.tabular import TabularMDP

STICK, HIT = 0, 1

_CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
"""Chances of the cards of an endless deck; an ace is a 1 here."""

_HIT_21 = 32 * 11 * 2
"""Where the states begin that are 21 with an ace but no natural; those shown come before."""
_LOST, _DRAWN, _WON = range(_HIT_21 + 10, _HIT_21 + 13)


def blackjack() -> TabularMDP:
    """Return the tables of Blackjack by the rules of Gymnasium's Blackjack-v1.

    Action 0 sticks and action 1 hits. State ``(total * 11 + dealer) * 2 + ace``, below 704, is
    what ``privrl/Blackjack-v0`` shows: the player's total, the dealer's open card and whether
    the player has an ace that counts 11. Ten states follow for what the environment remembers
    and does not show: 21 with such an ace is a natural if it was dealt, and state
    ``703 + dealer`` if it was hit, which does not beat a dealer's 21. The last three states are
    "over": lost, which pays -1 on arrival, drawn, and won, which pays 1. From what never is
    shown everything leads to drawn.

    Returns
    -------
    TabularMDP
        With 717 states, 2 actions and 20 steps in an episode.

    Notes
    -----
    A policy for the tables, shape (20, 717), plays in the environment as it is: observations
    number its first 704 columns. It earns there what it is worth here if it treats 21 with an
    ace alike, hit or dealt; nothing is better than to stick on both.

    References
    ----------
    .. [1] Sutton and Barto (2018), Reinforcement Learning, example 5.1.
    """
    n_states = _WON + 1
    transition = np.zeros((n_states, 2, n_states))
    start = np.zeros(n_states)
    for dealer, opened in _CARDS.items():
        for total, ace in [*product(range(4, 22), [False]), *product(range(12, 22), [True])]:
            state = _shown(total, dealer, ace)
            for final, chance in _finals(dealer, dealer == 1).items():
                transition[state, STICK, _end(total, final)] += chance
            for card, chance in _CARDS.items():
                transition[state, HIT, _after(total, dealer, ace, card)] += chance
        natural, hit = _shown(21, dealer, True), _HIT_21 + dealer - 1
        transition[hit] = transition[natural]
        # A natural beats all but another one.
        also = {1: _CARDS[10], 10: _CARDS[1]}.get(dealer, 0.0)
        transition[natural, STICK, [_DRAWN, _WON]] = also, 1 - also
        for first, second in product(_CARDS, repeat=2):
            total, ace = _counted(first + second, 1 in (first, second))
            start[_shown(total, dealer, ace)] += _CARDS[first] * _CARDS[second] * opened

    over = np.arange(_LOST, n_states)
    transition[over, :, over] = 1.0
    transition[transition.sum(axis=-1) == 0, _DRAWN] = 1.0
    reward = np.zeros_like(transition)
    reward[:_LOST, :, _LOST], reward[:_LOST, :, _WON] = -1.0, 1.0
    return TabularMDP(transition, reward, start, horizon=LONGEST_HAND)


def _shown(total: int, dealer: int, ace: bool) -> int:
    """Return the state that an observation is."""
    return (total * 11 + dealer) * 2 + ace


def _counted(total: int, ace: bool) -> tuple[int, bool]:
    """Return a total with an ace as 11 where it may be, and whether one is."""
    high = ace and total <= 11
    return total + 10 * high, high


def _end(total: int, final: int) -> int:
    """Return the state that a comparison with the dealer ends in."""
    return _WON if total > final else _LOST if total < final else _DRAWN


def _after(total: int, dealer: int, ace: bool, card: int) -> int:
    """Return the state that a card leads to."""
    # Without a high ace: no ace, or the total stays too large for one.
    total, ace = _counted(total - 10 * ace + card, ace or card == 1)
    if total > 21:
        return _LOST
    return _HIT_21 + dealer - 1 if (total, ace) == (21, True) else _shown(total, dealer, ace)


@cache
def _finals(total: int, ace: bool) -> dict[int, float]:
    """Return the chances of what the dealer ends with, 0 for more than 21; aces count 1."""
    high, _ = _counted(total, ace)
    if high >= 17:
        return {high if high <= 21 else 0: 1.0}
    law: defaultdict[int, float] = defaultdict(float)
    for card, chance in _CARDS.items():
        for final, rest in _finals(total + card, ace or card == 1).items():
            law[final] += chance * rest
    return law
