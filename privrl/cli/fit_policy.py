"""privrl fit-policy."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli import logs, numeric, outputs
from privrl.cli.released import Release, release_command
from privrl.cli.terminal import OUT, pair, print_beside
from privrl.files.shown import one_line
from privrl.numerics.printing import exact, unit_text, up

if TYPE_CHECKING:
    import numpy as np

    from privrl.accounting.ledger import LedgerAccountant
    from privrl.data.logs import Log
    from privrl.data.logs.partitions import PartitionedLog
    from privrl.offline import ReleasedPolicy

_FILES = ("policy.json", "release.json")
_MOST_SHOWN = 20  # states that are printed
_MOST_STATES = 1_000_000  # that a text should have a line for
_WITH_MODEL = {"from_model", "discount", "out", "force", "as_json", "report"}  # options


@release_command("fit-policy")
def fit_policy(
    release: Release,
    data: Annotated[Path | None, logs.LOG] = None,
    schema: Annotated[Path | None, logs.SCHEMA] = None,
    from_model: Path | None = None,
    relation: logs.Unit = "add-remove",
    discount: float | None = None,
    person: logs.Person = None,
    behaviour: logs.Behaviour = None,
    admissible: logs.Admissible = None,
    workers: logs.Workers = None,
    address: logs.Address = None,
) -> None:
    """Release a private policy from a log: for each state an action, or "as before".

    Writes policy.json (the released policy, which you may share and read; with tables.npz where
    states are numbers) and release.json (its cost).

    Parameters
    ----------
    from_model
        In place of a log: a folder of privrl fit-model, to plan in at no further cost.
    discount
        In (0, 1]: the weight of a reward one step later; by default 1, or 0.99 where states
        are numbers.
    """
    from privrl.offline.support import check_discount

    if discount is not None:
        check_discount(discount)
    if from_model is not None:
        _check_alone(release.context)
        _plan(release, from_model, discount)
        return
    if data is None or schema is None:
        raise ValueError("give a log and its --schema, or --from-model.")
    private = logs.PrivateLog(data, relation, release.separator, workers, address)
    public = numeric.public_part(schema, private, person, behaviour, admissible)
    if isinstance(public, logs.PublicLog):
        _fit_cells(release, private, public, _of_cells(discount))
        return
    numeric.check_plan(public, "schema")
    with numeric.fitted(release, private, public, numeric.POLICY) as (model, said):
        written = release.save(numeric.planned(model, discount).files(), said)
    numeric.print_about(release, model, "policy")
    release.finish("policy.json", said, written, also=f", {said['unit']}")


def _of_cells(discount: float | None) -> float:
    return 1.0 if discount is None else discount


def _fit_cells(
    release: Release, private: logs.PrivateLog, public: logs.PublicLog, discount: float
) -> None:
    from privrl.offline.saving import policy_writer

    budget, rng = logs.budget_of(release, private.relation, public.space.unit), release.rng()
    _check_public(public, budget, discount)
    accountant = release.account(_FILES, "fit-policy")
    guarantee = budget.guarantee(public.space)
    with public.read(private) as log:
        policy = _fitted(log, public, budget, discount, rng, accountant)
    written = release.save({"policy.json": policy_writer(policy)}, guarantee)
    _print_policy(release, policy)
    release.finish("policy.json", guarantee, written, also=f", {guarantee['unit']}")


def _plan(release: Release, folder: Path, discount: float | None) -> None:
    """Write a plan in a model of either kind, at no further cost."""
    from privrl.envs import load_released
    from privrl.offline import ReleasedPolicy
    from privrl.offline.saving import policy_writer

    if os.path.realpath(release.out) == os.path.realpath(folder):
        raise ValueError("out must be another folder than --from-model, whose files are kept.")
    is_numeric = numeric.is_numeric(folder / numeric.MODEL[0])
    outputs.check_new(release.out, numeric.POLICY if is_numeric else _FILES, force=release.force)
    if is_numeric:
        from privrl.continuous import ContinuousModel

        model = ContinuousModel.load(folder)
        numeric.check_plan(model.schema, "from-model")
        plan = numeric.planned(model, discount)
        statement, files = plan.statement, plan.files()
        numeric.print_about(release, model, "policy")
    else:
        policy = ReleasedPolicy.of_model(load_released(folder), discount=_of_cells(discount))
        statement, files = policy.statement, {"policy.json": policy_writer(policy)}
        _print_policy(release, policy)
    assert statement is not None
    guarantee = _in_pairs(statement, folder)
    written = release.save(files, guarantee, _WITH_MODEL)
    _print_statement(statement)
    release.finish("policy.json", guarantee, written)


def _in_pairs(statement: dict[str, Any], model: Path) -> dict[str, Any]:
    """Return a model's statement with the (epsilon, delta) that its release.json has of it."""
    from privrl.files.files import STATEMENT, read_bytes
    from privrl.files.plain import parse_json
    from privrl.files.sharing import verdicts_of

    try:
        said = parse_json(read_bytes(model / STATEMENT))
        verdicts_of(said)
    except (OSError, ValueError):  # the model's own statement is enough
        return statement
    found = said.get("guarantee")
    same = isinstance(found, dict) and all(
        found.get(entry) == statement.get(entry) for entry in ("epsilon", "order", "relation")
    )
    if not same or "order" not in statement:
        return statement
    return {**statement, **{entry: found.get(entry) for entry in ("epsilon_delta", "delta")}}


def _check_alone(context: typer.Context) -> None:
    """Check that no option of a log is given with a model."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT" and name not in _WITH_MODEL:
            other = "a log" if name == "data" else f"--{name.replace('_', '-')}"
            raise ValueError(f"--from-model cannot be combined with {other}; leave out one.")


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
    from privrl.offline import ReleasedPolicy
    from privrl.offline import fit_policy as policy_of

    policy = policy_of(
        log, **budget.given, **public.support, discount=discount, rng=rng, accountant=accountant
    )
    return ReleasedPolicy.of_log(
        policy,
        epsilon=budget.epsilon,
        delta=budget.delta,
        order=budget.order,
        caveats=tuple(budget.guarantee(public.space)["caveats"]),
        state_names=public.state_names,
        action_names=public.action_names,
        outcomes=public.schema.outcomes,
    )


def _print_policy(release: Release, policy: "ReleasedPolicy") -> None:
    release.answer |= {"states": policy.n_states, "actions": policy.n_actions, "says": policy.says}
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
    """Print the cost of a model, to which a policy from it adds nothing."""
    epsilon = up(statement["epsilon"])
    if "order" in statement:
        cost = f"Rényi divergence of order {exact(statement['order'])} at most {epsilon}"
    else:
        cost = f"{pair(epsilon, statement['delta'])}-differential privacy"
    OUT.print(
        f"policy.json adds nothing to the cost of its model: {cost}; privacy unit: "
        f"{escape(unit_text(statement))}"
    )
    for caveat in statement["caveats"]:
        OUT.print(f"[yellow]no guarantee:[/] {escape(one_line(caveat))}")
    print_beside(statement)
