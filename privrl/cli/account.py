"""privrl account."""

from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from privrl.cli.answers import amount, command
from privrl.cli.options import DELTA, Delta, RenyiOrder
from privrl.cli.terminal import OUT, numbers, pair
from privrl.numerics.printing import down, up

_ORDERS = "1.5,2,4,8,16,32,64"


@command("account")
def account(
    answer: dict[str, Any],
    weight: float | None = None,
    alpha: float | None = None,
    relation: str = "replace-record",
    horizon: int | None = None,
    arrival_rewards: bool = False,
    table: str | None = None,
    count: int = 1,
    orders: Annotated[list[str] | None, typer.Option(show_default=_ORDERS)] = None,
    bound: str = "exact",
    epsilon: float | None = None,
    delta: Delta = DELTA,
    renyi_order: RenyiOrder = None,
) -> None:
    """Compute the cost of Dirichlet releases, or the missing one of --weight and --alpha.

    Example: privrl account --weight 1 --alpha 5

    Example: privrl account --weight 1 --epsilon 1 --renyi-order 2

    Parameters
    ----------
    weight
        Weight of a count; left out, it is computed.
    alpha
        Prior; left out, it is computed.
    relation
        replace-record, add-remove-record, replace-transition, replace-step, replace-episode,
        paper-step.
    horizon
        Steps of an episode, for replace-episode.
    arrival_rewards
        Rewards depend on the next state, for --table rewards.
    table
        The relation's table, such as transitions or rewards.
    count
        How many releases.
    orders
        Comma-separated Rényi orders.
    bound
        exact, or dps: Ponnoprat's bound.
    epsilon
        Privacy budget for solving: epsilon of (epsilon, delta).
    """
    from privrl.accounting import RdpAccountant
    from privrl.accounting.targets import target_of
    from privrl.costs import DirichletCost
    from privrl.experiments.names import RELATIONS
    from privrl.files.plain import lookup

    if relation == "replace-episode" and horizon is None:
        raise ValueError("horizon must be given for replace-episode; pass --horizon.")
    steps = 1 if horizon is None else horizon
    unit = lookup("relation", relation, RELATIONS)(steps, arrival_rewards)
    common: dict[str, Any] = {"relation": unit, "table": table, "bound": bound}
    printed = numbers("orders", orders or _ORDERS)
    if (weight is None) + (alpha is None) > 1:
        raise ValueError("give --weight, --alpha or both; only one of them can be computed.")
    if weight is None or alpha is None:
        if epsilon is None:
            missing = "weight" if weight is None else "alpha"
            raise ValueError(f"give --{missing}, or --epsilon to compute it.")
        from privrl.mechanisms import DirichletMechanism

        target = target_of(epsilon, delta, renyi_order)
        solved = "largest weight" if weight is None else "smallest alpha"
        made = DirichletMechanism.calibrated(
            target, weight=weight, alpha=alpha, count=count, **common
        )
        # The printed number, rounded towards more privacy, is the one that is used.
        if weight is None:
            value = down(made.weight)
            weight, alpha = float(value), made.cost.alpha
        else:
            value = up(made.cost.alpha, 6)
            weight, alpha = made.weight, float(value)
        OUT.print(f"{solved} that meets {target}: [bold]{value}[/]")
    elif epsilon is not None or renyi_order is not None:
        raise ValueError(
            "--epsilon and --renyi-order are for solving; leave out --weight or --alpha."
        )
    cost = DirichletCost(weight=weight, alpha=alpha, **common)
    accountant = RdpAccountant(orders=printed)
    accountant.compose(cost, count)
    fine = RdpAccountant()
    fine.compose(cost, count)
    at_delta = cost.epsilon(delta) if count == 1 else fine.epsilon(delta)
    times = f"{count} releases" if count > 1 else "one release"
    OUT.print(f"{times} of Dirichlet({weight:.12g} * counts + {alpha:.12g}); privacy unit: {unit}")
    rows = Table(box=SIMPLE_HEAD)
    rows.add_column("Rényi order", justify="right")
    rows.add_column("epsilon (nats)", justify="right")
    for at, spent in zip(accountant.orders, accountant.rdp, strict=True):
        rows.add_row(f"{at:.12g}", up(float(spent)))
    OUT.print(f"cost: {pair(up(float(at_delta)), delta)}-differential privacy")
    OUT.print(rows)
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
