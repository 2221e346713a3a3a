"""privrl account."""

from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from privrl.cli.answers import AsJson, amount, answering
from privrl.cli.terminal import OUT, app, friendly, numbers
from privrl.numerics.printing import down, up

_ORDERS = "1.5,2,4,8,16,32,64"


@app.command()
def account(
    weight: Annotated[
        float | None, typer.Option(help="Weight of a count; or solve for it.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Prior; or solve for it.")] = None,
    relation: Annotated[
        str,
        typer.Option(
            help="replace-record, add-remove-record, replace-transition, replace-step, "
            "replace-episode, paper-step."
        ),
    ] = "replace-record",
    horizon: Annotated[
        int | None, typer.Option(help="Steps of an episode, for replace-episode.")
    ] = None,
    arrival_rewards: Annotated[
        bool, typer.Option(help="Rewards depend on the next state, for --table rewards.")
    ] = False,
    table: Annotated[
        str | None, typer.Option(help="The relation's table, such as transitions or rewards.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many releases.")] = 1,
    orders: Annotated[
        list[str] | None,
        typer.Option(help="Rényi orders to print.", show_default=_ORDERS),
    ] = None,
    delta: Annotated[float, typer.Option(help="For (epsilon, delta).")] = 1e-5,
    bound: Annotated[str, typer.Option(help="exact, or dps: Ponnoprat's bound.")] = "exact",
    epsilon: Annotated[
        float | None, typer.Option(help="Target to solve for the missing weight or alpha.")
    ] = None,
    order: Annotated[
        float | None,
        typer.Option(help="Rényi order of the target; without it the target is (epsilon, delta)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what Dirichlet releases cost; or without --weight or --alpha, solve for the missing one.

    Example: privrl account --weight 1 --alpha 5

    Example: privrl account --weight 1 --epsilon 1 --order 2
    """
    with friendly(), answering(as_json) as answer:
        from privrl._plain import lookup
        from privrl.accounting import ApproxDP, RdpAccountant, RenyiDP
        from privrl.costs import DirichletCost
        from privrl.experiments.names import RELATIONS
        from privrl.mechanisms import DirichletMechanism

        if relation == "replace-episode" and horizon is None:
            raise ValueError("horizon must be given for replace-episode; pass --horizon.")
        steps = 1 if horizon is None else horizon
        unit = lookup("relation", relation, RELATIONS)(steps, arrival_rewards)
        common: dict[str, Any] = {"relation": unit, "table": table, "bound": bound}
        printed = numbers("orders", orders or _ORDERS)
        if (weight is None) + (alpha is None) > 1:
            raise ValueError("give --weight or --alpha, or both; one of them can be solved for.")
        if weight is None or alpha is None:
            if epsilon is None:
                missing = "weight" if weight is None else "alpha"
                raise ValueError(f"give --{missing}, or --epsilon to solve for it.")
            target = ApproxDP(epsilon, delta) if order is None else RenyiDP(order, epsilon)
            solved = "largest weight" if weight is None else "smallest alpha"
            made = DirichletMechanism.calibrated(
                target, weight=weight, alpha=alpha, count=count, **common
            )
            # The number that is printed, which is rounded to more privacy, is the one that is used.
            if weight is None:
                value = down(made.weight)
                weight, alpha = float(value), made.cost.alpha
            else:
                value = up(made.cost.alpha, 6)
                weight, alpha = made.weight, float(value)
            OUT.print(f"{solved} that meets {target}: [bold]{value}[/]")
        elif epsilon is not None or order is not None:
            raise ValueError("epsilon and order are for solving; leave out --weight or --alpha.")
        cost = DirichletCost(weight=weight, alpha=alpha, **common)
        accountant = RdpAccountant(orders=printed)
        accountant.compose(cost, count)
        fine = RdpAccountant()
        fine.compose(cost, count)
        at_delta = cost.epsilon(delta) if count == 1 else fine.epsilon(delta)
        times = f"{count} releases" if count > 1 else "one release"
        OUT.print(
            f"{times} of Dirichlet({weight:.12g} * counts + {alpha:.12g}); neighbours: {unit}"
        )
        rows = Table(box=SIMPLE_HEAD)
        rows.add_column("Rényi order", justify="right")
        rows.add_column("epsilon (nats)", justify="right")
        for at, spent in zip(accountant.orders, accountant.rdp, strict=True):
            rows.add_row(f"{at:.12g}", up(float(spent)))
        OUT.print(rows)
        OUT.print(f"({up(float(at_delta))}, {delta!r})-differential privacy")
        answer |= {
            "weight": weight,
            "alpha": alpha,
            "releases": count,
            "relation": str(unit),
            "renyi": [
                {"order": float(at), "epsilon": amount(float(spent))}
                for at, spent in zip(accountant.orders, accountant.rdp, strict=True)
            ],
            "epsilon": amount(float(at_delta)),
            "delta": delta,
        }
