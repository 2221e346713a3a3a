"""privrl fit-continuous."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from privrl.cli import logs, outputs
from privrl.cli.fit_policy import WITH_MODEL, check_alone, print_statement
from privrl.cli.released import Release, release_command
from privrl.cli.terminal import OUT

_MODEL = ("model.json", "tables.npz", "release.json")
_POLICY = ("policy.json", "tables.npz", "release.json")


@release_command("fit-continuous")
def fit_continuous(
    release: Release,
    data: Annotated[Path | None, logs.LOG] = None,
    schema: Annotated[
        Path | None,
        typer.Option(help="The ranges of its columns: a TOML file, see docs/continuous.md."),
    ] = None,
    from_model: Annotated[
        Path | None,
        typer.Option(
            help="In place of a log: a folder that this command wrote, to plan in at no further "
            "cost."
        ),
    ] = None,
    relation: logs.Unit = "add-remove",
    discount: Annotated[
        float | None,
        typer.Option(
            help="With --from-model, in (0, 1]: the weight of a reward one step later, by default "
            "0.99."
        ),
    ] = None,
) -> None:
    """Release a private model of a log whose states are numbers, or plan in one.

    Writes model.json and tables.npz (the released model, which you may share) and release.json (its
    cost). With --from-model, writes policy.json and its tables.npz: a plan, at no further cost.
    """
    if release.report:
        raise ValueError("report has no pages for models of continuous states; leave it out.")
    if from_model is not None:
        check_alone(release.context)
        _plan(release, from_model, 0.99 if discount is None else discount)
    elif data is None or schema is None:
        raise ValueError("give a log and its --schema, or --from-model.")
    elif discount is not None:
        raise ValueError("discount needs --from-model: a model has none.")
    else:
        _fit(release, data, schema, relation)


def _fit(release: Release, data: Path, schema: Path, relation: str) -> None:
    from privrl.continuous import ContinuousSchema, fit_continuous_model, read_continuous_log
    from privrl.continuous.moments import MomentsMechanism
    from privrl.costs.relations import AddRemovePerson, ReplacePerson
    from privrl.data.records import check_separator
    from privrl.files.plain import lookup

    relations = {"add-remove": AddRemovePerson, "replace": ReplacePerson}
    unit, target = lookup("relation", relation, relations)(), release.target
    cost, rng = MomentsMechanism.calibrated(target, relation=unit).cost, release.rng()
    check_separator(release.separator)
    public = ContinuousSchema.load(schema)
    accountant = release.account(_MODEL, "fit-continuous")
    log = read_continuous_log(data, public, separator=release.separator)
    guarantee = {"unit": f"{public.person}: all episodes"} | release.guarantee(cost)
    with logs.once_charged(accountant):
        model = fit_continuous_model(
            log, target=target, delta=release.delta, relation=unit, rng=rng, accountant=accountant
        )
        assert model.statement is not None
        model = replace(model, statement=model.statement | {"caveats": guarantee["caveats"]})
        written = release.save(model.files(), guarantee)
    path = json.dumps(str(release.out), ensure_ascii=False)
    play = f'gymnasium.make("privrl.envs:privrl/ReleasedContinuous-v0", path={path})'
    release.finish("model.json", guarantee, written, also=f", {guarantee['unit']}")
    OUT.print(
        f"a model of {public.n_state} state columns and {public.n_actions} actions, from about "
        f"{round(model.persons)} persons; play it:"
    )
    OUT.print(f"  {escape(play)}", soft_wrap=True)
    release.answer |= {"persons": model.persons, "actions": public.n_actions, "play": play}


def _plan(release: Release, folder: Path, discount: float) -> None:
    from privrl.continuous import ContinuousModel, plan_continuous

    if release.out.resolve() == folder.resolve():
        raise ValueError("out must be another folder than --from-model, whose files are kept.")
    outputs.check_new(release.out, _POLICY, force=release.force)
    model = ContinuousModel.load(folder)
    policy = plan_continuous(model, discount=discount)
    assert policy.statement is not None
    print_statement(policy.statement)
    written = release.save(policy.files(), policy.statement, WITH_MODEL)
    release.answer |= {"actions": policy.schema.n_actions, "discount": discount}
    release.finish("policy.json", policy.statement, written)
