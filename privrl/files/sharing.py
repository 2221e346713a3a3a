"""The rules of sharing: whether each file that a command writes may be shared, and why.

A file may be shared if it is computed from releases and public arguments alone, and the release has
a privacy guarantee without caveats and used unpredictable randomness. Only this module decides:
statements, saved models and ``privrl share`` quote it. A file that is not listed here may not be
shared.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from privrl.files.shown import shown

#: Descriptions of randomness; `privrl.numerics.randomness` chooses one.
SECRET: Final = "secret"
SEEDED: Final = "seeded (not private: whoever knows the seed can undo the noise)"

_FLAGS: Final = "files"  # entries of a statement: what may be shared,
_DIGEST: Final = "statement_sha256"  # and the digest of the statement without this entry


@dataclass(frozen=True)
class Verdict:
    """Whether a file may be shared, and why."""

    shareable: bool
    because: str

    @property
    def said(self) -> dict[str, Any]:
        """The two entries in the form that files store."""
        return asdict(self)


_RUNS = Verdict(
    False,
    "what simulated runs earned, from a known seed: no release; where the environment is public, "
    "it is yours to publish",
)
_EXACT = Verdict(False, "what was earned in each episode, as it was: no noise was added")
_PLAYED = Verdict(
    False,
    "episodes as they were played: no noise was added; where the environment is simulated, they "
    "are yours to publish",
)
_MODEL = Verdict(True, "what was released, and what is made of it")
_DRAWN = Verdict(True, "drawn from what was released: no record is a person's")
_POLICY = Verdict(True, "planned from what was released")

#: Epsilon of a release above which `privrl share` requires a confirmation: beyond it, one
#: person can change the odds of an outcome by a factor of more than 22,000.
MOST_EPSILON: Final = 10.0
#: Likewise of delta, the chance that nothing is promised: above, of one in 1,000 persons.
MOST_DELTA: Final = 1e-3
_DELTA: Final = 1e-5  # at which a Rényi divergence alone is compared
#: What a guarantee states with a cost and a relation of its own: these are not added up.
BESIDE: Final = ("bins", "environments")

#: Every known file: whether a release makes it shareable, and why.
ARTEFACTS: Final[Mapping[str, Verdict]] = {
    "histogram.json": _MODEL,
    "histogram.csv": _MODEL,
    "model.json": _MODEL,
    "model.bif": _MODEL,
    "tables.npz": _MODEL,
    "synthetic.csv": _DRAWN,
    "synthetic.parquet": _DRAWN,
    "synthetic.zip": _DRAWN,
    "policy.json": _POLICY,
    "policy.png": _POLICY,
    "record.csv": _EXACT,
    "learning_curve.png": _EXACT,
    "episode.gif": _PLAYED,
    "episode.png": _PLAYED,
    "checkpoint.private": Verdict(False, "raw counts of an agent, from which it resumes learning"),
    "ledger.sqlite": Verdict(False, "which data were released, when and how often, and a salt"),
    "predictions.csv": Verdict(False, "a row for each record that was predicted for"),
    "results.csv": _RUNS,
    "results.parquet": _RUNS,
    "curves.csv": _RUNS,
    "curves.parquet": _RUNS,
    "reward_vs_epsilon.png": _RUNS,
    "regret_vs_epsilon.png": _RUNS,
    "learning_curves.png": _RUNS,
    "sweep.sqlite": _RUNS,
    "suite.csv": _RUNS,
    "suite.png": _RUNS,
    "suite.sqlite": _RUNS,
    "report-public.html": Verdict(
        False, "a page of what is shared, which may go with it: privrl report makes one of the copy"
    ),
    "report-researcher.html": Verdict(False, "a page with all that is here, and the command line"),
}
#: Reports on all the others, by `privrl report`.
PAGES: Final = ("report-public.html", "report-researcher.html")
#: Statements, and which of their entries may be shared. The others name files of one machine.
STATEMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "release.json": ("guarantee", "versions", "notes"),
    "train.json": ("spec", "guarantee", "worth", "versions"),
    "predict.json": (),
    "sweep.json": (),
    "suite.json": (),
}
_HERE: Final = Verdict(
    False, "it names files of this machine; privrl share makes a copy that does not"
)
_LEFT_OUT: Final = Verdict(True, "about what is shared; names of files elsewhere are left out")
_UNKNOWN: Final = Verdict(False, "no statement here says what it is made of")
_ALONE: Final = Verdict(False, "about files of which none is shared")


def judge(name: str, *, private: bool, randomness: object, caveats: object = ()) -> Verdict:
    """Decide whether a file of a release may be shared.

    Parameters
    ----------
    name : str
        The file's name, as the command writes it.
    private : bool
        Whether the release has a privacy guarantee.
    randomness
        The recorded source of randomness: `SECRET`, or anything else.
    caveats
        The caveats of the guarantee; an empty list or tuple means none.

    Returns
    -------
    Verdict
    """
    found = ARTEFACTS.get(name, _UNKNOWN)
    for holds, otherwise in (
        (private, "its release has no promise of privacy: no noise was added"),
        (
            randomness != SEEDED,
            "its noise came from a seed, and whoever knows that can undo it; a release without a "
            "seed may be shared",
        ),
        (randomness == SECRET, "nothing says that the randomness of its noise was secret"),
        (caveats in ((), []), "its promise of privacy has caveats, see its statement"),
    ):
        if found.shareable and not holds:
            return Verdict(False, otherwise)
    return found


def judge_by(name: str, statement: Mapping[str, Any]) -> Verdict:
    """Decide whether a file may be shared, from the guarantee in its statement.

    Of all releases that it states, the strictest verdict counts.
    """
    guarantee = statement.get("guarantee")
    if not isinstance(guarantee, Mapping):
        return judge_alone(name)
    verdicts = [
        judge(
            name,
            private=any(_is_amount(each.get(entry)) for entry in ("epsilon", "epsilon_delta")),
            randomness=each.get("randomness"),
            caveats=each.get("caveats", None if each is guarantee else ()),  # bins have none
        )
        for each in releases_in(guarantee)
    ]
    return next((each for each in verdicts if not each.shareable), verdicts[0])


def releases_in(guarantee: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a guarantee, and all releases that it states beside its own, at any depth."""
    yield guarantee
    for each in (each for what in BESIDE for each in guarantee.get(what, ())):
        yield from releases_in(each)


def amounts_of(guarantee: Mapping[str, Any]) -> tuple[float, float]:
    """Return the largest epsilon, and the delta, in the guarantee of something shareable.

    A Rényi divergence alone counts as the epsilon that follows at delta 1e-5 (Canonne, Kamath and
    Steinke, 2020): of an order near 1, a small divergence promises little. What released bins and
    environments cost is added.
    """
    said = [guarantee.get(entry) for entry in ("epsilon", "epsilon_delta")]
    epsilon = max(float(each) for each in said if isinstance(each, int | float))
    order, delta = guarantee.get("order"), guarantee.get("delta")
    if isinstance(order, int | float) and said[1] is None:
        above = order - 1
        epsilon += max(0.0, math.log(above / order) - math.log(_DELTA * order) / above)
    more = amounts_beside(guarantee)
    own = float(delta) if isinstance(delta, int | float) else 0.0
    return epsilon + more[0], own + more[1]


def amounts_beside(guarantee: Mapping[str, Any]) -> tuple[float, float]:
    """Return epsilon and delta of all releases that a guarantee states beside its own."""
    amounts = [amounts_of(each) for what in BESIDE for each in guarantee.get(what, ())]
    return sum(each[0] for each in amounts), sum(each[1] for each in amounts)


def judge_alone(name: str) -> Verdict:
    """Return the verdict on a file whose cost no statement records."""
    found = ARTEFACTS.get(name, _UNKNOWN)
    return _UNKNOWN if found.shareable else found


def judge_statement(*, of_shared: bool) -> Verdict:
    """Decide whether a statement is shared: without files it describes nothing."""
    return _LEFT_OUT if of_shared else _ALONE


def stated(data: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    """Return a statement with digests of its files and verdicts on sharing.

    Parameters
    ----------
    data : mapping
        The statement's data, with ``guarantee`` if it describes a release.
    digests : mapping
        SHA-256 digest of each file.
    """
    flags = {name: judge_by(name, data).said for name in digests}
    return _sealed({**data, "sha256": dict(digests), _FLAGS: flags, **_HERE.said})


def shared(name: str, statement: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the shareable entries of a statement, about some of its files.

    The guarantee is one of them, whatever the statement's file is called.
    """
    entries = dict.fromkeys(("guarantee", *STATEMENTS[name]))
    kept = {each: statement[each] for each in entries if each in statement}
    if isinstance(kept.get("spec"), Mapping):  # arguments may also name files
        kept["spec"] = {k: value for k, value in kept["spec"].items() if k != "env_args"}
    if isinstance(kept.get("notes"), Mapping):
        kept["notes"] = {each: note for each, note in kept["notes"].items() if each in names}
    kept["sha256"] = {each: statement["sha256"][each] for each in names}
    kept[_FLAGS] = {each: statement[_FLAGS][each] for each in names}
    return _sealed({**kept, **_LEFT_OUT.said})


def is_copy(statement: Mapping[str, Any]) -> bool:
    """Whether a checked statement was made by `shared`."""
    return statement["shareable"] is True


def verdicts_of(statement: object) -> dict[str, Verdict]:
    """Return the verdict on each file that a statement describes.

    The stricter of the statement's verdict and today's rules counts.

    Raises
    ------
    ValueError
        If the statement is invalid, lacks verdicts, or was changed since it was written.
    """
    if not isinstance(statement, dict):
        raise ValueError("must be a statement, a table of entries.")
    if _DIGEST not in statement:
        raise ValueError(
            "must have a verdict on each file, but an older version of privrl wrote it. Do not "
            "repeat the release, which would cost again; copy the released files by hand, and "
            "no others."
        )
    if _sealed(statement)[_DIGEST] != statement[_DIGEST]:
        raise ValueError(
            "must be unchanged since privrl wrote it; restore the original, since only it records "
            "the cost of the files."
        )
    digests, flags = statement.get("sha256"), statement.get(_FLAGS)
    if (
        not isinstance(digests, dict)
        or not isinstance(flags, dict)
        or set(digests) != set(flags)
        or not all(isinstance(digest, str) for digest in digests.values())
    ):
        raise ValueError("must have a digest and a verdict for each file.")
    if not isinstance(statement.get("shareable"), bool):
        raise ValueError("must have an entry shareable, true or false.")
    _check_guarantee(statement.get("guarantee"))
    return {name: _stricter(name, flags[name], statement) for name in flags}


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _check_guarantee(guarantee: object) -> None:
    """Check that the guarantee of a statement, if it has one, has amounts that can be promised.

    Raises
    ------
    ValueError
        If an amount is out of range, or the relation or the divergence of an order is missing.
    """
    if not isinstance(guarantee, Mapping):
        return
    said = {entry: guarantee.get(entry) for entry in ("epsilon", "epsilon_delta", "delta", "order")}
    for entry, amount in said.items():
        if amount is not None and not _is_amount(amount):
            raise ValueError(f"must state {entry} as a number >= 0, got {shown(amount)}.")
    if said["delta"] is not None and said["delta"] >= 1:
        raise ValueError(f"must state delta below 1, got {shown(said['delta'])}.")
    if said["order"] is not None and (said["order"] <= 1 or said["epsilon"] is None):
        raise ValueError("must state an order above 1, with its divergence as epsilon.")
    for entry in ("relation", "unit"):
        text = guarantee.get(entry, "none" if entry == "unit" else None)
        if not isinstance(text, str) or not text:
            raise ValueError(f"must state {entry} as a text, got {shown(text)}.")
    check_beside(guarantee)


def check_beside(guarantee: Mapping[str, Any]) -> None:
    """Check the releases that a guarantee states beside its own; errors as `verdicts_of`."""
    for what in BESIDE:
        found = guarantee.get(what, [])
        if not isinstance(found, list) or not all(map(_is_release, found)):
            raise ValueError(
                f"must state releases of {what} as a list, each with its epsilon and delta."
            )
        for each in found:
            _check_guarantee(each)


def _is_release(said: object) -> bool:
    return isinstance(said, Mapping) and all(
        any(_is_amount(said.get(each)) for each in either)
        for either in (("epsilon",), ("delta", "order"))
    )


def check_said(data: Mapping[str, Any], verdict: Verdict) -> None:
    """Check the verdict that a file states about itself.

    Raises
    ------
    ValueError
        If it differs from the rules, or lacks a reason.
    """
    if data["shareable"] is not verdict.shareable or not isinstance(data["because"], str):
        raise ValueError(
            f"shareable must be {json.dumps(verdict.shareable)}, with a reason, got "
            f"{shown(data['shareable'])}: {verdict.because}."
        )


def _stricter(name: str, said: Any, statement: Mapping[str, Any]) -> Verdict:
    verdict = judge_by(name, statement)
    if not verdict.shareable or (isinstance(said, dict) and said.get("shareable") is True):
        return verdict
    because = said.get("because") if isinstance(said, dict) else None
    return Verdict(False, because if isinstance(because, str) else _UNKNOWN.because)


def _sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with their digest, which detects edits but not forgeries."""
    kept = {name: value for name, value in data.items() if name != _DIGEST}
    text = json.dumps(kept, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {**kept, _DIGEST: digest}
