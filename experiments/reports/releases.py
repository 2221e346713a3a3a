"""Reports of releases from data: histograms, models and policies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from privrl.continuous.files import is_continuous
from privrl.data.schema import Schema
from privrl.envs.released_files import released_of
from privrl.experiments.palette import BLUE, COLOURS
from privrl.experiments.reports import numeric
from privrl.experiments.reports.contents import Contents
from privrl.experiments.reports.parts import Cell, Chart, Facts, Part, Section, Series, Table
from privrl.experiments.reports.policies import policy_parts
from privrl.experiments.reports.promise import PERSONS, promise
from privrl.files.plain import parse_json
from privrl.models.histograms.choice import mechanism_name
from privrl.models.histograms.result import PrivateHistogram
from privrl.offline.saving import ReleasedPolicy

_CELLS = 60  # in the picture of a distribution
_FEATURES = 12  # with a picture each
_CLASSES = 12  # in it
_ROWS = 500  # of a table


def histogram(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a histogram."""
    made = PrivateHistogram.from_dict(_json(found, "histogram.json"))
    frame = made.to_frame()
    about = "" if made.is_size_public else "about "
    asked = (
        f"A histogram of {about}{made.n_records:,.0f} records in {made.column.size} cells of "
        f"{made.name or 'one column'}; noise: {mechanism_name(made.mechanism)}."
    )
    heads, rows = ["cell", "probability", "count"], [made.labels, frame["probability"]]
    rows.append(frame["count"])
    ends: tuple[tuple[float, ...], ...] = ((), ())
    if "lower" in frame:
        heads += ["95 %: from", "to"]
        rows += [frame["lower"], frame["upper"]]
        ends = tuple(tuple(frame[name].to_list()[:_CELLS]) for name in ("lower", "upper"))
    count = tuple(frame["count"].to_list())
    rest = len(count) - _CELLS
    picture = Chart(
        "bars",
        "Records in each cell, estimated from the release"
        + ("; lines are 95 % intervals" if ends[0] else "")
        + (f"; the first {_CELLS} cells of {len(count)}." if rest > 0 else "."),
        x="records",
        y=made.name or "cell",
        series=(
            Series("records", x=count[:_CELLS], y=tuple(range(len(count[:_CELLS]))),
                   low=ends[0], high=ends[1], colour=BLUE),
        ),
        labels=tuple(made.labels[:_CELLS]),
    )  # fmt: skip
    cells = zip(*rows, strict=True)
    table = _first_rows("Probability and count of each cell", heads, cells, ": histogram.csv")
    return f"A private histogram{f' of {made.name}' if made.name else ''}", [
        Section.of("Summary", asked),
        promise(found.statement["guarantee"]),
        Section.of("Histogram", picture, table),
    ]


def policy(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a policy from a log or from a model."""
    if is_continuous(found.files["policy.json"]):
        return numeric.policy(found)
    made = ReleasedPolicy.from_dict(_json(found, "policy.json"))
    sections = [
        Section.of(
            "Summary",
            f"A policy for {made.n_states} states and {made.n_actions} actions, learned from a "
            "log of persons.",
            made.says,
        ),
        promise(found.statement["guarantee"], also_not=PERSONS),
    ]
    if made.facts is not None:
        facts = made.facts
        outcomes = zip(made.outcomes, facts.outcomes, strict=True)
        shares = (f"{name}: {part:.3f}" for name, part in outcomes)
        rows = (
            ("persons", f"about {facts.persons:,.0f}"),
            ("episodes of a person", f"about {facts.episodes:.3g}"),
            ("steps of an episode", f"about {facts.steps:.3g}"),
            ("outcomes", ", ".join(shares)),
        )
        sections.append(Section.of("Log", Facts(rows)))
    if made.kind != "behaviour":
        sections.append(Section.of("Policy", *_policy(made)))
    return "A private policy from a log", sections


def _policy(made: ReleasedPolicy) -> Iterator[Part]:
    states = [made.state_label(state) for state in range(made.n_states)]
    if made.is_by_step:
        actions = {action: made.action_label(action) for action in range(-1, made.n_actions)}
        yield from policy_parts(np.asarray(made.action), states, actions, "policy.json")
        return
    rows = zip(states, (made.action_label(int(a)) for a in made.action), strict=True)
    heads = ("state", "action")
    yield _first_rows("The action in each state", heads, rows, " states: policy.json")


_CLASSIFIERS = (
    "privrl.PrivateNaiveBayes",
    "privrl.PrivateLogisticRegression",
    "privrl.ChosenClassifier",
)


def model(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of any ``model.json``."""
    if is_continuous(found.files["model.json"]):
        return numeric.model(found)
    data = _json(found, "model.json")
    kind = str(data["format"]).rpartition(" ")[0]
    if kind in _CLASSIFIERS:
        return _classifier(found, data)
    if kind == "privrl.BayesNet":
        return _network(found, data)
    return _world(found, data)


def _classifier(found: Contents, data: Mapping[str, Any]) -> tuple[str, list[Section]]:
    from privrl.models.encoding import class_labels, in_stated_order  # noqa: PLC0415
    from privrl.models.logistic_regression.choice import classifier_from_dict  # noqa: PLC0415
    from privrl.models.logistic_regression.classifier import PrivateLogisticRegression  # noqa: PLC0415

    made = classifier_from_dict(data)
    is_linear = isinstance(made, PrivateLogisticRegression)
    begun, schema, target = made.naive_bayes_ if is_linear else made, made.schema, made.classes
    assert isinstance(schema, Schema)
    assert isinstance(target, str)
    classes = class_labels(schema, target)
    names = made.feature_names_in_.tolist()
    asked = (
        f"A classifier, {'logistic regression' if is_linear else 'naive Bayes'}, that predicts "
        f"{target} from {', '.join(names)}, fitted to {begun.n_records_:,} records."
    )
    if "candidates" in data:
        asked += (
            f" It was chosen privately ({data['chosen']}) among {', '.join(data['candidates'])}."
        )
    tables = (
        [table.T for table in made.weights_]
        if is_linear
        else [np.exp(table) for table in made.feature_log_prob_]
    )
    parts: list[Part] = [
        _rows(
            f"Weights of {name}: positive weights count for a class, negative ones against it."
            if is_linear
            else f"{name} in each class.",
            schema.columns[name].labels,
            classes.labels,
            in_stated_order(classes, table),
            ("weight (nats)" if is_linear else "probability", name),
        )
        for name, table in list(zip(names, tables, strict=True))[:_FEATURES]
    ]
    priors = in_stated_order(classes, np.exp(begun.class_log_prior_))
    heading = "Weights" if is_linear else "Features"
    return f"A private classifier of {target}", [
        Section.of("Summary", asked),
        promise(found.statement["guarantee"]),
        Section.of(
            "Classes",
            _bars(f"Probability of each class of {target}.", classes.labels, priors, target),
        ),
        _with_rest(heading, parts, len(names)),
    ]


def _network(found: Contents, data: Mapping[str, Any]) -> tuple[str, list[Section]]:
    schema, parents = Schema.from_dict(data["schema"]), data["parents"]
    edges = sum(map(len, parents.values()))
    asked = f"The probabilities of a Bayesian network of {len(parents)} columns and {edges} edges."
    chosen = "choice" in (data["spent"] or {})
    if chosen:
        asked += " Its edges were chosen privately, as part of this release."
    elif edges:
        asked += " Its edges were given; those that noise would have hidden were dropped."
    if not edges:
        why = "no edge was worth its noise" if chosen else "the records are too few, or none given"
        asked += (
            f" Without edges ({why}), columns are independent: the network, and all that is drawn "
            "from it, preserves each column's distribution and no relation between columns."
        )
    rows = tuple(
        (node, schema.columns[node].size, ", ".join(above) or "none")
        for node, above in parents.items()
    )
    structure = Table("Parents of each column", ("column", "values", "parents"), rows)
    parts: list[Part] = []
    for node, above in list(parents.items())[:_FEATURES]:
        column, table = schema.columns[node], data["probabilities"][node]
        if not above:
            parts.append(
                _bars(
                    f"Probability of each value of {node}.",
                    column.labels,
                    np.asarray(table[0]),
                    node,
                )
            )
            continue
        given = [
            _combination(place, [schema.columns[each] for each in above])
            for place in range(min(len(table), _ROWS))
        ]
        parts.append(
            Table(
                f"{node}, by {', '.join(above)}",
                (*above, *column.labels),
                tuple((*key, *row) for key, row in zip(given, table, strict=False)),
                left_out=f"{len(table) - _ROWS} more: model.json" if len(table) > _ROWS else "",
            )
        )
    return "A private Bayesian network", [
        Section.of("Summary", asked, structure),
        promise(found.statement["guarantee"]),
        _with_rest("Probabilities", parts, len(parents)),
    ]


def _combination(place: int, columns: Sequence[Any]) -> tuple[str, ...]:
    """Return the values of the parents in a row of a table, the last one varying fastest."""
    places = np.unravel_index(place, [column.size for column in columns])
    return tuple(column.labels[int(at)] for column, at in zip(columns, places, strict=True))


def _world(found: Contents, data: Mapping[str, Any]) -> tuple[str, list[Section]]:
    made = released_of(data, found.files["tables.npz"])
    mdp, details = made.mdp, made.statement.get("details", {})
    facts = [
        ("states", f"{mdp.n_states}"),
        ("actions", f"{mdp.n_actions}"),
        ("longest episode", f"{mdp.horizon} steps"),
        ("outcomes", ", ".join(made.outcomes)),
    ]
    if "persons" in details:
        facts.append(("persons", f"about {details['persons']:,}"))
    rows: list[tuple[str | float, ...]] = []
    n = mdp.n_states
    states = made.state_names or tuple(f"state {s}" for s in range(n - len(made.outcomes)))
    labels = (*states, *made.outcomes)
    actions = made.action_names or tuple(f"action {a}" for a in range(mdp.n_actions))
    for place in range(min(n * mdp.n_actions, _ROWS)):
        state, action = divmod(place, mdp.n_actions)
        after = mdp.transition[state, action]
        likely = int(after.argmax())
        rows.append(
            (labels[state], actions[action], labels[likely], float(after[likely]),
             float(np.sum(after * mdp.reward[state, action])))
        )  # fmt: skip
    left = n * mdp.n_actions - _ROWS
    return "A private model of a log", [
        Section.of(
            "Summary",
            "An environment for playing and planning, made from a log of persons.",
            Facts(tuple(facts)),
        ),
        promise(found.statement["guarantee"], also_not=PERSONS),
        Section.of(
            "Model",
            Table(
                "The most likely next state of each state and action",
                ("state", "action", "most likely next", "probability", "mean reward"),
                tuple(rows),
                left_out=f"{left} more: tables.npz" if left > 0 else "",
            ),
        ),
    ]


def _first_rows(
    caption: str, heads: Sequence[str], rows: Iterable[tuple[Cell, ...]], where: str
) -> Table:
    """Return a table of the first rows, which says where the others are."""
    every = tuple(rows)
    left = len(every) - _ROWS
    rest = f"{left} more{where}" if left > 0 else ""
    return Table(caption, tuple(heads), every[:_ROWS], left_out=rest)


def _bars(what: str, labels: Sequence[str], chances: Any, name: str) -> Chart:
    shown = tuple(map(float, chances[:_CELLS]))
    return Chart(
        "bars",
        what if len(chances) <= _CELLS else f"{what} The first {_CELLS} values.",
        x="probability",
        y=name,
        series=(Series("probability", x=shown, y=tuple(range(len(shown))), colour=BLUE),),
        labels=tuple(labels[:_CELLS]),
    )


def _rows(
    what: str, labels: Sequence[str], classes: Sequence[str], rows: Any, axes: tuple[str, str]
) -> Chart:
    """Return a row for each label, with a mark for each class."""
    n = min(len(labels), _CELLS)
    if len(classes) > _CLASSES:
        what = f"{what} The first {_CLASSES} classes of {len(classes)}."
    series = tuple(
        Series(
            label,
            x=tuple(map(float, values[:n])),
            y=tuple(
                place + 0.1 + 0.8 * (lane + 0.5) / min(len(classes), _CLASSES) for place in range(n)
            ),
            colour=COLOURS[lane % len(COLOURS)],
            marker=("circle", "square", "triangle", "diamond")[lane % 4],
        )
        for lane, (label, values) in enumerate(zip(classes[:_CLASSES], rows, strict=False))
    )
    return Chart("dots", what, x=axes[0], y=axes[1], series=series, labels=tuple(labels[:n]))


def _with_rest(heading: str, parts: list[Part], n: int) -> Section:
    rest = n - len(parts)
    return Section.of(heading, *parts, *((f"And {rest} more, in model.json.",) if rest > 0 else ()))


def _json(found: Contents, name: str) -> Any:
    return parse_json(found.files[name].decode())
