"""Sensitivity of moments, their noise, and what they cost."""

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from continuous_worlds import SCHEMA, walks

from privrl.accounting import ApproxDP, BudgetExceeded, RdpAccountant, RenyiDP, ZeroConcentratedDP
from privrl.accounting.targets import PureDP, Target
from privrl.audit import audit_replay
from privrl.continuous import ContinuousLog, fit_continuous_model, moments
from privrl.continuous.design import Design
from privrl.continuous.features import Basis
from privrl.continuous.fitting import _rows as _feature_rows
from privrl.continuous.moments import (
    GRAINS,
    MomentsMechanism,
    MomentStream,
    sensitivity,
)
from privrl.continuous.schema import ContinuousSchema, Number
from privrl.costs import Relation, ReplaceRecord
from privrl.costs.relations import NORMS, AddRemovePerson, ReplaceLoggedStep, ReplacePerson

RELATIONS = [AddRemovePerson(), ReplacePerson(), ReplaceLoggedStep()]


def _exact(log: ContinuousLog, relation: Relation, share: float, kind: str) -> np.ndarray:
    """Return the sum of contributions, before any noise, as the stream adds noise to it."""
    seen = []
    stream = MomentStream(log, MomentsMechanism(sigma=1.0, relation=relation), 0)
    stream._release = lambda data: seen.append(data) or data
    (stream.count if kind == "counts" else stream.update)(lambda part: _rows(part, kind), 4, share)
    return seen[0]


def _rows(part: ContinuousLog, kind: str) -> np.ndarray:
    rows = np.column_stack([part.state, part.action, part.next_state[:, 0]])
    if kind == "large":
        return rows * 1e200
    if kind == "broken":
        return np.where(rows > 0.3, np.nan, rows)
    return np.round(rows) if kind == "whole" else rows


def _without(log: ContinuousLog, person: int) -> ContinuousLog:
    first, last = log.offsets[person : person + 2]
    keep = np.ones(len(log.state), bool)
    keep[first:last] = False
    assert log.reward is not None
    assert log.terminated is not None
    lengths = np.delete(np.diff(log.offsets), person)
    return ContinuousLog(
        SCHEMA,
        log.state[keep],
        log.action[keep],
        log.next_state[keep],
        log.reward[keep],
        log.terminated[keep],
        np.append(0, np.cumsum(lengths)),
    )


def _with_person(log: ContinuousLog, other: ContinuousLog) -> ContinuousLog:
    """Return the log with its first person replaced by that of another log."""
    rest = _without(log, 0)
    n = other.offsets[1]
    join = {
        name: np.concatenate([getattr(other, name)[:n], getattr(rest, name)])
        for name in ("state", "action", "next_state", "reward", "terminated")
    }
    return ContinuousLog(SCHEMA, **join, offsets=np.append(0, rest.offsets + n))


def _with_step(log: ContinuousLog, row: int, rng: np.random.Generator) -> ContinuousLog:
    state, action, after = log.state.copy(), log.action.copy(), log.next_state.copy()
    assert log.reward is not None
    reward = log.reward.copy()
    state[row] = rng.uniform([-1, 0], [1, 1])
    action[row], reward[row] = rng.integers(-1, 2), rng.uniform(-1, 0)
    if row not in log.offsets:  # the step before arrives there
        after[row - 1] = state[row]
    return replace(log, state=state, action=action, next_state=after, reward=reward)


@pytest.mark.few(10)
@pytest.mark.parametrize("kind", ["plain", "large", "broken", "whole", "counts"])
@pytest.mark.parametrize("share", [1.0, 0.13])
def test_neighbours_differ_by_no_more_than_the_sensitivity(kind: str, share: float) -> None:
    """By brute force over 60 neighbours for each relation; the worst are within reach of it."""
    rng, most = np.random.default_rng(0), {str(r): 0.0 for r in RELATIONS}
    for trial in range(60):
        log, other = walks(3, trial, 4), walks(3, 1000 + trial, 4)
        row = int(rng.integers(len(log.state)))
        pairs = [
            (AddRemovePerson(), _without(log, int(rng.integers(3)))),
            (ReplacePerson(), _with_person(log, other)),
            (ReplaceLoggedStep(), _with_step(log, row, rng)),
        ]
        for relation, neighbour in pairs:
            change = _exact(log, relation, share, kind) - _exact(neighbour, relation, share, kind)
            norm = float(np.linalg.norm(change)) / math.sqrt(share)
            assert norm <= sensitivity(relation) * (1 + 1e-12)
            most[str(relation)] = max(most[str(relation)], norm)
    if kind in ("plain", "large"):
        assert most["add or remove one person"] > 0.999
        assert most["replace one person"] > 1.2
        assert most["replace one step of a log"] > 2


class _Household(AddRemovePerson):
    """Five persons at once, by its own vectors."""

    def __init__(self) -> None:
        Relation.__init__(
            self, "add or remove a household of 5", {NORMS: [(5,), (-5,)]}, norm_only=[NORMS]
        )


def test_relations_with_changes_of_their_own_are_refused() -> None:
    """Noise that hides one person was stated to hide a whole household."""
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="relation must be AddRemovePerson"):
        fit_continuous_model(
            walks(5, 0), epsilon=1, relation=_Household(), rng=0, accountant=accountant
        )
    assert accountant.relation is None


def test_opposite_persons_reach_the_sensitivity_of_replacement() -> None:
    first, second = walks(1, 0, 1), walks(1, 1, 1)
    first = replace(first, state=np.array([[1.0, 0.0]]), action=np.zeros((1, 1)))
    second = replace(second, state=np.array([[0.0, 0.9]]), action=np.zeros((1, 1)))
    first = replace(first, next_state=np.zeros((1, 2)))
    second = replace(second, next_state=np.zeros((1, 2)))
    change = _exact(first, ReplacePerson(), 1.0, "plain") - _exact(
        second, ReplacePerson(), 1.0, "plain"
    )
    assert np.linalg.norm(change) == pytest.approx(math.sqrt(2), abs=1e-5)


def test_sums_are_whole_grains_in_any_order() -> None:
    log = walks(9, 3)
    sums = _exact(log, AddRemovePerson(), 1.0, "plain") * GRAINS
    np.testing.assert_array_equal(sums, np.rint(sums))
    np.testing.assert_array_equal(sums, sums.T)
    parts = sum(_exact(part, AddRemovePerson(), 1.0, "plain") for part in log.blocks(10))
    np.testing.assert_array_equal(parts * GRAINS, sums)


def _of_lengths(lengths: list[int]) -> ContinuousLog:
    rng, n = np.random.default_rng(0), sum(lengths)
    states = rng.uniform([-1, 0], [1, 1], (2, n, 2))
    return ContinuousLog.of_arrays(
        SCHEMA,
        person=np.repeat(np.arange(len(lengths)), lengths),
        state=states[0],
        action=rng.uniform(-1, 1, n),
        next_state=states[1],
        reward=rng.uniform(-1, 0, n),
        terminated=rng.random(n) < 0.1,
    )


@pytest.mark.parametrize("kind", ["update", "count"])
@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_persons_contribute_the_same_bits_whoever_else_is_there(
    kind: str, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of other shapes are rounded otherwise: a long person changed all others."""
    # Smaller grains show more bits; sums of 30 persons or 1,500 steps are still exact.
    by_step = isinstance(relation, ReplaceLoggedStep)
    monkeypatch.setattr(moments, "GRAINS", 2.0**40 if by_step else 2.0**48)
    basis, rng = Basis(SCHEMA, 6, 6), np.random.default_rng(1)
    transform, mean = rng.normal(size=(len(basis),) * 2), rng.normal(size=(len(basis), 3))

    def contributions(part: ContinuousLog) -> np.ndarray:
        # 31 columns: kernels for multiples of 8 may round products of all lengths alike.
        return _feature_rows(basis, transform, mean, np.ones(3))(part)[:, :31]

    def exact(log: ContinuousLog) -> np.ndarray:
        seen = []
        stream = MomentStream(log, MomentsMechanism(sigma=1e-3, relation=relation), 0)
        stream._release = lambda data: seen.append(data) or data
        getattr(stream, kind)(contributions, 31, 1.0)
        return seen[0]

    log = _of_lengths([1, 1, 2, 3, 5, 8, 40, 41, 300, 699, 1, 17] + [3, 17, 41] * 6)
    rows = contributions(log)
    alone = [contributions(part) for part in log.blocks(1)]
    assert len(alone) == 30
    np.testing.assert_array_equal(rows, np.concatenate(alone))
    np.testing.assert_array_equal(exact(log), sum(map(exact, log.blocks(1))))


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize(
    "target", [ApproxDP(1, 1e-5), RenyiDP(8, 0.5), ZeroConcentratedDP(0.1)], ids=repr
)
def test_calibration_meets_the_target(relation: Relation, target: Target) -> None:
    mechanism = MomentsMechanism.calibrated(target, relation=relation)
    assert target.excess(mechanism.cost) <= 0
    less = replace(mechanism, sigma=mechanism.sigma * 0.999)
    assert target.excess(less.cost) > 0


def test_zero_concentration_is_the_textbook_one() -> None:
    mechanism = MomentsMechanism.calibrated(ZeroConcentratedDP(0.02))
    assert mechanism.sigma == pytest.approx(1 / math.sqrt(0.04), rel=1e-6)
    other = MomentsMechanism.calibrated(ZeroConcentratedDP(0.02), relation=ReplacePerson())
    assert other.sigma == pytest.approx(math.sqrt(2 / 0.04), rel=1e-3)


def test_other_targets_and_relations_are_refused() -> None:
    with pytest.raises(ValueError, match="relation must be"):
        MomentsMechanism(sigma=1.0, relation=ReplaceRecord())
    with pytest.raises(ValueError, match="sigma"):
        MomentsMechanism(sigma=1e9)
    with pytest.raises(ValueError, match="target"):
        MomentsMechanism.calibrated(PureDP(1))


def test_noise_is_symmetric_and_of_its_size() -> None:
    """64 * 65 / 2 draws: 6 deviations of a variance, one false alarm in 1e8."""
    stream = MomentStream(walks(1, 0), MomentsMechanism(sigma=5.0), 1)
    size = 64
    noisy, noise = stream.update(lambda part: np.zeros((len(part.state), size)), size, 0.25)
    np.testing.assert_array_equal(noisy, noisy.T)
    assert noise == pytest.approx(10)
    off = noisy[np.triu_indices(size, 1)]
    assert np.var(off) == pytest.approx(50, rel=6 * math.sqrt(2 / len(off)))
    assert np.var(np.diag(noisy)) == pytest.approx(100, rel=6 * math.sqrt(2 / size))


def test_a_budget_is_charged_once_and_never_exceeded() -> None:
    log, mechanism = walks(2, 0), MomentsMechanism(sigma=5.0)
    accountant = RdpAccountant()
    stream = MomentStream(log, mechanism, 0, accountant)
    for share in (0.5, 0.25, 0.25):
        stream.update(lambda part: part.state, 2, share)
    assert float(accountant.epsilon(1e-5)) == pytest.approx(
        float(mechanism.cost.epsilon(1e-5)), rel=0.3
    )
    assert np.array_equal(accountant.rdp, mechanism.cost.rdp(accountant.orders))
    with pytest.raises(ValueError, match="share must be at most"):
        stream.update(lambda part: part.state, 2, 0.01)
    tight = RdpAccountant(budget=ApproxDP(0.01, 1e-5))
    with pytest.raises(BudgetExceeded):
        MomentStream(log, mechanism, 0, tight)
    with pytest.raises(BudgetExceeded):
        fit_continuous_model(log, epsilon=1, accountant=tight)


def test_a_stream_is_charged_for_the_unit_of_its_log() -> None:
    """Episodes and persons were added up in one account, of neither."""
    log, mechanism, accountant = walks(2, 0), MomentsMechanism(sigma=5.0), RdpAccountant()
    MomentStream(log, mechanism, 0, accountant)
    with pytest.raises(ValueError, match=r"got 'add or remove one person \(episode\)'"):
        MomentStream(replace(log, unit="episode"), mechanism, 0, accountant)
    with pytest.raises(ValueError, match=r"got 'add or remove one person \(episode\)'"):
        fit_continuous_model(replace(log, unit="episode"), epsilon=1.0, accountant=accountant)
    by_step = replace(mechanism, relation=ReplaceLoggedStep())  # a step of anybody
    assert MomentStream(log, by_step, 0).cost.relation == ReplaceLoggedStep()


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_replay_finds_nothing(relation: Relation) -> None:
    """All that leaves a fit is the same on a neighbouring log, given the releases."""

    def pipeline(log: ContinuousLog) -> object:
        accountant = RdpAccountant()
        model = fit_continuous_model(
            log, epsilon=1, relation=relation, rng=1, accountant=accountant, order=3
        )
        ends = model.ends and (model.ends.bounds, model.ends.reward)
        return model.mean, model.covariance, ends, model.core, model.start, model.statement

    log, rng = walks(6, 2), np.random.default_rng(0)
    neighbour = {
        "add or remove one person": lambda: _without(log, 2),
        "replace one person": lambda: _with_person(log, walks(1, 77)),
        "replace one step of a log": lambda: _with_step(log, 11, rng),
    }[str(relation)]()
    result = audit_replay(pipeline, log, neighbour)
    assert result.findings == ()
    assert result.error is None
    assert result.releases == 8  # reward, scales, starts, visits, ends and three rounds


def _ending(log: ContinuousLog) -> ContinuousLog:
    """Return a log in which all persons' last steps terminate at the upper edge."""
    after, over, last = log.next_state.copy(), log.terminated.copy(), log.offsets[1:] - 1
    after[last, 0], over[last] = 0.97, True
    return replace(log, next_state=after, terminated=over)


def test_replay_finds_nothing_where_ends_are_looked_at_again() -> None:
    """With little noise, a second release about ends is made, for sides that the first found."""

    def pipeline(log: ContinuousLog) -> object:
        model = fit_continuous_model(log, epsilon=300, rng=1, order=2)
        return model.ends and (model.ends.bounds, model.ends.reward), model.mean

    log = _ending(walks(40, 2))
    bounds, _ = pipeline(log)[0]
    assert 0.8 < bounds[0, 1] <= 0.97
    result = audit_replay(pipeline, log, _without(log, 2))
    assert result.findings == ()
    assert result.releases == 9


def test_replay_finds_a_replaced_person_under_the_relation_of_steps() -> None:
    log = walks(6, 2, 30)
    other = _with_person(log, walks(1, 77, 30))

    def pipeline(log: ContinuousLog) -> object:
        return fit_continuous_model(
            log, epsilon=1, relation=ReplaceLoggedStep(), rng=1, order=3
        ).mean

    assert audit_replay(pipeline, log, other).violated


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_is_not_copied(copied: Callable[[object], object]) -> None:
    """A shallow copy had a whole budget of its own."""
    with pytest.raises(TypeError, match="would spend one budget"):
        copied(MomentStream(walks(2, 0), MomentsMechanism(sigma=5.0), 0))


@pytest.mark.parametrize("kind", ["update", "count"])
def test_rows_of_another_shape_are_refused(kind: str) -> None:
    """One column was broadcast to fifty, so that a person counted fifty times."""
    log = walks(3, 0)
    for rows in (
        lambda part: np.ones((len(part.state), 1)),
        lambda part: np.ones((1, 50)),
        lambda part: part.state[:, 0],
        lambda part: np.ones((len(part.state), 50), complex),
        lambda part: None,
    ):
        stream = MomentStream(log, MomentsMechanism(sigma=5.0), 0)
        with pytest.raises(ValueError, match="rows must return numbers") as raised:
            getattr(stream, kind)(rows, 50, 0.5)
        assert str(len(log.state)) not in str(raised.value)


@pytest.mark.parametrize("kind", ["update", "count"])
def test_sums_of_short_floats_are_exact(kind: str) -> None:
    """Sums of 32 bits were rounded, differently with another person."""

    def exact(log: ContinuousLog) -> np.ndarray:
        seen = []
        stream = MomentStream(log, MomentsMechanism(sigma=1.0), 0)
        stream._release = lambda data: seen.append(data) or data
        getattr(stream, kind)(lambda part: part.state.astype(np.float32), 2, 1.0)
        return seen[0]

    log = walks(60, 3)
    np.testing.assert_array_equal(exact(log), sum(map(exact, log.blocks(1))))


@pytest.mark.parametrize("size", [91, 100, 130])
def test_wide_rows_have_the_same_bits_wherever_they_are(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Squares of more than 8192 numbers were added up in parts that began at another's end."""
    monkeypatch.setattr(moments, "GRAINS", 2.0**50)  # which show more bits
    row = np.random.default_rng(size).normal(size=size)

    def total(n_persons: int) -> np.ndarray:
        zeros = np.zeros((n_persons, 2))
        log = ContinuousLog.of_arrays(
            SCHEMA,
            person=np.arange(n_persons),
            state=zeros,
            next_state=zeros,
            action=zeros[:, 0],
            reward=zeros[:, 0],
            terminated=zeros[:, 0],
        )
        stream = MomentStream(log, None)
        return stream.update(lambda part: np.tile(row, (len(part.state), 1)), size, 1.0)[0]

    np.testing.assert_array_equal(total(40), 40 * total(1))


def test_small_shares_have_few_columns() -> None:
    """Of tiny contributions rounding is a large part: many add up to more than is derived."""
    stream = MomentStream(walks(2, 0), MomentsMechanism(sigma=5.0, relation=ReplacePerson()), 0)
    with pytest.raises(ValueError, match="size must be from 1 to 30 for this share"):
        stream.update(lambda part: np.ones((len(part.state), 31)), 31, 1e-4)
    stream.update(lambda part: np.ones((len(part.state), 30)), 30, 1e-4)


def test_persons_with_large_numbers_are_told_apart() -> None:
    """As floats 2^53 and 2^53 + 1 are one number, and two persons were one."""

    def log(person: object) -> ContinuousLog:
        rows = [[0.1, 0.2], [0.3, 0.4]]
        return ContinuousLog.of_arrays(
            SCHEMA,
            person=person,
            state=rows,
            action=[1, 0],
            next_state=rows,
            reward=[0, 0],
            terminated=[0, 0],
        )

    assert log(np.array([2**53 + 1, 2**53])).n_persons == 2
    assert log(np.array([2**63 + 1, 2**63], np.uint64)).n_persons == 2
    assert log([7, 7]).n_persons == 1
    assert log([2**64, 2**64 + 1]).n_persons == 2
    assert log(np.array([2**53, 2**53 + 1], object)).n_persons == 2
    short = np.array([2**24, 2**24 + 1], np.float32)
    for nobody in ([2.0**60, 2.0**60], short, list(short), np.array([2049, 2050], np.float16)):
        assert log(nobody).n_persons == 0  # as `read_log` does
    if np.finfo(np.longdouble).nmant > 52:  # of which 64 bits would make one person
        with pytest.raises(ValueError, match="got type longdouble"):
            log(1 + np.arange(2) * np.finfo(np.longdouble).eps)
    with pytest.raises(ValueError, match="masked"):
        log(np.ma.masked_array([1, 2], [False, True]))


def test_logs_of_nobody_look_like_others() -> None:
    """An error told a log of nobody from that of one person."""
    empty = np.zeros((0, 2))
    nobody = ContinuousLog.of_arrays(
        SCHEMA, person=[], state=empty, action=[], next_state=empty, reward=[], terminated=[]
    )
    assert fit_continuous_model(nobody, epsilon=1, rng=0, order=2).persons >= 1
    log = walks(3, 0)
    without_rows = replace(log, offsets=np.append(log.offsets, log.offsets[-1]))
    assert fit_continuous_model(without_rows, epsilon=1, rng=0, order=2).persons >= 1


def test_what_is_wrong_is_refused_before_the_charge() -> None:
    accountant, log = RdpAccountant(), walks(3, 0)
    many = ContinuousSchema(
        state={f"x{i}": Number(low=0, high=1) for i in range(20)},
        action={"push": Number(low=-1, high=1, levels=3)},
        terminates=True,
    )
    rows = np.zeros((1, 20))
    wide = ContinuousLog.of_arrays(
        many, person=[1], state=rows, action=[0], next_state=rows, terminated=[0]
    )
    with pytest.raises(ValueError, match="fewer columns"):
        fit_continuous_model(wide, epsilon=1, order=3, accountant=accountant)
    with pytest.raises(ValueError, match="design must be a Design"):
        fit_continuous_model(log, epsilon=1, design=3, accountant=accountant)
    assert not accountant.rdp.any()
    for wrong in ({"scales": -1}, {"rounds": (1, 1)}, {"orders": ()}, {"starts": 0.99}):
        with pytest.raises(ValueError, match="must"):
            Design(**wrong)


def test_the_cost_of_a_stream_is_read_only() -> None:
    stream = MomentStream(walks(2, 0), MomentsMechanism(sigma=5.0), 0)
    with pytest.raises(AttributeError, match="cost of a MomentStream is read-only"):
        stream.cost = MomentsMechanism(sigma=50.0).cost


@pytest.mark.parametrize("relation", [AddRemovePerson(), ReplaceLoggedStep()], ids=str)
def test_counts_are_not_negative(relation: Relation) -> None:
    """Counts of opposite signs would differ by 2 if a person were replaced."""
    seen = []
    stream = MomentStream(walks(3, 0), MomentsMechanism(sigma=1.0, relation=relation), 0)
    stream._release = lambda data: seen.append(data) or data
    stream.count(lambda part: np.tile([1.0, -1.0], (len(part.state), 1)), 2, 1.0)
    assert seen[0][0] > 0
    assert seen[0][1] == 0


def test_rows_that_use_their_stream_are_refused() -> None:
    """They waited for themselves, for ever."""
    stream = MomentStream(walks(3, 0), MomentsMechanism(sigma=1.0), 0)

    def rows(part: ContinuousLog) -> np.ndarray:
        stream.count(lambda own: np.ones((len(own.state), 1)), 1, 0.1)
        return np.ones((len(part.state), 1))

    with pytest.raises(ValueError, match="rows must not use the stream"):
        stream.update(rows, 1, 0.5)
    assert stream.count(lambda own: np.ones((len(own.state), 1)), 1, 0.5)[0].shape == (1,)
