"""The report of a folder, as a page of plain data: which kind it is, and what all kinds say."""

from collections.abc import Mapping
from typing import Any

from privrl.experiments.reports import learners, releases
from privrl.experiments.reports.contents import Contents
from privrl.experiments.reports.parts import Command, Facts, Page, Part, Section, Table

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
    "public": "May be shared: this page is made of what was released, and of nothing else.",
    "researcher": "For the researcher alone: do not share this page.",
}
_WHY = {
    "train.json": " It holds what each episode earned, without noise, and the command that was "
    "typed.",
    "sweep.json": " It holds rewards of simulated runs, without noise; where the environment is "
    "public, they are yours to publish as any other research.",
}
_WHY["suite.json"] = _WHY["sweep.json"]
_TYPED = " It holds the command that was typed, which names files of this machine."


def page_of(found: Contents) -> Page:
    """Return the report of a folder.

    Raises
    ------
    ValueError
        If there is no report of such a folder, or what is there is not what privrl writes.
    """
    of = _BY_STATEMENT.get(found.name)
    if of is None:
        of = next((of for name, of in _BY_FILE.items() if name in found.files), None)
    if of is None:
        raise ValueError(
            f"folder must be one of a sweep, a suite, training, a policy, a histogram or a model, "
            f"got one with {found.name} of something else, for which there is no report."
        )
    try:
        title, sections = of(found)
        sections = [*sections, *_all_say(found)]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{found.name} and its files must be as privrl writes them, got others: "
            f"{type(error).__name__}."
        ) from error
    public = found.audience == "public"
    more = "" if public else _WHY.get(found.name, _TYPED)
    return Page(title, public, _WARNINGS[found.audience] + more, tuple(sections))


def _all_say(found: Contents) -> list[Section]:
    """Return settings, what it is made of, and how to make it again."""
    statement, sections = found.statement, list[Section]()
    spec = statement.get("spec")
    if spec:
        sections.append(Section("Settings", (Facts(tuple(_settings(spec))),)))
    files = statement["files"]
    table = Table(
        "Files, whether each may be shared, and why",
        ("file", "may be shared", "because", "SHA-256 begins"),
        tuple(
            (name, "yes" if files[name]["shareable"] else "no", files[name]["because"], digest[:12])
            for name, digest in statement["sha256"].items()
        ),
    )
    versions = tuple((name, str(each)) for name, each in statement["versions"].items())
    sections.append(Section("Files and versions", (table, Facts(versions))))
    again: tuple[Part, ...] = (
        "The command line is left out: it names files of one machine. The settings of a release "
        "are in its statement; to make it again is another release, which costs again.",
    )
    if "command" in statement:
        again = (Command(str(statement["command"])),)
        if "guarantee" in statement:
            again += ("Without a seed the noise is another one, and to make it again costs again.",)
    sections.append(Section("To do it again", again))
    return sections


def _settings(spec: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the settings that say something, those of parts under the names of the parts."""
    rows: list[tuple[str, str]] = []
    for name, value in spec.items():
        if isinstance(value, Mapping):
            rows += _settings(value, f"{prefix}{name}: ")
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            labels = (str(each.get("label", each)) for each in value)
            rows.append((f"{prefix}{name}", "; ".join(labels)))
        elif isinstance(value, list):
            rows.append((f"{prefix}{name}", ", ".join(map(_said, value)) or "none"))
        elif value is not None:
            rows.append((f"{prefix}{name}", _said(value)))
    return rows


def _said(value: Any) -> str:
    """Write a setting."""
    if value is None:
        return "no privacy"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
