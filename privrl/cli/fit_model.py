"""privrl fit-model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape

from privrl.cli import logs, numeric
from privrl.cli.released import Release, release_command
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
) -> None:
    """Release a private model of a log: an environment to share, to play and to plan in.

    Writes model.json and tables.npz (the released model, which you may share) and release.json (its
    cost). Using the model costs nothing more: see privrl fit-policy --from-model.
    """
    where = logs.ReadOptions(release.separator, workers, address)
    where.check()
    options: dict[str, Any] = {"person": person, "behaviour": behaviour, "admissible": admissible}
    ranges = numeric.numeric_schema(schema, **options)
    if ranges is not None:
        with numeric.fitted(release, data, ranges, relation, where, numeric.MODEL) as (model, said):
            written = release.save(model.files(), said)
        numeric.print_about(release, model, "model")
        _print_play(release, "ReleasedContinuous-v0")
        release.finish("model.json", said, written, also=f", {said['unit']}")
    else:
        _fit_cells(release, data, relation, where, logs.public_log(schema, **options))


def _fit_cells(
    release: Release, data: Path, relation: str, where: logs.ReadOptions, public: logs.PublicLog
) -> None:
    from privrl import offline
    from privrl.envs.released_files import writers
    from privrl.offline.model import check_model

    budget, rng = logs.budget_of(release, relation), release.rng()
    names: dict[str, Any] = {
        "state_names": public.state_names,
        "action_names": public.action_names,
    }
    check_model(public.space, **names)
    accountant = release.account(numeric.MODEL, "fit-model")
    guarantee = budget.guarantee(public.space)
    with logs.once_charged(accountant):
        with public.read(data, where) as log:
            model = offline.fit_model(
                log, **budget.given, **public.support, **names, rng=rng, accountant=accountant
            )
        statement = model.statement | {"caveats": guarantee["caveats"]}
        model = replace(model, statement=statement)
        written = release.save(writers(model), guarantee)
    details = statement["details"]
    how = {"counts": "counts of all transitions", "endings": "how episodes end and continue"}
    OUT.print(
        f"a model of {public.space.n_states} states and {public.space.n_actions} actions, "
        f"episodes of at most {model.mdp.horizon} steps, from about {details['persons']} "
        f"persons, by {how[details['model']]}; outcomes: {escape(', '.join(model.outcomes))}"
    )
    _print_play(release, "Released-v0")
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
