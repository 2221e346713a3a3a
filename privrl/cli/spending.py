"""The ledger in commands that release data: they enter each release before it is drawn."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli.answers import amount
from privrl.cli.terminal import ERR, OUT, pair
from privrl.numerics.printing import up

if TYPE_CHECKING:
    from privrl.accounting import Ledger
    from privrl.accounting.amounts import Amount
    from privrl.accounting.ledger import LedgerAccountant

LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="File of the ledger; by default the one in PRIVRL_LEDGER, or your common one: see "
        "privrl ledger.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="Name of the data in the ledger, if they grow or come in several files. By default "
        "the ledger knows data by their content.",
    ),
]


def accountant_of(
    data: Path, name: str | None, path: Path | None, delta: float | None, about: str
) -> "LedgerAccountant":
    """Return the ledger's accountant of a file of data."""
    from privrl.accounting import Ledger
    from privrl.accounting.names import LONGEST

    ledger = Ledger(path)
    was_there = ledger.is_there
    chosen = ledger.dataset(data, name)
    if not was_there:
        ERR.print(f"new ledger: {escape(str(ledger.path))}", soft_wrap=True)
    elif name is None and (waiting := _waiting(ledger, chosen.name)):
        ERR.print(
            f"the ledger has a budget for {escape(waiting)} without any release; if it is for "
            f"these data, pass --dataset {escape(shlex.quote(waiting))}"
        )
    if name is not None and not (data.is_file() or data.is_dir()):
        ERR.print(
            f"data from a pipe count as {escape(name)} only: pass the same --dataset for the same "
            "data in a file, or the ledger has two accounts"
        )
    shown = "".join(each if each.isprintable() else "?" for each in about)[:LONGEST].strip()
    return ledger.accountant(chosen, delta=delta, about=shown, source=data)


def _waiting(ledger: "Ledger", chosen: str) -> str | None:
    """Return a name with a budget and no release, if these data have no budget."""
    budgets = {name for name, _ in ledger.budgets()}
    if chosen in budgets:
        return None
    return min(budgets - {each.dataset for each in ledger.accounts()}, default=None)


def print_spent(accountant: "LedgerAccountant", delta: float | None) -> None:
    """Print the total before and after this release."""
    receipt = accountant.receipt
    assert receipt is not None
    # A name derived from the data is not printed: it would change with one record.
    named = receipt.dataset if receipt.is_named else "these data"
    under = escape(str(accountant.relation))
    OUT.print(f"ledger: entry {receipt.number}, of {escape(named)}, under {under}")
    before, after = receipt.before, receipt.after
    if before.releases:
        OUT.print(f"  spent before: {amount_text(before, delta)}, by {releases(before)}")
        OUT.print(f"  in total: {amount_text(after, delta)}, by {releases(after)}")
        OUT.print("  (for planned releases; after adaptive choices, the budget is the guarantee)")
    else:
        OUT.print("  spent before: nothing; the cost of further releases of these data adds up")
    if receipt.budget is not None:
        OUT.print(f"  {share(receipt.budget.share(after))} of the budget, {receipt.budget}")


def amount_text(total: "Amount", delta: float | None) -> str:
    """Return an amount as (epsilon, delta)."""
    epsilon, delta = _at(total, delta)
    if epsilon == float("inf"):
        return "no privacy"
    return pair(up(epsilon), delta)


def spent(accountant: "LedgerAccountant", delta: float | None) -> dict[str, Any]:
    """Return the content of `print_spent` as plain data."""
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
    """Return an amount as plain data, its epsilon as printed."""
    epsilon, delta = _at(total, delta)
    return {"epsilon": amount(epsilon), "delta": delta, "releases": total.releases}


def _at(total: "Amount", delta: float | None) -> tuple[float, float | None]:
    """Return epsilon and delta; a total that is not pure has a delta."""
    epsilon = total.epsilon(delta)
    if delta is None and epsilon == float("inf"):
        delta = 1e-5
        epsilon = total.epsilon(delta)
    return epsilon, delta


def share(part: float) -> str:
    """Return a part of a budget in percent, never rounded down."""
    return f"{up(100 * part, 3)} %"


def releases(total: "Amount") -> str:
    """Return the number of releases in words."""
    return f"{total.releases} release{'s' * (total.releases != 1)}"
