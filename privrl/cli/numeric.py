"""Logs whose states are numbers, in privrl fit-model and privrl fit-policy."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privrl.cli import logs
from privrl.cli.released import Release
from privrl.cli.terminal import OUT, rows_read

if TYPE_CHECKING:
    from privrl.continuous import ContinuousModel, ContinuousPolicy, ContinuousSchema

MODEL = ("model.json", "tables.npz", "release.json")
POLICY = ("policy.json", "tables.npz", "release.json")


def public_part(
    path: Path,
    private: logs.PrivateLog,
    person: str | None,
    behaviour: str | None,
    admissible: Path | None,
) -> "ContinuousSchema | logs.PublicLog":
    """Return the schema of a file if a column has a range, else all that is public of a log."""
    from privrl.continuous import ContinuousSchema
    from privrl.continuous.schema import has_ranges
    from privrl.data.schema.plain import read_page

    private.check()
    page = read_page(path)
    if not has_ranges(page):
        return logs.public_log(
            path, page, person=person, admissible=admissible, behaviour=behaviour
        )
    for option, given in (("behaviour", behaviour), ("admissible", admissible)):
        if given is not None:
            raise ValueError(
                f"{option} is for states in cells, and {path.name} has ranges; leave it out."
            )
    schema = ContinuousSchema.of_page(path, page)
    return schema if person is None else replace(schema, person=person)


def check_plan(schema: "ContinuousSchema", option: str) -> None:
    """Check that there is something to plan for, and that memory holds the plan."""
    from privrl.continuous.planning import check_plannable

    check_plannable(schema)
    if schema.reward is None:
        raise ValueError(
            f"{option} must have a table [reward] to plan for. If you know what a step earns, use "
            "privrl fit-model, and plan_continuous(model, reward=...) in Python."
        )


def planned(model: "ContinuousModel", discount: float | None) -> "ContinuousPolicy":
    """Return a plan in a model."""
    from privrl.continuous import plan_continuous

    return plan_continuous(model) if discount is None else plan_continuous(model, discount=discount)


def is_numeric(page: Path) -> bool:
    """Whether a file is of a model or policy whose states are numbers."""
    from privrl.continuous.files import is_continuous

    return page.is_file() and is_continuous(page.read_bytes())


def saved_policy(saved: Path) -> "tuple[ContinuousPolicy, Path | None] | None":
    """Return a saved policy, or a plan in a saved model and its folder; None if of another kind."""
    from privrl.continuous import ContinuousModel, ContinuousPolicy

    if saved.name == POLICY[0] and saved.is_file():
        saved = saved.parent
    if is_numeric(saved / POLICY[0]):
        return ContinuousPolicy.load(saved), None
    if not is_numeric(saved / MODEL[0]):
        return None
    model = ContinuousModel.load(saved)
    check_plan(model.schema, "saved")
    return planned(model, None), saved


def env_of(env: str | None, model: Path | None) -> tuple[str, ...]:
    """Return the id of an environment, and arguments; a folder is one of a model."""
    if env is None and model is None:
        raise ValueError(
            "env must be given: a policy from a log names no environment. Give the folder that "
            "privrl fit-model wrote, or an environment's id."
        )
    if env is not None and not is_numeric(Path(env, MODEL[0])):
        return (env,)
    return "privrl/ReleasedContinuous-v0", f"path={json.dumps(env or str(model))}"


@contextmanager
def fitted(
    release: Release, private: logs.PrivateLog, schema: "ContinuousSchema", files: Collection[str]
) -> Iterator[tuple["ContinuousModel", dict[str, Any]]]:
    """Charge the ledger and have a model of a log, and its guarantee."""
    from privrl.continuous import fit_continuous_model, read_continuous_log
    from privrl.continuous.moments import MomentsMechanism
    from privrl.envs.released import unit_in_words

    unit = logs.relation_of(private.relation, schema.person)
    target, rng = release.target, release.rng()
    cost = MomentsMechanism.calibrated(target, relation=unit).cost
    accountant = release.account(files, str(release.context.info_name))
    guarantee = {"unit": unit_in_words(schema.person)} | release.guarantee(cost)
    with private.client(schema.columns) as client:
        with rows_read("reading") as progress:
            log = read_continuous_log(
                private.data, schema, separator=private.separator, client=client, progress=progress
            )
        model = fit_continuous_model(
            log, target=target, delta=release.delta, relation=unit, rng=rng, accountant=accountant
        )
        assert model.statement is not None
        statement = model.statement | {"caveats": guarantee["caveats"]}
        yield replace(model, statement=statement), guarantee


def print_about(release: Release, model: "ContinuousModel", what: str) -> None:
    """Print what was made of a log."""
    schema = model.schema
    OUT.print(
        f"a {what} for {schema.n_state} state columns and {schema.n_actions} actions, from about "
        f"{round(model.persons)} persons"
    )
    release.answer |= {
        "columns": schema.n_state,
        "actions": schema.n_actions,
        "persons": model.persons,
    }
