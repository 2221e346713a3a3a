"""privrl fit-model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape

from privrl.cli import logs, numeric
from privrl.cli.released import Release, print_notes, release_command
from privrl.cli.terminal import OUT


@release_command("fit-model")
def fit_model(
    release: Release,
    data: Annotated[Path, logs.LOG],
    schema: Annotated[Path, logs.SCHEMA],
    relation: logs.Unit = "add-remove",
    person: logs.Person = None,
    behaviour: logs.Behaviour = None,
    admissible: logs.Admissible = None,
    workers: logs.Workers = None,
    address: logs.Address = None,
    synthetic: int | None = None,
    synthetic_format: str = "csv",
) -> None:
    """Release a private model of a log: an environment to share, to play and to plan in.

    Writes model.json and tables.npz (the released model, which you may share) and release.json (its
    cost). Using the model costs nothing more: see privrl fit-policy --from-model. With --synthetic
    N also writes synthetic.csv, a table that is drawn from the model.

    Parameters
    ----------
    synthetic
        Also write this many made-up persons, with all steps, at no cost.
    synthetic_format
        csv or parquet, in the log's columns; or minari: a zipped data set.
    """
    private = logs.PrivateLog(data, relation, release.separator, workers, address)
    public = numeric.public_part(schema, private, person, behaviour, admissible)
    if isinstance(public, logs.PublicLog):
        _fit_cells(release, private, public, synthetic, synthetic_format)
        return
    if synthetic is not None or synthetic_format != "csv":
        raise ValueError(
            f"synthetic is for states in cells, and {schema.name} has ranges; leave it out."
        )
    with numeric.fitted(release, private, public, numeric.MODEL) as (model, said):
        written = release.save(model.files(), said)
    numeric.print_about(release, model, "model")
    _print_play(release, "ReleasedContinuous-v0")
    release.finish("model.json", said, written, also=f", {said['unit']}")


def _fit_cells(
    release: Release,
    private: logs.PrivateLog,
    public: logs.PublicLog,
    synthetic: int | None,
    synthetic_format: str,
) -> None:
    from privrl.envs.released_files import writers
    from privrl.offline import synthetic as sampling
    from privrl.offline.model import check_model
    from privrl.offline.model import fit_model as model_of

    budget, rng = logs.budget_of(release, private.relation, public.space.unit), release.rng()
    names: dict[str, Any] = {"state_names": public.state_names, "action_names": public.action_names}
    check_model(public.space, **names)
    files: tuple[str, ...] = numeric.MODEL
    if synthetic is not None:
        sampling.check_sampling(public.schema, "synthetic", synthetic, synthetic_format)
        files = (*files, sampling.FORMATS[synthetic_format])
    elif synthetic_format != "csv":
        raise ValueError("synthetic must be given with --synthetic-format: how many persons.")
    accountant = release.account(files, "fit-model")
    guarantee = budget.guarantee(public.space)
    with public.read(private) as log:
        model = model_of(
            log, **budget.given, **public.support, **names, rng=rng, accountant=accountant
        )
    statement = model.statement | {"caveats": guarantee["caveats"]}
    model = replace(model, statement=statement)
    made, notes = writers(model), dict[str, str]()
    try:
        if synthetic is not None:
            name, notes = files[-1], {files[-1]: f"does not preserve {sampling.lost_in(model)}."}
            made[name] = sampling.writer(model, public.schema, synthetic, rng, synthetic_format)
        written = release.save(made, guarantee, notes=notes)
    except BaseException as error:
        if synthetic is None:
            raise
        release.save(writers(model), guarantee)  # it was paid for: persons can be drawn again
        if not isinstance(error, Exception):
            raise
        raise ValueError(
            f"the model was saved, but {files[-1]} could not be written ({type(error).__name__}); "
            "nothing more was spent. Draw persons with sample_log(model, schema, persons)."
        ) from error
    details = statement["details"]
    how = {"counts": "counts of all transitions", "endings": "how episodes end and continue"}
    OUT.print(
        f"a model of {public.space.n_states} states and {public.space.n_actions} actions, "
        f"episodes of at most {model.mdp.horizon} steps, from about {details['persons']} "
        f"persons, by {how[details['model']]}; outcomes: {escape(', '.join(model.outcomes))}"
    )
    _print_play(release, "Released-v0")
    print_notes(notes)
    release.answer |= {
        "states": public.space.n_states,
        "actions": public.space.n_actions,
        "most_steps": model.mdp.horizon,
        "persons": details["persons"],
        "outcomes": list(model.outcomes),
    }
    release.finish("model.json", guarantee, written, also=f", {guarantee['unit']}")


def _print_play(release: Release, env: str) -> None:
    path = json.dumps(str(release.out), ensure_ascii=False)
    play = f'gymnasium.make("privrl.envs:privrl/{env}", path={path})'
    OUT.print("play it:")
    OUT.print(f"  {escape(play)}", soft_wrap=True)
    release.answer["play"] = play
