"""privrl bayes-net."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli import outputs, released, spending
from privrl.cli.answers import AsJson, answering, guaranteed, named
from privrl.cli.outputs import Force
from privrl.cli.released import Data, Delta, Epsilon, Order, SchemaFile, Separator
from privrl.cli.report import WithReport, write_report
from privrl.cli.seeds import Reproducible, Seed, rng_of
from privrl.cli.spending import LedgerPath, Name
from privrl.cli.terminal import OUT, app, friendly, print_cost, print_files

if TYPE_CHECKING:
    from privrl.models.bayes_net.network import BayesNet

_MECHANISMS = ("auto", "dirichlet", "gaussian", "laplace", "none")
_FILES = ("model.json", "model.bif", "release.json")
_MOST_SYNTHETIC = 1_000_000


@app.command("bayes-net")
def bayes_net_command(
    context: typer.Context,
    data: Data,
    schema: SchemaFile,
    network: Annotated[
        Path | None,
        typer.Option(
            help="File .toml or .json with a table 'parents': for each node a list. Without it a "
            "part of the budget chooses them."
        ),
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    mechanism: Annotated[
        str, typer.Option(help="auto, dirichlet, gaussian, laplace, or none: no privacy.")
    ] = "auto",
    synthetic: Annotated[
        int | None, typer.Option(help="Write so many synthetic records, too; they are free.")
    ] = None,
    separator: Separator = ",",
    seed: Seed = None,
    reproducible: Reproducible = None,
    dataset: Name = None,
    ledger: LedgerPath = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/bayes-net"),
    force: Force = False,
    as_json: AsJson = False,
    report: WithReport = False,
) -> None:
    """Fit a Bayesian network privately: its probabilities, and its edges if they are not public.

    Writes model.json and model.bif (what was released, to be shared), release.json, and with
    --synthetic N synthetic.csv.
    """
    with friendly(), answering(as_json) as answer:
        from privrl.data.records import read_records
        from privrl.data.schema import Schema
        from privrl.files import files as _files
        from privrl.models.bayes_net.fit import PrivateBayesNet
        from privrl.numerics.checks import check_count

        target = released.target_of(epsilon, delta, order)
        rng = rng_of(seed, reproducible=reproducible)
        if synthetic is not None:
            check_count("synthetic", synthetic)
            if synthetic > _MOST_SYNTHETIC:  # or memory would end after all was paid for
                raise ValueError(
                    f"synthetic must be at most {_MOST_SYNTHETIC}, got {synthetic}; more can be "
                    "drawn of model.json, part by part: BayesNet.load(path).sample(n, rng)."
                )
        released.check_name("mechanism", mechanism, _MECHANISMS)
        if network is None and mechanism != "auto":
            raise ValueError(
                f"network must be given with --mechanism {mechanism}; edges are chosen for auto."
            )
        plan = PrivateBayesNet(
            parents="private" if network is None else _load_network(network),
            schema=Schema.load(schema),
            target=target,
            mechanism=mechanism,  # type: ignore[arg-type] # any text, which it checks
        )
        names = _FILES if synthetic is None else (*_FILES, "synthetic.csv")
        outputs.check_new(out, names, force=force)
        accountant = spending.accountant_of(data, dataset, ledger, delta, "bayes-net")
        records = read_records(data, plan.schema, separator=separator)
        net = plan.fit(records, rng, accountant=accountant)
        assert net.cost is not None
        private = mechanism != "none"
        guarantee = released.guarantee_of(net.cost, target if private else None, delta, seed)
        bif = net.to_bif().encode()
        files = {
            "model.json": released.plain_writer(net.to_dict()),
            "model.bif": lambda file: file.write(bif),
        }
        if synthetic is not None:
            files["synthetic.csv"] = _files.table_writer(net.sample(synthetic, rng))
        written = _files.save_all(out, files, released.statement_of(context, guarantee))
        edges = sum(map(len, net.parents.values()))
        OUT.print(
            f"Bayesian network of {len(net.nodes)} nodes and {edges} edge{'s' * (edges != 1)}, "
            f"from {len(records)} records"
        )
        if network is None:
            OUT.print(escape(_edges(net)))
        print_cost("model.json", guarantee, without="the mechanism is none")
        spending.print_spent(accountant, delta)
        print_files(written)
        answer |= {"nodes": len(net.nodes), "edges": edges, "records": len(records)}
        answer["parents"] = {node: list(own) for node, own in net.parents.items()}
        answer |= {
            "guarantee": guaranteed(guarantee),
            "ledger": spending.spent(accountant, delta),
            "files": named(written),
        }
        if report:
            answer.update(write_report(out))


def _edges(net: "BayesNet") -> str:
    """Say which edges were chosen."""
    if net.choice is None:
        return "no edges: there are too few records to choose any at this budget"
    own = [f"{node} of {', '.join(own)}" for node, own in net.parents.items() if own]
    return f"edges, chosen privately: {'; '.join(own) or 'none seemed worth its noise'}"


def _load_network(path: Path) -> dict[str, Any]:
    from privrl.data.schema.plain import read

    try:
        data = read(path)
    except ValueError as error:
        raise ValueError(f"network {path.name}: {error}") from None
    if not isinstance(data, Mapping) or set(data) != {"parents"}:
        raise ValueError(
            f"network {path.name} must have one entry, 'parents': for each node the list of its "
            "parents, such as income = ['age', 'job']."
        )
    parents = data["parents"]
    if not isinstance(parents, Mapping) or not all(isinstance(p, list) for p in parents.values()):
        raise ValueError(f"network {path.name}: parents must be a list for each node.")
    return dict(parents)
