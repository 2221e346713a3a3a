"""What episodes come to that pass a state, and moves that others tell of."""

import numpy as np
import pytest
from offline_logs import Person, log_of, random_person, worth_choosing

from privrl.audit import audit_replay
from privrl.costs.base import NoPrivacy
from privrl.costs.relations import AddRemovePerson
from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline import fit_policy
from privrl.offline.facts import release_facts
from privrl.offline.persons import PersonStream
from privrl.offline.returns import Returns, Telling, release_returns

PUBLIC = {"step_rewards": (0.0, 0.0), "most_episodes": 1}


def branches(n_persons: int, seed: int = 0) -> list[Person]:
    """One way is 0, 1, 2 and ends well nine times of ten, the other 3, 4, 5, and one of ten."""
    draw = np.random.default_rng(seed)
    persons: list[Person] = []
    for _ in range(n_persons):
        way, *actions = draw.integers(2, size=4).tolist()
        well = draw.random() < (0.1 if way else 0.9)
        steps = [(3 * way + k, action, 0.0) for k, action in enumerate(actions)]
        persons.append([(steps, 0 if well else 1)])
    return persons


def returns_of(log: Log, room: tuple[float, float]) -> Returns:
    """Without noise, where visits were told by outcome, as loudly as there was room."""
    stream = PersonStream(log, NoPrivacy(AddRemovePerson()), np.random.default_rng(0))
    ends = log.next_state[log.episode_starts[1:] - 1] - log.n_states
    facts = release_facts(stream, log)
    loud = np.array(room)[np.repeat(ends, np.diff(log.episode_starts))]
    return release_returns(
        stream, log, facts, lambda part: part.reward - 0.5 * (part.next_state >= part.n_states),
        share=0.1, bound=1.5, visits=np.bincount(log.state, loud / 3, log.n_states),
        room=np.array(room), ends=np.array([0.5, -1.5]),
    )  # fmt: skip


@pytest.mark.parametrize("room", [(1.0, 1.0), (0.6, 0.05)])
def test_states_are_worth_what_follows_however_late(room: tuple[float, float]) -> None:
    """Nothing is lost on the way; who was not heard of is made up for."""
    persons = [*branches(4000), *branches(4000, seed=1)]
    log = log_of(persons, n_states=6, **PUBLIC)
    found = returns_of(log, room)
    np.testing.assert_allclose(found.above, np.repeat([0.8, -0.8], 3), atol=0.08)
    told = np.bincount(log.state, minlength=6)
    ends = log.next_state[log.episode_starts[1:] - 1] - log.n_states
    loud = np.bincount(log.state, np.array(room)[np.repeat(ends, 3)], 6) * found.times
    np.testing.assert_allclose(loud / loud.sum(), told / told.sum(), atol=0.01)
    assert (found.telling.part == [1.0, pytest.approx(0.1 / (1 - 0.9 / 3))]).all()
    np.testing.assert_allclose(found.telling.heard[:3], 0.9 + 0.1 / 7, atol=0.05)
    np.testing.assert_allclose(found.telling.heard[3:], 0.3, atol=0.0)


def test_others_tell_of_moves_for_those_who_cannot() -> None:
    steps = [(0, 0, 0.0), (1, 1, 0.0)]
    persons: list[Person] = [[(steps, 0)], [(steps, 0)], [(steps, 1)], [(steps, CUT)]]
    log = log_of(persons, **PUBLIC)
    heard = np.array([1.0, (1 + 1 + 0.25 + 1) / 4, 1.0])
    weights = Telling(np.array([1.0, 0.25]), heard).weights(log).reshape(4, 2)
    assert weights[:, 0].sum() == pytest.approx(4)
    assert weights[2, 0] == weights[0, 0] / 4
    assert (weights[:, 1] == 1).all()


def test_values_reach_far_back_in_one_round() -> None:
    """Of a log that tells enough for returns, and too little for many rounds."""
    log = log_of(branches(300), n_states=6, **PUBLIC)
    found = fit_policy(
        log, epsilon=100.0, discount=0.999, admissible=np.ones((6, 2), np.bool_),
        behaviour="uniform", rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.kind == "rounds"
    assert 0.7 <= found.signal < 2.5
    assert found.values[:3].min() > found.values[3:].max() + 0.3


@pytest.mark.slow
def test_nothing_is_found_of_returns() -> None:
    """Whoever is added or left out: of several episodes, or cut off."""
    draw = np.random.default_rng(3)
    public = {"step_rewards": (0.0, 0.0)}
    others = [random_person(draw, **public) for _ in range(4)]
    base: list[Person] = [*worth_choosing(400), *others, [([(0, 0, 0.0)], CUT)]]

    def run(log: Log) -> object:
        return fit_policy(
            log, epsilon=1000.0, discount=0.999, admissible=np.ones((3, 2), np.bool_),
            behaviour="uniform", rng=np.random.default_rng(0),
        )  # fmt: skip

    for place in range(399, len(base)):
        fewer = log_of([*base[:place], *base[place + 1 :]], **public)
        for one, two in ((log_of(base, **public), fewer), (fewer, log_of(base, **public))):
            result = audit_replay(run, one, two)
            assert not result.findings
            assert result.releases == 5
