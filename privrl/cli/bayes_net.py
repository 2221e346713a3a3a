"""privrl bayes-net."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from privrl.cli.released import (
    Data,
    Release,
    SchemaFile,
    check_name,
    plain_writer,
    print_notes,
    release_command,
)
from privrl.cli.terminal import OUT

if TYPE_CHECKING:
    from privrl.models.bayes_net.network import BayesNet

_MECHANISMS = ("auto", "dirichlet", "gaussian", "laplace", "none")
_FILES = ("model.json", "model.bif", "release.json")
_MOST_SYNTHETIC = 1_000_000


@release_command("bayes-net")
def bayes_net(
    release: Release,
    data: Data,
    schema: SchemaFile,
    network: Path | None = None,
    mechanism: str = "auto",
    synthetic: int | None = None,
) -> None:
    """Fit a Bayesian network privately: its probabilities, and its edges if they are not public.

    Writes model.json and model.bif (the released network, which you may share), release.json (its
    cost), and with --synthetic N also synthetic.csv.

    Parameters
    ----------
    network
        File .toml or .json with a table 'parents': for each node a list. Without it the edges
        are chosen with a part of the budget.
    mechanism
        auto, dirichlet, gaussian, laplace, or none: no privacy.
    synthetic
        Also write this many synthetic records, at no cost.
    """
    from privrl.data.records import read_records
    from privrl.data.schema import Schema
    from privrl.files import files as _files
    from privrl.models.bayes_net.fit import PrivateBayesNet
    from privrl.numerics.checks import check_count

    target, rng = release.target, release.rng()
    if synthetic is not None:
        # More could exhaust the memory after the charge.
        hint = "draw more from model.json in parts: BayesNet.load(path).sample(n, rng)"
        check_count("synthetic", synthetic, 1, _MOST_SYNTHETIC, hint)
    check_name("mechanism", mechanism, _MECHANISMS)
    if network is None and mechanism != "auto":
        raise ValueError(
            f"network must be given with --mechanism {mechanism}; edges are chosen for auto."
        )
    if network is None and release.delta == 0:
        raise ValueError("network must be given with --delta 0: choosing edges needs a delta.")
    plan = PrivateBayesNet(
        parents="private" if network is None else _load_network(network),
        schema=Schema.load(schema),
        target=target,
        mechanism=mechanism,  # type: ignore[arg-type] # any text, which it checks
    )
    names = _FILES if synthetic is None else (*_FILES, "synthetic.csv")
    accountant = release.account(names, "bayes-net")
    records = read_records(data, plan.schema, separator=release.separator)
    net = plan.fit(records, rng, accountant=accountant)
    assert net.cost is not None
    guarantee = release.guarantee(net.cost, net.schema, private=mechanism != "none")
    bif = net.to_bif().encode()
    files = {"model.json": plain_writer(net.to_dict()), "model.bif": lambda file: file.write(bif)}
    notes = {}
    if synthetic is not None:
        files["synthetic.csv"] = _files.table_writer(net.sample(synthetic, rng))
        notes["synthetic.csv"] = _lost(net)
    written = release.save(files, guarantee, notes=notes)
    edges = sum(map(len, net.parents.values()))
    OUT.print(
        f"Bayesian network of {len(net.nodes)} nodes and {edges} edge{'s' * (edges != 1)}, "
        f"from {len(records)} records"
    )
    OUT.print(escape(_edges(net, None if network is None else plan.structure.parents)))
    print_notes(notes)
    release.answer |= {
        "nodes": len(net.nodes), "edges": edges, "records": len(records),
        "parents": {node: list(own) for node, own in net.parents.items()},
    }  # fmt: skip
    release.finish("model.json", guarantee, written, without="the mechanism is none")


def _edges(net: "BayesNet", given: Mapping[str, tuple[str, ...]] | None) -> str:
    """Return the edges in words, and how they came to be there."""
    own = [f"{node} of {', '.join(own)}" for node, own in net.parents.items() if own]
    found = "; ".join(own)
    if given is not None:
        n_given, n_kept = (sum(map(len, each.values())) for each in (given, net.parents))
        if n_kept == n_given:
            return f"edges, as given: {found or 'none'}"
        return f"edges kept of the {n_given} given, where noise allows: {found or 'none'}"
    if net.choice is None:
        return "no edges: too few records to choose any at this budget"
    return f"edges, chosen privately: {found or 'none was worth its noise'}"


def _lost(net: "BayesNet") -> str:
    """Return what synthetic records do not preserve, in words."""
    joined = {node for node, own in net.parents.items() if own}.union(*net.parents.values())
    alone = [node for node in net.nodes if node not in joined]
    if not joined:
        return (
            "has independent columns: it preserves each column's distribution, and no relation "
            "between columns."
        )
    said = "preserves relations along the network's edges only"
    if not alone:
        return f"{said}."
    return f"{said}; {', '.join(alone)} {'is' if len(alone) == 1 else 'are'} independent of all."


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
