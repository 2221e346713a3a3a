"""Shared parts of commands that release data: options, budget, cost, files."""

import inspect
import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli import outputs, spending
from privrl.cli.answers import command, guaranteed, named
from privrl.cli.options import DELTA, Delta, Epsilon, RenyiOrder
from privrl.cli.report import WithReport, write_report
from privrl.cli.seeds import Reproducible, Seed, check_seed, randomness_with, rng_of
from privrl.cli.terminal import ERR, command_line, print_cost, print_files, with_parameters
from privrl.files.shown import shown

if TYPE_CHECKING:
    import numpy as np

    from privrl.accounting.ledger import LedgerAccountant
    from privrl.accounting.targets import Target
    from privrl.costs.base import Cost
    from privrl.data.schema import Column, Schema


Data = Annotated[Path, typer.Argument(help="CSV file with a header row: the private records.")]
SchemaFile = Annotated[
    Path, typer.Option("--schema", help="The domain of each column: see privrl schema.")
]
Separator = Annotated[str, "One character between fields, or tab."]
Out = Annotated[Path, "Folder for the files."]

_OF_THIS_MACHINE = ("out", "force", "ledger", "as_json", "report")  # not of the release


@dataclass(kw_only=True)
class Release:
    """The options of a command that releases data, and the steps that all of them share."""

    context: typer.Context
    answer: dict[str, Any]  # for --json
    epsilon: Epsilon = 1.0
    delta: Delta = DELTA
    renyi_order: RenyiOrder = None
    separator: Separator = ","
    seed: Seed = None
    reproducible: Reproducible = None
    dataset: spending.Name = None
    ledger: spending.LedgerPath = None
    out: Out
    force: outputs.Force = False
    report: WithReport = False
    accountant: "LedgerAccountant | None" = None  # once `account` made it

    @property
    def target(self) -> "Target":
        """The privacy budget."""
        from privrl.accounting.targets import target_of
        from privrl.costs.base import check_delta

        if self.renyi_order is not None:
            check_delta(self.delta)  # where the equivalent epsilon is reported
        return target_of(self.epsilon, self.delta, self.renyi_order)

    @property
    def _reported(self) -> float | None:
        """The delta of the ledger's totals; None where they are pure."""
        return self.delta or None

    def rng(self) -> "np.random.Generator":
        """Return the generator that the options ask for."""
        return rng_of(self.seed, reproducible=self.reproducible)

    def check_seed(self) -> None:
        """Check the seed."""
        check_seed(self.seed, reproducible=self.reproducible)

    def account(self, files: Collection[str], about: str) -> "LedgerAccountant":
        """Return the ledger's accountant of the data, once the files can be written."""
        from privrl.files.files import PARQUET

        data = self.context.params["data"]
        given = self.context.params.items()
        read = [each for name, each in given if isinstance(each, Path) and name != "out"]
        outputs.check_new(self.out, files, force=self.force, inputs=read)
        beside = [name for name in files if name.endswith(PARQUET)]
        if beside and os.path.realpath(self.out) == os.path.realpath(data):
            raise ValueError(
                f"out must be another folder than that of the data, got {str(self.out)!r}: the "
                f"next release would read {beside[0]} as data."
            )
        self.accountant = spending.accountant_of(
            data, self.dataset, self.ledger, self._reported, about
        )
        return self.accountant

    def guarantee(
        self, cost: "Cost", domain: "Schema | Column | None" = None, *, private: bool = True
    ) -> dict[str, Any]:
        """Return the guarantee of a release of this budget, as plain data.

        Bins of the domain that were released are in it, with their own costs.
        """
        said = guarantee_of(cost, self.target if private else None, self.delta, self.seed)
        if domain is None:
            return said
        from privrl.models.released import randomness_with_bins, with_bins

        randomness = randomness_with_bins(said["randomness"], domain)
        if randomness != said["randomness"]:
            said["caveats"].append("whoever knows the seed of the bins can undo their noise")
        return dict(with_bins(said | {"randomness": randomness}, domain))

    def save(
        self,
        files: dict[str, Callable[[Any], object]],
        guarantee: dict[str, Any],
        only: Collection[str] | None = None,
        notes: dict[str, str] | None = None,
    ) -> list[Path]:
        """Write the files and release.json, and return their paths.

        ``only`` names the options that the saved command line repeats; by default all. ``notes``
        say of files what their readers have to know.
        """
        from privrl.files import files as _files

        if notes:
            self.answer["notes"] = notes
        name, statement = statement_of(self.context, guarantee, only)
        return _files.save_all(
            self.out, files, (name, statement | ({"notes": notes} if notes else {}))
        )

    def finish(
        self, what: str, guarantee: dict[str, Any], written: list[Path], **more: str
    ) -> None:
        """Print the cost, the ledger's total and the files; write the report if asked to."""
        self.answer["guarantee"] = guaranteed(guarantee)
        if self.accountant is not None:
            print_cost(what, guarantee, **more)
            spending.print_spent(self.accountant, self._reported)
            self.answer["ledger"] = spending.spent(self.accountant, self._reported)
        print_files(written)
        self.answer["files"] = named(written)
        if self.report:
            self.answer.update(write_report(self.out))


def print_notes(notes: dict[str, str]) -> None:
    """Print what readers of files have to know."""
    for name, note in notes.items():
        ERR.print(f"[yellow]note:[/] {name} {escape(note)}")


Run = Callable[..., None]


def release_command(name: str) -> Callable[[Run], Run]:
    """Add a function as a command: its own options come first, then those of `Release`."""

    def add(run: Run) -> Run:
        def release(answer: dict[str, Any], context: typer.Context, **given: Any) -> None:
            shared = {each.name: given.pop(each.name) for each in _options(name)}
            made = Release(context=context, answer=answer, **shared)
            with _once_charged(made):
                run(made, **given)

        answer, context, _ = inspect.signature(release).parameters.values()
        _, *own = inspect.signature(run).parameters.values()
        command(name)(with_parameters(release, run, [answer, context, *own, *_options(name)]))
        return run

    return add


@contextmanager
def _once_charged(release: Release) -> Iterator[None]:
    """Say of whatever stops a command after the charge that the ledger has the release."""
    try:
        yield
    except BaseException as error:
        if release.accountant is not None and release.accountant.receipt is not None:
            error.add_note(
                f"The release is entry {release.accountant.receipt.number} of the ledger, and is "
                "spent, whether or not its files were written."
            )
        raise


def _options(name: str) -> Iterator[inspect.Parameter]:
    """Return the options of `Release`; the default folder is named after the command."""
    for field in fields(Release)[2:-1]:
        default = Path("results") / name if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
        )


def plain_writer(data: dict[str, Any]) -> Callable[[Any], object]:
    """Return a writer of released data as strict JSON."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return lambda file: file.write(text.encode())


def statement_of(
    context: typer.Context, guarantee: dict[str, Any], only: Collection[str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the name of the statement and its content: guarantee and command line."""
    from privrl.files import files as _files

    options = {each.name: context.params[each.name] for each in context.command.params}
    data = options.pop("data")
    options = {
        name: value
        for name, value in options.items()
        if name not in _OF_THIS_MACHINE and (only is None or name in only)
    }
    command = command_line(str(context.info_name), options)
    if data is not None:
        command += f" {shlex.quote(str(data))}"
    return _files.STATEMENT, {"command": command, "guarantee": guarantee}


def check_name(option: str, name: str, known: tuple[str, ...]) -> None:
    """Check that an option has a known value."""
    from privrl.files.plain import did_you_mean, listed

    if name not in known:
        raise ValueError(
            f"{option} must be one of {listed(known)}, got {shown(name)}{did_you_mean(name, known)}"
        )


def guarantee_of(
    cost: "Cost", target: "Target | None", delta: float, seed: int | None
) -> dict[str, Any]:
    """Return an upper bound on the cost of a release as plain data; without a target, none."""
    from privrl.accounting.rdp import RdpAccountant
    from privrl.accounting.targets import ApproxDP, PureDP, RenyiDP
    from privrl.costs.base import Together

    caveats = [] if seed is None else ["whoever knows the seed can undo the noise"]
    guarantee: dict[str, Any] = {
        "relation": str(cost.relation), "order": None, "epsilon": None, "delta": delta,
        "epsilon_delta": None, "randomness": randomness_with(seed), "caveats": caveats,
    }  # fmt: skip
    if target is None:
        return guarantee
    if isinstance(target, ApproxDP | PureDP):
        return guarantee | {"epsilon_delta": target.epsilon}
    assert isinstance(target, RenyiDP)  # options name no other kind
    accountant = RdpAccountant()
    for part, count in Counter(cost.parts if isinstance(cost, Together) else (cost,)).items():
        accountant.compose(part, count)
    return guarantee | {
        "order": target.order,
        "epsilon": target.epsilon,
        "epsilon_delta": float(accountant.epsilon(delta)),
    }
