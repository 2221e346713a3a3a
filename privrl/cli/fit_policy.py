"""privrl fit-policy."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli import logs, outputs, released, spending
from privrl.cli.answers import AsJson, answering, guaranteed, named
from privrl.cli.outputs import Force
from privrl.cli.released import Epsilon, Separator
from privrl.cli.report import WithReport, write_report
from privrl.cli.seeds import Reproducible, Seed, rng_of
from privrl.cli.spending import LedgerPath, Name
from privrl.cli.terminal import OUT, app, friendly, print_cost, print_files
from privrl.numerics.printing import up

if TYPE_CHECKING:
    import numpy as np

    from privrl.accounting.ledger import LedgerAccountant
    from privrl.data.logs import Log
    from privrl.data.logs.partitions import PartitionedLog
    from privrl.offline import ReleasedPolicy

_FILES = ("policy.json", "release.json")
_MOST_SHOWN = 20  # states that are printed
_MOST_STATES = 1_000_000  # that a text should have a line for
_OF_MODELS = {
    "from_model",
    "discount",
    "out",
    "force",
    "as_json",
    "report",
}  # options that go with --from-model


@app.command("fit-policy")
def fit_policy_command(
    context: typer.Context,
    data: Annotated[Path | None, logs.LOG] = None,
    schema: Annotated[Path | None, logs.SCHEMA] = None,
    from_model: Annotated[
        Path | None,
        typer.Option(help="Or a folder of privrl fit-model, to plan in: costs nothing more."),
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: logs.Delta = None,
    order: logs.Order = None,
    relation: logs.Unit = "add-remove",
    discount: Annotated[
        float, typer.Option(help="In (0, 1]: what a reward counts one step later.")
    ] = 1.0,
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
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/fit-policy"),
    force: Force = False,
    as_json: AsJson = False,
    report: WithReport = False,
) -> None:
    """Release a private policy from a log: for each state an action, or "as before".

    Writes policy.json (what was released, to be shared: people can read it) and release.json
    (what it cost).
    """
    with friendly(), released.installed(), answering(as_json) as answer:
        from privrl.files import files as _files
        from privrl.offline.saving import policy_writer
        from privrl.offline.support import check_discount

        check_discount(discount)
        accountant = None
        if from_model is not None:
            _check_alone(context)
            policy = _planned(from_model, out, discount, force=force)
            guarantee, only = policy.statement, _OF_MODELS
        elif data is None or schema is None:
            raise ValueError("give a log and its --schema, or --from-model.")
        else:
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
            _check_public(public, budget, discount)
            outputs.check_new(out, _FILES, force=force)
            accountant = spending.accountant_of(
                data, dataset, ledger, budget.reported, "fit-policy"
            )
            guarantee, only = budget.guarantee(public.space), None
        with logs.once_charged(accountant):
            if accountant is not None and data is not None:
                with public.read(data, where) as log:
                    policy = _fitted(log, public, budget, discount, rng, accountant)
            written = _files.save_all(
                out,
                {"policy.json": policy_writer(policy)},
                released.statement_of(context, guarantee, only),
            )
        _print_policy(policy)
        if accountant is not None:
            print_cost("policy.json", guarantee, without="", also=f", {guarantee['unit']}")
            spending.print_spent(accountant, budget.reported)
            answer["ledger"] = spending.spent(accountant, budget.reported)
        else:
            _print_statement(policy.statement)
        print_files(written)
        answer |= {
            "states": policy.n_states,
            "actions": policy.n_actions,
            "says": policy.says,
            "guarantee": guaranteed(guarantee),
            "files": named(written),
        }
        if report:
            answer.update(write_report(out))


def _check_alone(context: typer.Context) -> None:
    """Check that nothing is said of a log where there is a model."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT" and name not in _OF_MODELS:
            said = "a log" if name == "data" else f"--{name.replace('_', '-')}"
            raise ValueError(f"--from-model goes without {said}: a model is all that is read.")


def _planned(folder: Path, out: Path, discount: float, *, force: bool) -> "ReleasedPolicy":
    from privrl.envs import load_released
    from privrl.offline import ReleasedPolicy

    if out.resolve() == folder.resolve():
        raise ValueError("out must be another folder than --from-model, whose files are kept.")
    outputs.check_new(out, _FILES, force=force)
    return ReleasedPolicy.of_model(load_released(folder), discount=discount)


def _check_public(public: logs.PublicLog, budget: logs.Budget, discount: float) -> None:
    """Check all that is public, before anything is spent."""
    from privrl.envs.released import check_labels
    from privrl.offline.policy import check_policy

    check_policy(public.space, budget.cost, discount)
    if public.space.n_states > _MOST_STATES:
        raise ValueError(
            f"state must have at most {_MOST_STATES} cells in all to be written as a text, got "
            f"{public.space.n_states}; make them coarser."
        )
    check_labels("outcomes", public.schema.outcomes)


def _fitted(
    log: "Log | PartitionedLog",
    public: logs.PublicLog,
    budget: logs.Budget,
    discount: float,
    rng: "np.random.Generator",
    accountant: "LedgerAccountant",
) -> "ReleasedPolicy":
    from privrl.numerics.randomness import randomness_of
    from privrl.offline import ReleasedPolicy, fit_policy

    policy = fit_policy(
        log,
        **budget.given,
        **public.support,
        discount=discount,
        rng=rng,
        accountant=accountant,
    )
    return ReleasedPolicy.of_log(
        policy,
        epsilon=budget.epsilon,
        delta=budget.delta,
        order=budget.order,
        randomness=randomness_of(rng),
        caveats=tuple(budget.guarantee(public.space)["caveats"]),
        state_names=public.state_names,
        action_names=public.action_names,
        outcomes=public.schema.outcomes,
    )


def _print_policy(policy: "ReleasedPolicy") -> None:
    about = "" if policy.facts is None else f", from about {round(policy.facts.persons)} persons"
    OUT.print(f"a policy for {policy.n_states} states and {policy.n_actions} actions{about}")
    OUT.print(policy.says)
    if policy.kind == "behaviour":
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    heads = ["at first", "at last"] if policy.is_by_step else ["do"]
    for head in ("state", *heads):
        table.add_column(head, overflow="fold")
    for state in range(min(policy.n_states, _MOST_SHOWN)):
        column = policy.action[..., state]
        actions: list[Any] = [column[0], column[-1]] if policy.is_by_step else [column]
        labels = [policy.state_label(state), *map(policy.action_label, map(int, actions))]
        table.add_row(*map(escape, labels))
    OUT.print(table)
    if policy.n_states > _MOST_SHOWN:
        OUT.print(f"and {policy.n_states - _MOST_SHOWN} more states, in policy.json")


def _print_statement(statement: dict[str, Any]) -> None:
    """Say what a model cost, which a policy from it does not add to."""
    epsilon = up(statement["epsilon"])
    if "order" in statement:
        cost = f"Rényi divergence of order {statement['order']:g} at most {epsilon}"
    else:
        delta = statement["delta"]
        cost = f"{f'({epsilon}, {delta!r})' if delta else epsilon}-differential privacy"
    OUT.print(
        "policy.json cost nothing more than the model did: "
        f"{cost}; privacy unit: {escape(statement['relation'])}, {escape(statement['unit'])}"
    )
    for caveat in statement["caveats"]:
        OUT.print(f"[yellow]but:[/] {escape(caveat)}")
