"""What commands that release something of real data share: each release is entered beforehand."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli.answers import amount
from privrl.cli.terminal import ERR, OUT, pair
from privrl.numerics.printing import up

if TYPE_CHECKING:
    from privrl.ledger import Amount, Ledger, LedgerAccountant

LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="File in which spends are kept; by default what PRIVRL_LEDGER says, or one for all "
        "that you do: see privrl ledger.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="What the data are called in the ledger, if they grow or come in several files. By "
        "default they are known by their content.",
    ),
]


def accountant_of(
    data: Path, name: str | None, path: Path | None, delta: float | None, about: str
) -> "LedgerAccountant":
    """Return what enters all that is spent of a file of data, and what for."""
    from privrl.ledger import Ledger
    from privrl.ledger.names import LONGEST

    ledger = Ledger(path)
    was_there = ledger.is_there
    chosen = ledger.dataset(data, name)
    if not was_there:
        ERR.print(f"a new ledger begins: {escape(str(ledger.path))}", soft_wrap=True)
    elif name is None and (waiting := _waiting(ledger, chosen.name)):
        ERR.print(
            f"the ledger has a budget for {escape(waiting)}, under which nothing was released yet; "
            f"it is not for these data unless you say --dataset {escape(shlex.quote(waiting))}"
        )
    shown = "".join(each if each.isprintable() else "?" for each in about)[:LONGEST].strip()
    return ledger.accountant(chosen, delta=delta, about=shown)


def _waiting(ledger: "Ledger", chosen: str) -> str | None:
    """Return a name that has a budget and no release yet, where these data have no budget."""
    budgets = {name for name, _ in ledger.budgets()}
    if chosen in budgets:
        return None
    return min(budgets - {each.dataset for each in ledger.accounts()}, default=None)


def print_spent(accountant: "LedgerAccountant", delta: float | None) -> None:
    """Say what was spent of the data before, and what it is with what was released now."""
    receipt = accountant.receipt
    assert receipt is not None
    # A name that was made of the data is not told here: it would change with one record.
    named = receipt.dataset if receipt.is_named else "these data"
    OUT.print(f"ledger: entry {receipt.number}, of {escape(named)}, under {accountant.relation}")
    before, after = receipt.before, receipt.after
    if before.releases:
        OUT.print(f"  spent before: {told(before, delta)}, by {releases(before)}")
        OUT.print(f"  all together: {told(after, delta)}, by {releases(after)}")
        OUT.print("  (for planned releases; after adaptive choices, the budget is the guarantee)")
    else:
        OUT.print("  spent before: nothing; another release of these data adds to this one")
    if receipt.budget is not None:
        OUT.print(f"  {share(receipt.budget.share(after))} of the budget, {receipt.budget}")


def told(total: "Amount", delta: float | None) -> str:
    """Return what was spent, at a delta, or pure where it is."""
    epsilon, delta = _at(total, delta)
    if epsilon == float("inf"):
        return "no privacy"
    return pair(up(epsilon), delta)


def spent(accountant: "LedgerAccountant", delta: float | None) -> dict[str, Any]:
    """Return as plain data what `print_spent` says."""
    receipt = accountant.receipt
    assert receipt is not None
    said: dict[str, Any] = {
        "entry": receipt.number,
        "dataset": receipt.dataset if receipt.is_named else None,
        "relation": str(accountant.relation),
        "before": plainly(receipt.before, delta),
        "together": plainly(receipt.after, delta),
    }
    if receipt.budget is not None:
        said["percent_of_budget"] = amount(100 * receipt.budget.share(receipt.after), 3)
    return said


def plainly(total: "Amount", delta: float | None) -> dict[str, Any]:
    """Return what was spent as plain data, its epsilon as `told` says it."""
    epsilon, delta = _at(total, delta)
    return {"epsilon": amount(epsilon), "delta": delta, "releases": total.releases}


def _at(total: "Amount", delta: float | None) -> tuple[float, float | None]:
    """Return an epsilon, and its delta: one that is needed where it is not pure."""
    epsilon = total.epsilon(delta)
    if delta is None and epsilon == float("inf"):
        delta = 1e-5
        epsilon = total.epsilon(delta)
    return epsilon, delta


def share(part: float) -> str:
    """Return a part of a budget in words, never rounded down."""
    return f"{up(100 * part, 3)} %"


def releases(total: "Amount") -> str:
    """Return how many releases there were."""
    return f"{total.releases} release{'s' * (total.releases != 1)}"
