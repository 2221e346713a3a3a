"""privrl ledger."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli import outputs
from privrl.cli.answers import amount, command, named
from privrl.cli.options import DELTA, Delta, Epsilon
from privrl.cli.outputs import Force
from privrl.cli.spending import LedgerPath, amount_text, plainly, share
from privrl.cli.terminal import MARKUP, OUT, Commands, app, pair, print_files
from privrl.files.shown import shown
from privrl.numerics.printing import setting

if TYPE_CHECKING:
    from privrl.accounting import Budget, Ledger
    from privrl.accounting.ledger import Account

_commands = Commands(no_args_is_help=True, rich_markup_mode=MARKUP, add_completion=False)
app.add_typer(
    _commands, name="ledger", help="Privacy spent on each data set over all runs, and budgets."
)
_LONG = re.compile(  # a number with too many digits, and its name
    r"(?P<name>\w+)=(?P<number>[0-9]+\.[0-9]{6,}(?:e[+-]?[0-9]+)?)"
)
_RELATION = re.compile(r"""(, )?relation=\w+\(name=('[^']*'|"[^"]*")\)""")  # in a cost
_WIDTH = 17  # of a name derived from data
_SHORT = ("replace-record", "add-remove-record", "replace-person", "add-remove-person")


@command("show", _commands)
def show_command(
    answer: dict[str, Any],
    dataset: Annotated[str | None, typer.Argument()] = None,
    delta: float | None = None,
    ledger: LedgerPath = None,
) -> None:
    """Show the spent privacy and the budget of each data set under each relation.

    Parameters
    ----------
    dataset
        A data set; by default all are listed.
    delta
        Delta at which to print epsilon; by default the budget's, or 1e-5.
    """
    from privrl.accounting.names import one_spelling
    from privrl.costs.base import check_delta

    if delta is not None:
        check_delta(delta)
    book = _opened(ledger)
    if dataset is not None:
        dataset = one_spelling(dataset)
        answer["entries"] = _print_entries(book, dataset, delta)
        return
    _print_accounts(book, delta)
    answer["accounts"] = [
        {
            "dataset": each.dataset,
            "relation": each.relation,
            "spent": plainly(each.total, _delta_of(each, delta)),
            "budget": None if each.budget is None else _plain(each.budget),
        }
        for each in book.accounts()
    ]
    answer["budgets"] = [
        {"dataset": name, "relation": relation, **_plain(budget)}
        for (name, relation), budget in book.budgets().items()
    ]


@command("budget", _commands)
def budget_command(
    answer: dict[str, Any],
    dataset: Annotated[str, typer.Argument()],
    epsilon: Epsilon,
    delta: Delta = DELTA,
    relation: str | None = None,
    ledger: LedgerPath = None,
) -> None:
    """Set the budget of a data set. Releases that would exceed it are refused.

    Example: privrl ledger budget visits --epsilon 1 --delta 1e-5

    Parameters
    ----------
    dataset
        Name of the data set.
    relation
        Adjacency relation: replace-record, add-remove-record, replace-person,
        add-remove-person, or one that privrl ledger show or a refusal prints. By default each
        relation, one by one.
    """
    from privrl.accounting import Budget, Ledger
    from privrl.accounting.names import one_spelling

    dataset = one_spelling(dataset)
    book, budget = Ledger(ledger), Budget(epsilon, delta or None)
    accounts = book.accounts() if book.is_there else ()
    budgets = book.budgets() if book.is_there else {}
    words = None if relation is None else _relation(relation, dataset, accounts)
    book.set_budget(dataset, budget, words)
    before = budgets.get((dataset, words))
    under = "each relation" if words is None else words
    OUT.print(f"{escape(dataset)} may spend {budget}, under {escape(under)}")
    if before is not None:
        OUT.print(f"before it was {before}")
    if not any(each.dataset == dataset for each in accounts):
        OUT.print(
            "this name has no releases yet: pass --dataset "
            f"{escape(shlex.quote(dataset))} to the commands that it is for"
        )
    _print_over(book, dataset)
    answer |= {
        "dataset": dataset,
        "relation": words,
        "budget": _plain(budget),
        "before": None if before is None else _plain(before),
        "percent_spent": {
            each.relation: amount(100 * each.budget.share(each.total), 3)
            for each in book.accounts()
            if each.dataset == dataset and each.budget is not None
        },
    }


@command("verify", _commands)
def verify_command(
    answer: dict[str, Any], against: Path | None = None, ledger: LedgerPath = None
) -> None:
    """Check that no entry was changed, moved or removed.

    Parameters
    ----------
    against
        An earlier export, to detect truncation or replacement of the ledger.
    """
    from privrl.files.files import read_bytes
    from privrl.files.plain import parse_json

    earlier: Any = None
    if against is not None:
        try:
            earlier = parse_json(read_bytes(against))
        except ValueError as error:
            raise ValueError(f"against {against.name}: {error}") from None
        if not isinstance(earlier, Mapping):
            raise ValueError(f"against must be an export of a ledger, got {str(against)!r}.")
    number, head = _opened(ledger).verify(earlier)
    OUT.print(f"{number} entries, all unchanged; the link of the last one is")
    OUT.print(f"  {head}", soft_wrap=True)
    answer |= {"entries": number, "link": head}
    if against is None:
        OUT.print(
            "This check detects edits. To detect truncation or replacement of the file, "
            "compare with an earlier export: --against."
        )


@command("export", _commands)
def export_command(
    answer: dict[str, Any], out: Path | None = None, force: Force = False, ledger: LedgerPath = None
) -> None:
    """Write all entries and the link of the last one, without the salt, for safekeeping.

    Parameters
    ----------
    out
        File to write; by default printed.
    """
    from privrl.files import files as _files

    opened = _opened(ledger)
    if out is not None:
        folder = out.absolute().parent
        outputs.check_new(folder, [out.name], force=force)
    exported = opened.export()
    if out is None:
        answer.update(exported)
        if not OUT.quiet:
            typer.echo(json.dumps(exported, indent=1, ensure_ascii=False, allow_nan=False))
        return
    text = json.dumps(exported, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    _files.save_all(folder, {out.name: _files.text_writer(text)})
    print_files([out])
    answer["files"] = named([out])


@command("forget", _commands)
def forget_command(
    answer: dict[str, Any],
    dataset: Annotated[str, typer.Argument()],
    force: Annotated[bool, typer.Option("--force")] = False,
    ledger: LedgerPath = None,
) -> None:
    """Erase the entries of a data set that was deleted.

    Parameters
    ----------
    dataset
        A data set that was deleted.
    force
        Erase the entries permanently.
    """
    from privrl.accounting.names import one_spelling

    book, dataset = _opened(ledger), one_spelling(dataset)
    if not force:
        raise ValueError(
            f"the entries of {shown(dataset)} would be forgotten, and the next release would "
            "count as the first. If the data were deleted, add --force."
        )
    number = book.forget(dataset)
    OUT.print(
        f"{number} entr{'y' if number == 1 else 'ies'} of {escape(dataset)} erased; the chain "
        "still shows their number"
    )
    answer |= {"dataset": dataset, "erased": number}


def _opened(path: Path | None) -> "Ledger":
    from privrl.accounting import Ledger

    book = Ledger(path)
    if not book.is_there:
        raise ValueError(
            f"the ledger {str(book.path)!r} does not exist; the first release creates it."
        )
    return book


def _relation(given: str, dataset: str, accounts: "tuple[Account, ...]") -> str:
    """Return a relation in the words of the entries."""
    from privrl.costs.relations import (
        AddRemovePerson,
        AddRemoveRecord,
        ReplacePerson,
        ReplaceRecord,
        kind_of,
    )

    made = (ReplaceRecord(), AddRemoveRecord(), ReplacePerson(), AddRemovePerson())
    known = dict(zip(_SHORT, map(str, made), strict=True))
    words = known.get(given, given)
    entered = [each.relation for each in accounts if each.dataset == dataset]
    entered += [kind_of(each) for each in entered]  # of which a refusal may ask for another
    if words not in (*known.values(), *entered) and kind_of(words) == words:
        raise ValueError(
            f"relation must be one of {', '.join(_SHORT)}, or that of a release of {dataset}, "
            f"got {shown(given)}."
        )
    return words


def _print_accounts(book: "Ledger", delta: float | None) -> None:
    from privrl.costs.relations import kind_of

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    accounts, budgets = book.accounts(), dict(book.budgets())
    names = [each.dataset for each in accounts] + [name for name, _ in budgets]
    longest = max(map(len, names), default=0)
    table.add_column("data set", overflow="fold", no_wrap=longest <= _WIDTH)
    table.add_column("privacy unit", overflow="fold")
    for head in ("times", "spent", "budget", "used"):
        # A pair may fold onto two lines instead of being truncated.
        whole = head in ("times", "used")
        table.add_column(head, justify="right", no_wrap=whole, overflow="fold")
    for each in accounts:
        budget = each.budget
        said = ("none", "") if budget is None else (_pair(budget), share(budget.share(each.total)))
        table.add_row(
            escape(each.dataset),
            escape(each.relation),
            str(each.total.releases),
            amount_text(each.total, _delta_of(each, delta)),
            *said,
        )
    spent = {(each.dataset, each.relation): each.total for each in accounts}
    for (name, relation), budget in budgets.items():
        of_all = relation is None and any(name == dataset for dataset, _ in spent)
        if not of_all and (name, relation) not in spent:
            total = spent.get((name, kind_of(relation or "")))  # which counts for each unit
            found = (
                ("0", "0") if total is None else (str(total.releases), amount_text(total, delta))
            )
            used = "0 %" if total is None else share(budget.share(total))
            table.add_row(escape(name), escape(relation or "each"), *found, _pair(budget), used)
    OUT.print(table)
    OUT.print("Each relation has a separate account.")


def _delta_of(account: "Account", delta: float | None) -> float | None:
    """Return the delta for printing an account: the given one, or the budget's."""
    if delta is not None:
        return delta
    return 1e-5 if account.budget is None else account.budget.delta


def _plain(budget: "Budget") -> dict[str, float | None]:
    return {"epsilon": budget.epsilon, "delta": budget.delta}


def _pair(budget: "Budget") -> str:
    return pair(repr(budget.epsilon), budget.delta)


def _print_entries(book: "Ledger", dataset: str, delta: float | None) -> list[dict[str, Any]]:
    """Print the entries of a data set, and return them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("entry", justify="right")
    table.add_column("when (UTC)", min_width=10)
    table.add_column("cost", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    found = [entry for entry in book.entries() if entry and entry.get("dataset") == dataset]
    if not found:
        raise ValueError(f"dataset must be one of the ledger's, got {shown(dataset)}.")
    amounts = book.amounts(dataset)
    deltas = {e.relation: _delta_of(e, delta) for e in book.accounts() if e.dataset == dataset}
    answer = []
    for entry in found:
        number, words = entry["number"], _words(entry)
        said = {"number": number, "time": entry["time"], "what": words}
        cost = ""
        if number in amounts:
            at = deltas[entry["relation"]]
            cost = amount_text(amounts[number], at)
            said["cost"] = plainly(amounts[number], at)
            words = f"{_RELATION.sub('', words)}, {entry['relation']}"
        when = entry["time"][:16].replace("T", " ")
        table.add_row(str(number), when, cost, escape(words))
        answer.append(said)
    OUT.print(table)
    return answer


def _words(entry: Mapping[str, Any]) -> str:
    """Return an entry in words."""
    if entry["what"] == "budget":
        from privrl.accounting import Budget

        return f"budget: {Budget.from_plain(entry)}, under {entry['relation'] or 'each relation'}"
    times = "" if entry["count"] == 1 else f"{entry['count']} times "
    if entry.get("about"):
        times = f"{entry['about']}: {times}"
    return times + _LONG.sub(_short, str(entry["cost"]))


def _short(found: "re.Match[str]") -> str:
    return f"{found['name']}={setting(found['name'], float(found['number']))}"


def _print_over(book: "Ledger", dataset: str) -> None:
    """Print the share of each budget that is spent."""
    for each in book.accounts():
        if each.dataset == dataset and each.budget is not None:
            part = each.budget.share(each.total)
            left = "" if part < 1 else "; nothing more can be released"
            OUT.print(f"{share(part)} of it is spent under {escape(each.relation)}{left}")
