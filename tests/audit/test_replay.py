"""The replay itself: pipelines that are as they should be, and each way in which one is not."""

import warnings
from collections import deque
from functools import partial

import numpy as np
import pandas as pd
import pytest

from privrl.accounting import releases
from privrl.accounting.rdp import RdpAccountant
from privrl.audit import audit_replay
from privrl.audit.coverage import changes_between, covers
from privrl.costs import relations
from privrl.costs.base import BatchCost, NoPrivacy
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.mechanisms import GaussianMechanism, LaplaceMechanism, NoisyPosteriorMechanism
from privrl.mechanisms.tables import TablesMechanism
from privrl.samplers.base import draw
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.moments import MomentSampler
from privrl.samplers.noisy_counts import NoisyCounts

RECORDS, OTHERS = [0, 1, 1, 2, 2, 2], [0, 1, 1, 2, 2, 0]
GAUSSIAN = GaussianMechanism(sigma=1.0)


def _counts(records, size=3):
    return np.bincount(records, minlength=size)


def _released(records, mechanism=GAUSSIAN, **options):
    return mechanism.release(_counts(records), np.random.default_rng(0), **options)


def _two_of_a_stream(records, sampler, *, again=False):
    """Two batches: the last record in the second, or, ``again``, every record in both."""
    accountant, rng = RdpAccountant(), np.random.default_rng(0)
    parts = (records, records) if again else (records[:-1], records[-1:])
    batches = [_counts(part) for part in parts]
    drawn = [draw(accountant, [(sampler, batch)], rng)[0].sample(rng) for batch in batches]
    return drawn, accountant.rdp


# As they should be ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pipeline",
    [
        _released,
        lambda records: _released(records, LaplaceMechanism(scale=1.0)),
        lambda records: _released(records, accountant=RdpAccountant()),
        lambda records: _released(
            records, NoisyPosteriorMechanism(noise=GAUSSIAN, alpha=1.0)
        ).concentrations,
        lambda records: TablesMechanism(
            shapes=((1, 3), (2, 2)), mechanism="gaussian", sizes=(1.0, 2.0)
        ).release([_counts(records)[None], _counts(records, 4).reshape(2, 2)],
                  np.random.default_rng(0), accountant=RdpAccountant()),
        lambda records: _two_of_a_stream(records, Diffuse(weight=0.1, relation=RECORD)),
        lambda records: _two_of_a_stream(
            records, NoisyCounts(sigma=1.0, updates=2, relation=RECORD)
        ),
        lambda records: pd.DataFrame({"count": _released(records)}),
    ],
)  # fmt: skip
def test_nothing_is_found(pipeline) -> None:
    result = audit_replay(pipeline, RECORDS, OTHERS)
    assert not result.violated, result.findings
    assert result.releases > 0
    assert result.error is None


def test_what_follows_from_a_release_may_depend_on_it() -> None:
    def adaptive(records):
        rng = np.random.default_rng(0)
        first = GAUSSIAN.release(_counts(records), rng)
        second = GaussianMechanism(sigma=float(1 + abs(first[0])))
        more = [second.release(_counts(records), rng) for _ in range(int(rng.integers(1, 4)))]
        return first, more, rng.random()

    assert not audit_replay(adaptive, RECORDS, OTHERS).violated


# As they should not be ------------------------------------------------------------------------


def _asks_more(records):
    return [_released(records) for _ in range(1 + (records[-1] == 0))]


def _bins_from_the_data(records):
    return _released([*records, 4] if records[-1] == 0 else records, _sized_by(records))


def _sized_by(records):
    return GaussianMechanism(sigma=1.0 + records[-1])


def _as_many_cells_as_values(records):
    return GAUSSIAN.release(
        np.bincount(records + [3] * (records[-1] == 0)), np.random.default_rng(0)
    )


def _says(records):
    released = _released(records)
    if records[-1] == 0:
        warnings.warn("a record is 0", stacklevel=1)
    return released


def _refuses(records):
    if records[-1] == 0:
        raise ValueError("a record is 0")
    return _released(records)


def _notes(records):
    error = ValueError("refused")
    error.add_note(f"{records[-1]} is the last")
    raise error


def _refuses_because(records):
    try:
        raise KeyError(records[-1])
    except KeyError as error:
        raise ValueError("refused") from error


def _refuses_meanwhile(records):
    try:
        raise KeyError(records[-1])
    except KeyError:
        raise ValueError("refused")  # noqa: B904 # on purpose


def _shows(records):
    return _released(records), _counts(records)


def _counts_twice(records):
    return GAUSSIAN.release(2 * _counts(records), np.random.default_rng(0))


def _noise_of_its_own(records):
    noisy = _counts(records) + np.random.default_rng(1).normal(size=3)
    return _released(records), noisy


def _enters_twice(records):
    sampler = NoisyCounts(sigma=1.0, updates=2, relation=RECORD)
    return _two_of_a_stream(records, sampler, again=True)


def _charges_less(records):
    accountant = RdpAccountant()

    class Cheap(GaussianMechanism):
        def release(self, data, rng, *, accountant=None):
            released = super().release(data, rng)
            releases.charge(accountant, GaussianCost(sigma=2.0, relation=RECORD))
            return released

    return _released(records, Cheap(sigma=1.0), accountant=accountant)


@pytest.mark.parametrize(
    ("pipeline", "found"),
    [
        (_asks_more, "1 releases became 2"),
        (_bins_from_the_data, "who releases differs"),
        (_as_many_cells_as_values, "the table differs"),
        (_says, "the warnings differ"),
        (_refuses, "the exception differs"),
        (_notes, "the traceback differs"),
        (_refuses_because, "the traceback differs"),
        (_refuses_meanwhile, "the traceback differs"),
        (_shows, "the result differs"),
        (_noise_of_its_own, "the result differs"),
        (_counts_twice, "inputs differ by (+2, -2)"),
        (_enters_twice, "inputs differ by (+1, -1, +1, -1)"),
        (_charges_less, "was charged"),
    ],
)
def test_a_violation_is_found(pipeline, found) -> None:
    result = audit_replay(pipeline, RECORDS, OTHERS)
    assert result.violated
    assert any(found in each for each in result.findings), result.findings


def test_a_hidden_cause_is_not_seen() -> None:
    def refuses(records):
        try:
            raise KeyError(records[-1])
        except KeyError:
            raise ValueError("refused") from None

    assert not audit_replay(refuses, RECORDS, OTHERS).violated


def test_entries_beside_a_diagonal_count_twice() -> None:
    """They stand for two each, so their noise has half of the variance."""

    def pipeline(batch):
        relation = relations.ReplaceTransition()  # of a squared norm of 2
        sampler = MomentSampler(sigma=1.0, updates=1, columns=2, cells=1, relation=relation)
        return draw(RdpAccountant(), [(sampler, batch)], np.random.default_rng(0))[0].counts

    nothing = np.zeros(4)
    for batch, is_covered in (
        ([1.375, 0, 0, 0], True),
        ([0, 1.375, 0, 0], False),
        ([0, 0.5, 1.0, 0.5], True),
        ([0, 0, 0, 1.5], False),
    ):
        found = audit_replay(pipeline, nothing, np.array(batch))
        assert found.violated is not is_covered, (batch, found.findings)


def test_what_nothing_was_paid_for_is_found() -> None:
    used = Diffuse(weight=0.1, relation=RECORD, window=1)

    def pipeline(records):
        sampler, rng = used.fresh(), np.random.default_rng(0)
        sampler.update(np.ones(3), rng)  # past the gate: from now on it is free
        sampler._payer = None  # unknown, as after a checkpoint
        return draw(RdpAccountant(), [(sampler, _counts(records))], rng)[0].probabilities

    (found,) = audit_replay(pipeline, RECORDS, OTHERS).findings
    assert "nothing was paid" in found


def test_a_circle_is_taken_apart_once() -> None:
    def pipeline(records):
        circle = [GAUSSIAN.release(_counts(records), np.random.default_rng(0), RdpAccountant())]
        circle.append(circle)
        return circle

    assert not audit_replay(pipeline, RECORDS, OTHERS).findings


def test_a_pipeline_that_is_not_the_same_twice_is_refused() -> None:
    def fresh(records):
        return GAUSSIAN.release(
            _counts(records), np.random.default_rng()
        ), np.random.default_rng().random()

    with pytest.raises(ValueError, match="the same thing each time"):
        audit_replay(fresh, RECORDS, OTHERS)


def test_data_are_copied_and_no_watcher_stays() -> None:
    given = list(RECORDS)

    def greedy(records):
        released = _released(records)
        records.clear()
        return released

    assert not audit_replay(greedy, given, OTHERS).violated
    assert given == RECORDS
    assert _released(RECORDS).shape == (3,)


# Which changes a cost covers ------------------------------------------------------------------


def _is_covered(cost, difference, halved=None) -> bool:
    before = np.zeros(np.shape(difference))
    return covers(cost, list(changes_between(before, np.array(difference), halved)))


RECORD = relations.ReplaceRecord()
STEP, EPISODE = relations.ReplaceStep(), relations.ReplaceEpisode(4)


@pytest.mark.parametrize(
    ("cost", "difference", "is_covered"),
    [
        (LaplaceCost(scale=1.0, relation=RECORD), [1, -1, 0], True),
        (LaplaceCost(scale=1.0, relation=RECORD), [1, 0, 0], True),
        (LaplaceCost(scale=1.0, relation=RECORD), [1, 1, 0], False),
        (LaplaceCost(scale=1.0, relation=RECORD), [2, 0, 0], False),
        (LaplaceCost(scale=1.0, relation=relations.AddRemoveRecord()), [1, -1, 0], False),
        (LaplaceCost(scale=1.0, relation=relations.AddRemoveRecord()), [0, -1, 0], True),
        (DirichletCost(weight=1.0, alpha=1.0, relation=STEP), [2, -1, -1], True),
        (DirichletCost(weight=1.0, alpha=1.0, relation=STEP), [1, -1, 1, -1], True),
        (DirichletCost(weight=1.0, alpha=1.0, relation=STEP), [2, -2, 0], False),
        (DirichletCost(weight=1.0, alpha=1.0, relation=STEP), [1, -1, 1, -1, 1, -1], False),
        (DirichletCost(weight=1.0, alpha=1.0, relation=EPISODE), [2, 2, -3, -1], True),
        (DirichletCost(weight=1.0, alpha=1.0, relation=EPISODE), [3, 2, -3, -1], False),
        (GaussianCost(sigma=1.0, relation=STEP), [1] * 6, True),
        (GaussianCost(sigma=1.0, relation=STEP), [1] * 7, False),
        (GaussianCost(sigma=1.0, relation=RECORD), [0.25, 0.75, -0.25, -0.75], True),
        (NoPrivacy(STEP), [100, 100, 100], True),
        (
            LaplaceCost(scale=1.0, relation=relations.Relation("none", {"counts": []})),
            [1, 0],
            False,
        ),
        (BatchCost([GaussianCost(sigma=1.0, relation=RECORD)] * 2),
         [[1, -1], [1, -1]], True),
        (BatchCost([GaussianCost(sigma=1.0, relation=RECORD)] * 2),
         [[2, -1], [0, 0]], False),
    ],
)  # fmt: skip
def test_covers(cost, difference, is_covered) -> None:
    assert _is_covered(cost, difference) is is_covered


def test_the_square_of_a_damped_cell_counts_half() -> None:
    cost = GaussianCost(sigma=1.0, relation=STEP, table="transitions, self-loops damped")
    assert _is_covered(cost, [2, -1, -1], np.array([True, False, False]))
    assert not _is_covered(cost, [2, -1, -1], np.array([False, True, False]))


class _Kept:
    """An object that prints nothing of what is in its slot."""

    __slots__ = ("kept",)

    def __init__(self, kept):
        self.kept = kept


def _long(n):
    return np.arange(5000.0) + n * 1e-12 * (np.arange(5000) == 2500)


def _with(base, value, kept):
    made = type("Own", (base,), {"__repr__": lambda self: "Own"})(value)
    made.kept = kept
    return made


@pytest.mark.parametrize(
    "seen",
    [
        lambda n: pd.Series(np.ones(4), index=np.arange(4) + n),
        lambda n: pd.DataFrame(np.ones((1, 1)), columns=[f"c{n}"]),
        lambda n: pd.Series([1.0], name=f"c{n}"),
        lambda n: pd.Categorical(["a"], categories=["a", f"c{n}"]),
        lambda n: pd.DataFrame(
            {"a": pd.Categorical([0], [*range(200), 200 + n, *range(999, 1999)])}
        ),
        lambda n: pd.DataFrame({"a": [2**53 + n % 2], "b": [0.5]}),
        lambda n: pd.Series([2**53 + n % 2, pd.NA], dtype="Int64"),
        lambda n: {f"c{n}": {}},
        lambda n: [{}] * n,
        pd.Timestamp,
        ValueError,
        _Kept,
        lambda n: _with(str, f"c{n}", 0),
        lambda n: _with(int, n, 0),
        lambda n: _with(list, [1], n),
        lambda n: _with(dict, {"a": 1}, n),
        lambda n: partial(sum, [n]),
        lambda n: partial(sum, _long(n)),
        lambda n: deque([_Kept(n)]),
        lambda n: {"a": _Kept(n)}.values(),
        lambda n: {"a": _Kept(n)}.items(),
        lambda n: deque([_long(n)]),
        lambda n: np.array([_long(n), None], dtype=object),
        lambda n: np.array([1 + n * 1e-12]),
    ],
)
def test_all_that_a_result_holds_is_compared(seen):
    """Labels of pandas, and subclasses of texts, were not."""
    result = audit_replay(lambda records: seen(len(records)), RECORDS, RECORDS[:-1])
    assert any("the result differs" in each for each in result.findings)


@pytest.mark.needs("pyarrow")
def test_rows_of_arrow_that_are_not_printed_are_compared():
    pa = pytest.importorskip("pyarrow")

    def rows(records):
        return pa.table({"a": np.arange(3000) + len(records) * (np.arange(3000) == 1500)})

    result = audit_replay(rows, RECORDS, RECORDS[:-1])
    assert any("the result differs" in each for each in result.findings)
