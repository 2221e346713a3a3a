"""The exact tables of Gymnasium's Blackjack."""

from functools import cache

import numpy as np

from privrl.envs.tabular import TabularMDP

STICK, HIT = 0, 1

_CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
"""Values of the cards, an ace as 1, and how likely the endless deck gives them."""

_OBSERVATIONS = 32 * 11 * 2
_LOST, _DRAWN, _WON = range(_OBSERVATIONS + 10, _OBSERVATIONS + 13)

_LONGEST_HAND = 20  # from two aces, which count as 2, to more than 21 by drawing only aces


def blackjack() -> TabularMDP:
    """Return the tables of Blackjack by the rules of Gymnasium's Blackjack-v1.

    Action 0 sticks and action 1 hits. State ``(total * 11 + dealer) * 2 + ace``, below 704, is
    what ``privrl/Blackjack-v0`` shows: the player's total, the dealer's open card and whether
    the player has an ace that counts 11. Ten states follow for what the environment remembers
    and does not show: a total of 21 with such an ace is a natural if it was dealt, and state
    ``703 + dealer`` if it was hit, which does not beat a dealer's 21. The last three states are
    "over": lost, which pays -1 on arrival, drawn and won, which pays 1. What cannot be shown is
    drawn.

    Returns
    -------
    TabularMDP
        With 717 states, 2 actions and 20 steps in an episode.

    Notes
    -----
    A policy for the tables, shape (H, 717), plays in the environment: its first 704 columns say
    what to do. It earns there what it does here unless it treats a natural and another 21 with
    an ace differently, which the environment does not let it; nothing is better than to stick
    on both.

    References
    ----------
    .. [1] Sutton and Barto (2018), Reinforcement Learning, example 5.1.
    """
    n_states = _WON + 1
    transition = np.zeros((n_states, 2, n_states))
    transition[:_LOST, :, _DRAWN] = 1.0
    transition[range(_LOST, n_states), :, range(_LOST, n_states)] = 1.0
    start = np.zeros(n_states)
    for dealer, chance in _CARDS.items():
        for ace in (False, True):
            for total in range(12 if ace else 4, 22):
                state = _observation(total, dealer, ace)
                rest = _dealt(dealer)
                if (total, ace) == (21, True):
                    hit_state = _OBSERVATIONS + dealer - 1
                    transition[hit_state, STICK] = _compared(21, dealer, n_states)
                    transition[hit_state, HIT] = _hit(21, dealer, True, n_states)
                ...
    return TabularMDP(transition, reward, start, horizon=_LONGEST_HAND)
