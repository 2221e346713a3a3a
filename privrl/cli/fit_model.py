"""privrl fit-model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from privrl.cli import logs, outputs, released, spending
from privrl.cli.answers import AsJson, answering, guaranteed, named
from privrl.cli.outputs import Force
from privrl.cli.released import Epsilon, Separator
from privrl.cli.report import WithReport, write_report
from privrl.cli.seeds import Reproducible, Seed, rng_of
from privrl.cli.spending import LedgerPath, Name
from privrl.cli.terminal import OUT, app, friendly, print_cost, print_files

_FILES = ("model.json", "tables.npz", "release.json")


@app.command("fit-model")
def fit_model_command(
    context: typer.Context,
    data: Annotated[Path, logs.LOG],
    schema: Annotated[Path, logs.SCHEMA],
    epsilon: Epsilon = 1.0,
    delta: logs.Delta = None,
    order: logs.Order = None,
    relation: logs.Unit = "add-remove",
    person: logs.Person = None,
    behaviour: logs.Behaviour = None,
    admissible: logs.Admissible = None,
    separator: Separator = ",",
    workers: logs.Workers = None,
    address: logs.Address = None,
    seed: Seed = None,
    reproducible: Reproducible = None,
    dataset: Name = None,
    ledger: LedgerPath = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/fit-model"),
    force: Force = False,
    as_json: AsJson = False,
    report: WithReport = False,
) -> None:
    """Release a private model of a log: an environment to share, to play and to plan in.

    Writes model.json and tables.npz (what was released, to be shared) and release.json (what it
    cost). Whatever is made of the model costs nothing more: see privrl fit-policy --from-model.
    """
    with friendly(), released.installed(), answering(as_json) as answer:
        from privrl.envs.released_files import writers
        from privrl.files import files as _files
        from privrl.offline import fit_model
        from privrl.offline.model import check_model

        budget = logs.budget_of(epsilon, delta, order, relation, seed)
        rng = rng_of(seed, reproducible=reproducible)
        where = logs.ReadOptions(separator, workers, address)
        where.check()
        public = logs.public_log(
            schema,
            person=person,
            admissible=admissible,
            behaviour=behaviour,
        )
        names: dict[str, Any] = {
            "state_names": public.state_names,
            "action_names": public.action_names,
        }
        check_model(public.space, **names)
        outputs.check_new(out, _FILES, force=force)
        accountant = spending.accountant_of(data, dataset, ledger, budget.reported, "fit-model")
        guarantee = budget.guarantee(public.space)
        with logs.once_charged(accountant):
            with public.read(data, where) as log:
                model = fit_model(
                    log, **budget.given, **public.support, **names, rng=rng, accountant=accountant
                )
            statement = model.statement | {"caveats": guarantee["caveats"]}
            model = replace(model, statement=statement)
            written = _files.save_all(
                out, writers(model), released.statement_of(context, guarantee)
            )
        details = statement["details"]
        how = {"counts": "counts of all transitions", "endings": "how episodes end and go on"}
        OUT.print(
            f"a model of {public.space.n_states} states and {public.space.n_actions} actions, "
            f"episodes of at most {model.mdp.horizon} steps, from about {details['persons']} "
            f"persons, by {how[details['model']]}; outcomes: {escape(', '.join(model.outcomes))}"
        )
        print_cost("model.json", guarantee, without="", also=f", {guarantee['unit']}")
        spending.print_spent(accountant, budget.reported)
        print_files(written)
        OUT.print("play it:")
        path = json.dumps(str(out), ensure_ascii=False)
        play = f'gymnasium.make("privrl.envs:privrl/Released-v0", path={path})'
        OUT.print(f"  {escape(play)}", soft_wrap=True)
        answer |= {
            "states": public.space.n_states,
            "actions": public.space.n_actions,
            "most_steps": model.mdp.horizon,
            "persons": details["persons"],
            "outcomes": list(model.outcomes),
            "play": play,
        }
        answer |= {
            "guarantee": guaranteed(guarantee),
            "ledger": spending.spent(accountant, budget.reported),
            "files": named(written),
        }
        if report:
            answer.update(write_report(out))
