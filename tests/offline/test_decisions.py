"""Steps as decisions, against a loop that reads them one after the other."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from offline_logs import SCHEMA, log_of, random_person

from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline.returns import Decisions, decisions_of, with_a_choice

Row = tuple[int, int, int, float, int, float, int]


def rows(decisions: Decisions) -> list[Row]:
    columns = (
        decisions.person, decisions.state, decisions.action, decisions.reward,
        decisions.next_state, decisions.discount, decisions.steps,
    )  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))


def by_a_loop(log: Log, discount: float, choice: list[bool]) -> list[Row]:
    """Go through each episode; what comes before its first choice is nobody's decision."""
    found = []
    for person in range(log.n_persons):
        for episode in range(log.person_starts[person], log.person_starts[person + 1]):
            now: list[Any] | None = None
            for step in range(log.episode_starts[episode], log.episode_starts[episode + 1]):
                state, following = int(log.state[step]), int(log.next_state[step])
                if choice[state]:
                    if now is not None:
                        found.append(tuple(now))
                    now = [person, state, int(log.action[step]), 0.0, 0, 1.0, 0]
                if now is None:
                    continue
                now[3] += now[5] * float(log.reward[step])
                now[4] = state if following == CUT else min(following, log.n_states)
                now[5] *= discount
                now[6] += 1
            if now is not None:
                found.append(tuple(now))
    return found


@given(
    seed=st.integers(0, 10**6),
    n_persons=st.integers(0, 4),
    discount=st.sampled_from([1.0, 0.9, 0.01]) | st.floats(0.01, 1),
    choice=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_decisions_are_those_of_the_loop(
    seed: int, n_persons: int, discount: float, choice: list[bool]
) -> None:
    rng = np.random.default_rng(seed)
    log = log_of([random_person(rng) for _ in range(n_persons)])
    for found, wanted in (
        (with_a_choice(log, discount, np.array(choice)), by_a_loop(log, discount, choice)),
        (decisions_of(log, discount), by_a_loop(log, discount, [True] * 3)),
    ):
        seen = rows(found)
        assert [(*row[:3], row[4], row[6]) for row in seen] == [
            (*row[:3], row[4], row[6]) for row in wanted
        ]
        for column in (3, 5):
            np.testing.assert_allclose(
                [row[column] for row in seen], [row[column] for row in wanted], rtol=1e-12
            )


def test_an_example() -> None:
    """In state 0 there is nothing to choose."""
    episodes = [
        ([(0, 0, 0.5), (1, 1, 0.1), (0, 0, 0.2), (0, 0, 0.3), (2, 0, 0.0)], 1),
        ([(1, 0, 0.4), (0, 0, 0.2)], CUT),
        ([(0, 1, 0.4)], 0),
    ]
    log = log_of([[([(2, 1, 0.25)], 0)], episodes])
    found = with_a_choice(log, 0.5, np.array([False, True, True]))
    assert rows(found) == [
        (0, 2, 1, 1.25, 3, 0.5, 1),  # the episode is over
        (1, 1, 1, 0.1 + 0.2 * 0.5 + 0.3 * 0.25, 2, 0.125, 3),
        (1, 2, 0, -1.0, 3, 0.5, 1),
        (1, 1, 0, 0.4 + 0.2 * 0.5, 0, 0.25, 2),  # cut off in state 0, where it is taken to stay
    ]


def test_no_choice_no_decisions() -> None:
    log = log_of([[([(0, 0, 0.0)], 0)]])
    assert rows(with_a_choice(log, 1.0, np.zeros(3, np.bool_))) == []


def test_a_persons_amounts_have_the_same_bits_beside_anyone() -> None:
    """Else one person's rounding would depend on another's presence."""
    rng = np.random.default_rng(8)
    many = {"most_steps": 400, "most_episodes": 1}
    people = [random_person(rng, **many) for _ in range(5)]
    choice = np.arange(SCHEMA["n_states"]) == 1
    alone = [with_a_choice(log_of([each], **many), 0.987, choice) for each in people]
    beside = with_a_choice(log_of(people, **many), 0.987, choice)
    for name in ("reward", "discount"):
        apart = np.concatenate([getattr(each, name) for each in alone])
        np.testing.assert_array_equal(getattr(beside, name), apart)
