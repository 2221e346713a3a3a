"""The report of a folder as plain data, and the sections that all reports share."""

from collections.abc import Mapping
from typing import Any

from privrl.experiments.reports import learners, releases
from privrl.experiments.reports.contents import Contents
from privrl.experiments.reports.parts import Command, Facts, Page, Part, Section, Table
from privrl.numerics.printing import setting

_BY_STATEMENT = {
    "train.json": learners.training,
    "sweep.json": learners.sweep,
    "suite.json": learners.suite,
}
_BY_FILE = {
    "histogram.json": releases.histogram,
    "policy.json": releases.policy,
    "model.json": releases.model,
}
_WARNINGS = {
    "public": "May be shared: this page is made of released data only.",
    "researcher": "For the researcher alone: do not share this page.",
}
_WHY = {
    "train.json": " It contains the reward of each episode, without noise, and the command line.",
    "sweep.json": " It contains rewards of simulated runs, without noise. If the environment is "
    "public, you may publish them like any other research.",
}
_WHY["suite.json"] = _WHY["sweep.json"]
_TYPED = " It contains the command line, which names files of this machine."


def page_of(found: Contents) -> Page:
    """Return the report of a folder.

    Raises
    ------
    ValueError
        If reports do not cover such a folder, or privrl did not write its files.
    """
    of = _BY_STATEMENT.get(found.name)
    if of is None:
        of = next((of for name, of in _BY_FILE.items() if name in found.files), None)
    if of is None:
        raise ValueError(
            "folder must be that of a sweep, a suite, training, a policy, a histogram or a model; "
            f"this {found.name} is of something else."
        )
    try:
        title, sections = of(found)
        sections = [*sections, *_common(found)]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{found.name} and its files must be as privrl writes them, got others: "
            f"{type(error).__name__}."
        ) from error
    public = found.audience == "public"
    more = "" if public else _WHY.get(found.name, _TYPED)
    return Page(title, public, _WARNINGS[found.audience] + more, tuple(sections))


def _common(found: Contents) -> list[Section]:
    """Return settings, files and the command line."""
    statement, sections = found.statement, list[Section]()
    spec = statement.get("spec")
    if spec:
        sections.append(Section.of("Settings", Facts(tuple(_settings(spec)))))
    if statement.get("notes"):
        notes = tuple(f"{name} {note}" for name, note in statement["notes"].items())
        sections.append(Section.of("Synthetic data", *notes))
    files = statement["files"]
    table = Table(
        "Files of the folder",
        ("file", "may be shared", "because", "SHA-256 begins"),
        tuple(
            (name, "yes" if files[name]["shareable"] else "no", files[name]["because"], digest[:12])
            for name, digest in statement["sha256"].items()
        ),
    )
    versions = tuple((name, str(each)) for name, each in statement["versions"].items())
    sections.append(Section.of("Files", table, Facts(versions)))
    again: tuple[Part, ...] = (
        "The command line is left out because it names files of one machine. The statement has "
        "the settings of the release. Repeating it is another release, at the same cost again.",
    )
    if "command" in statement:
        again = (Command(str(statement["command"])),)
        if "guarantee" in statement:
            again += (
                "Without a seed the noise differs. Repeating the release costs the same again.",
            )
    sections.append(Section.of("Reproduce", *again))
    return sections


def _settings(spec: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the settings with a value; those of parts are prefixed by the part's name."""
    rows: list[tuple[str, str]] = []
    for name, value in spec.items():
        if isinstance(value, Mapping):
            rows += _settings(value, f"{prefix}{name}: ")
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            labels = (str(each.get("label", each)) for each in value)
            rows.append((f"{prefix}{name}", "; ".join(labels)))
        elif isinstance(value, list):
            rows.append(
                (f"{prefix}{name}", ", ".join(_written(name, each) for each in value) or "none")
            )
        elif value is not None:
            rows.append((f"{prefix}{name}", _written(name, value)))
    return rows


def _written(name: str, value: Any) -> str:
    """Return a setting as text."""
    if value is None:
        return "no privacy"
    return setting(name, value) if isinstance(value, float) else str(value)
