"""Discrete Bayesian networks as they may be shared: a structure and tables of probabilities.

All computations with a network are exact: probabilities of records, synthetic records, conditional
probabilities, and files for privrl or other packages.

**BIF.** `BayesNet.to_bif` writes the Bayesian Interchange Format (BIF 0.15), which most other
packages read. A word of BIF is letters, digits and underscores, and begins with no digit. Other
names and labels are escaped reversibly: every other character is written as ``_x`` with its Unicode
number in base sixteen and ``_``, and so is an underscore before an ``x``. ``<=50K`` becomes
``_x3c__x3d_50K``. The first character is also escaped in a word that begins with a digit or that
BIF reserves, such as ``property``. The empty text is ``_x_``.

References
----------
F. Cozman. *The interchange format for Bayesian networks* (1998), grammar of version 0.15.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd

from privrl.costs.base import Cost
from privrl.data.schema import Categories, Column, Schema
from privrl.data.schema.entries import number_of
from privrl.files.chosen import MayBeChosen, check_file
from privrl.files.html import InHtml
from privrl.files.plain import listed
from privrl.files.sharing import Verdict, check_said, judge
from privrl.files.shown import shown
from privrl.mechanisms.choice import ExponentialMechanism
from privrl.mechanisms.tables import Rows, TablesMechanism
from privrl.models import saving
from privrl.models.bayes_net.choice import with_choices
from privrl.models.bayes_net.elimination import joint
from privrl.models.bayes_net.structure import Structure
from privrl.numerics.checks import check_count, check_is, check_numbers
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray

_FORMAT = "privrl.BayesNet 1"
_ENTRIES = (
    "format", "schema", "parents", "probabilities", "spent", "randomness", "shareable", "because",
)  # fmt: skip
_CHOICE = ("scale", "sensitivity")
_CHUNK = 2**22  # numbers at once while drawing
_ROUNDING = 1e-9  # by which a row of given probabilities may miss 1
_KEPT = {
    *("network", "variable", "probability", "property", "type", "discrete", "default", "table")
}
_PLAIN = re.compile(r"_(?!x)|[A-Za-z0-9]")


@dataclass(frozen=True, eq=False)
class BayesNet(MayBeChosen, InHtml, saving.Saved):
    """A Bayesian network: a structure, and a table of conditional probabilities for each node.

    Made by `PrivateBayesNet.fit`, or of tables that are known. It can be pickled.

    Parameters
    ----------
    parents : mapping from str to sequence of str
        For every node its parents.
    schema : Schema
        The domain of each node; other columns are left out.
    probabilities : mapping from str to array_like, shape (R, K)
        For every node a row for each configuration of its parents, in the order of counting with
        the last parent fastest, and in the row a probability for each cell.
    mechanism : TablesMechanism, optional
        What released the counts that the probabilities were made of, of the nodes' tables, or of
        all nodes alone and then of their tables; with a choice, of all nodes alone, and then of
        their tables, of pairs, and of all nodes alone again, or of some of these; None if they
        were not.
    randomness : str, optional
        The kind of generator, from `privrl.numerics.randomness.randomness_of`.
    choice : ExponentialMechanism, optional
        What chose the parents of all nodes but the first, and pairs; None if the parents are
        public.
    n_choices : int
        How many of its choices were paid for; 0 without one.

    Raises
    ------
    ValueError
        If the structure is none (`privrl.models.bayes_net.structure.Structure`), or a table is
        absent or holds something else than probabilities.
    """

    parents: Mapping[str, Sequence[str]]
    schema: Schema
    probabilities: Mapping[str, FloatArray] = field(repr=False)
    mechanism: TablesMechanism | None = None
    randomness: str | None = None
    choice: ExponentialMechanism | None = None
    n_choices: int = 0
    structure: Structure = field(init=False, repr=False)

    def __post_init__(self) -> None:
        structure = make_structure(self.parents, self.schema)
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "parents", structure.parents)
        object.__setattr__(self, "schema", self.schema.subset(structure.nodes))
        tables = _check_tables(self.probabilities, structure)
        object.__setattr__(self, "probabilities", MappingProxyType(tables))
        if self.choice is not None and (self.mechanism is None or len(self.nodes) < 2):
            raise ValueError("choice must be None where no tables were released, or of one node.")
        most = 0 if self.choice is None else len(self.nodes) + math.comb(len(self.nodes), 2)
        n_choices = check_count("n_choices", self.n_choices, least=min(1, most), most=most)
        object.__setattr__(self, "n_choices", n_choices)
        if self.mechanism is None:
            return
        n_tables = len(self.mechanism.shapes)
        if self.choice is not None and n_tables <= len(self.nodes):
            raise ValueError(
                "mechanism must release a table for each node and for each choice, got "
                f"{n_tables} tables for {len(self.nodes)} nodes."
            )
        if self.choice is None and self.mechanism.shapes != _released_shapes(structure, n_tables):
            raise ValueError("mechanism must release tables of the shapes of the structure's.")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes' names, in the order of the structure."""
        return self.structure.nodes

    @property
    def cost(self) -> Cost | None:
        """What the counts, and the choice of parents, cost; None for a network of given tables.

        Bins of `schema` that were released keep what that cost, beside it.
        """
        if self.mechanism is None or self.choice is None:
            return None if self.mechanism is None else self.mechanism.cost
        return with_choices(self.mechanism.cost, self.choice.cost, self.n_choices)

    def table(self, node: str) -> pd.DataFrame:
        """Return the table of a node: a row for each configuration of its parents, with labels."""
        self._check_nodes("node", [node])
        own = self.parents[node]
        rows = [self.schema.columns[parent].labels for parent in own]
        index = pd.MultiIndex.from_product(rows, names=list(own)) if own else None
        columns = pd.Index(self.schema.columns[node].labels, name=node)
        return pd.DataFrame(self.probabilities[node], index=index, columns=columns)

    def log_probabilities(self, frame: pd.DataFrame) -> FloatArray:
        """Return the log-probability of every record.

        Parameters
        ----------
        frame : pandas.DataFrame
            Records that fit the schema; other columns are ignored.

        Returns
        -------
        array, shape (n,)
            In nats; −inf for a record that the network holds impossible.

        Raises
        ------
        ValueError
            If a column is absent, or a value does not fit; the message does not show it.
        """
        codes = self._encode(frame)
        total = np.zeros(len(frame))
        with np.errstate(divide="ignore"):
            for node in self.nodes:
                row = self.structure.rows(node, codes)
                total += np.log(self.probabilities[node][row, codes[node]])
        return total

    def log_likelihood(self, frame: pd.DataFrame) -> float:
        """Return the mean log-probability of the records, in nats.

        It is exact: where the records are private, so is the number.

        Raises
        ------
        ValueError
            As `log_probabilities`, or without a record.
        """
        if len(frame) == 0:
            raise ValueError("frame must have at least one record for a mean, got none.")
        return float(self.log_probabilities(frame).mean())

    def sample(self, n: int, rng: Rng = None) -> pd.DataFrame:
        """Draw synthetic records: free, however many.

        Parameters
        ----------
        n : int
            How many, >= 0.
        rng : numpy.random.Generator, int or None
            Where the randomness comes from.

        Returns
        -------
        pandas.DataFrame, n rows
            The nodes in their order, with values as `Schema.decode` gives them: of a bin its
            middle.
        """
        check_count("n", n, least=0)
        rng = as_rng(rng)
        codes: dict[str, IntArray] = {}
        for node in self.structure.order:
            rows = self.structure.rows(node, codes) if self.parents[node] else np.zeros(n, np.int64)
            codes[node] = _draw_cells(self.probabilities[node], rows, rng)
        return self.schema.decode(np.stack([codes[node] for node in self.nodes], axis=1))

    def query(
        self, variables: str | Sequence[str], evidence: Mapping[str, Any] | None = None
    ) -> "pd.Series[float]":
        """Return the distribution of some nodes given the values of others, exactly.

        Parameters
        ----------
        variables : str or sequence of str
            Different nodes.
        evidence : mapping from str to value, optional
            For other nodes a value that a record could hold, or the label of a cell
            (`Categories.labels`, `Bins.labels`). A number means its bin.

        Returns
        -------
        pandas.Series
            Probabilities that sum to 1, indexed by the labels of the variables.

        Raises
        ------
        ValueError
            If a name or value is unknown, a node is asked for twice or both asked for and known,
            the evidence has probability zero, or the sums are too large for memory.
        """
        if not isinstance(variables, Iterable) or not isinstance(evidence, Mapping | None):
            raise ValueError(
                "variables must be names of nodes and evidence map names to values, got "
                f"{shown(variables)} and {shown(evidence)}."
            )
        names = [variables] if isinstance(variables, str) else list(variables)
        evidence = {} if evidence is None else evidence
        self._check_nodes("variables", names)
        self._check_nodes("evidence", evidence)
        known = [name for name in names if name in evidence]
        if not names or len(set(names)) < len(names) or known:
            raise ValueError(
                "variables must be at least one node, each once and none of the evidence, got "
                f"{listed(names)} with evidence of {listed(evidence)}."
            )
        cells = {name: _cell(name, self.schema.columns[name], evidence[name]) for name in evidence}
        weights = joint(self.structure, self.probabilities, names, cells)
        total = float(weights.sum())
        if not total > 0:
            facts = ", ".join(f"{name!r}: {shown(value)}" for name, value in evidence.items())
            raise ValueError(
                f"evidence must be possible, got {{{facts}}}, to which the network gives the "
                "probability zero."
            )
        labels = [self.schema.columns[name].labels for name in names]
        index = pd.MultiIndex.from_product(labels, names=names)
        if len(names) == 1:
            return pd.Series(
                weights / total, pd.Index(labels[0], name=names[0]), name="probability"
            )
        return pd.Series((weights / total).ravel(), index, name="probability")

    def to_bif(self) -> str:
        """Return the network in the Bayesian Interchange Format, names escaped reversibly."""
        labels = {node: self.schema.columns[node].labels for node in self.nodes}
        return to_bif(self.structure, labels, self.probabilities)

    def to_dict(self) -> dict[str, Any]:
        """Return the network as plain data.

        Raises
        ------
        ValueError
            If it was chosen among several.
        """
        check_file(self)
        return {
            "format": _FORMAT,
            "schema": self.schema.to_dict(),
            "parents": {node: list(parents) for node, parents in self.parents.items()},
            "probabilities": {node: self.probabilities[node].tolist() for node in self.nodes},
            "spent": self._plain_spent(),
            "randomness": self.randomness,
            **self._verdict.said,
        }

    def _plain_spent(self) -> dict[str, Any] | None:
        if self.mechanism is None:
            return None
        spent = saving.plain_spent(self.mechanism)
        if self.choice is not None:
            spent["choice"] = {key: getattr(self.choice, key) for key in _CHOICE}
            spent["n_choices"] = self.n_choices
            spent["shapes"] = [list(shape) for shape in self.mechanism.shapes]
        return spent

    @property
    def _verdict(self) -> Verdict:
        private = self.mechanism is not None and self.mechanism.mechanism != "none"
        return judge("model.json", private=private, randomness=self.randomness)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the network that plain data describe; see `Saved.from_dict`."""
        saving.check_entries("a network", data, _ENTRIES)
        saving.check_format(data, _FORMAT)
        schema = Schema.from_dict(data["schema"])
        structure = make_structure(data["parents"], schema)
        mechanism, choice, n_choices = None, None, 0
        if data["spent"] is not None:
            chosen = isinstance(data["spent"], Mapping) and "choice" in data["spent"]
            entries = (*saving.SPENT, "choice", "n_choices", "shapes") if chosen else saving.SPENT
            saving.check_entries("spent", data["spent"], entries)
            if chosen:
                saving.check_entries("choice", data["spent"]["choice"], _CHOICE)
                choice = ExponentialMechanism(**data["spent"]["choice"])
                n_choices = data["spent"]["n_choices"]
            sizes = data["spent"]["sizes"]
            shapes = _released_shapes(structure, len(sizes) if isinstance(sizes, list) else 0)
            if chosen:
                shapes = _read_shapes(data["spent"]["shapes"], len(structure.nodes))
            mechanism = saving.mechanism_of(data["spent"], shapes)
        said = saving.randomness_said(data)
        of_release = mechanism, said, choice, n_choices
        made = cls(data["parents"], schema, data["probabilities"], *of_release)
        check_said(data, made._verdict)
        return made

    def _encode(self, frame: pd.DataFrame) -> dict[str, IntArray]:
        codes = self.schema.encode(frame)
        return {node: codes[:, i] for i, node in enumerate(self.nodes)}

    def _check_nodes(self, argument: str, names: Sequence[str] | Mapping[str, Any]) -> None:
        unknown = [name for name in names if name not in self.parents]
        if unknown:
            raise ValueError(
                f"{argument} must name nodes, got {listed(unknown)}; the nodes are "
                f"{listed(self.nodes)}."
            )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # A read-only view of a dictionary cannot be pickled or copied.
        make = partial(
            type(self),
            dict(self.parents),
            self.schema,
            dict(self.probabilities),
            self.mechanism,
            self.randomness,
            self.choice,
            self.n_choices,
            _chosen_by=self._chosen_by,
            _trial=self._trial,
        )
        return make, ()


def make_structure(parents: Mapping[str, Sequence[str]], schema: Schema) -> Structure:
    """Return the structure over columns of a schema."""
    check_is("schema", schema, Schema)
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    return Structure(parents, sizes)  # type: ignore[arg-type] # makes tuples of what is given


def _read_shapes(data: Any, n_nodes: int) -> tuple[Rows, ...]:
    """Return the shapes of tables in plain data; `TablesMechanism` checks their numbers.

    Each node was counted alone once or twice, perhaps with its parents, and with some pairs.
    """
    pairs = isinstance(data, list) and all(isinstance(e, list) and len(e) == 2 for e in data)
    if not pairs:
        raise ValueError(f"shapes must be a list of pairs of numbers, got {shown(data)}.")
    least, most = n_nodes + 1, 3 * n_nodes + math.comb(n_nodes, 2)
    if not least <= len(data) <= most:
        raise ValueError(
            f"shapes must be of {least} to {most} tables for {n_nodes} nodes, got {len(data)}."
        )
    return tuple((rows, cells) for rows, cells in data)


def _released_shapes(structure: Structure, n_tables: int) -> tuple[Rows, ...]:
    """Return the shapes of the released tables: in two rounds, of all nodes alone first."""
    shapes = tuple(map(structure.shape, structure.nodes))
    alone = tuple((1, structure.sizes[node]) for node in structure.nodes)
    return alone + shapes if n_tables == 2 * len(shapes) else shapes


def _check_tables(tables: Mapping[str, Any], structure: Structure) -> dict[str, FloatArray]:
    """Return the probabilities of every node as arrays that cannot be written to."""
    saving.check_entries("probabilities", tables, structure.nodes)
    checked = {}
    for node in structure.nodes:
        try:
            table = check_numbers("table", tables[node])
        except ValueError:
            raise ValueError(f"probabilities of {shown(node)} must be rows of numbers.") from None
        if table.shape != structure.shape(node):
            raise ValueError(
                f"probabilities of {shown(node)} must have shape {structure.shape(node)}, a row "
                f"for each configuration of its parents, got {table.shape}."
            )
        if not (table >= 0).all() or not (abs(table.sum(axis=1) - 1) <= _ROUNDING).all():
            raise ValueError(
                f"probabilities of {shown(node)} must be >= 0 and sum to 1 within {_ROUNDING:g} in "
                "every row; normalise them."
            )
        table.setflags(write=False)
        checked[node] = table
    return checked


def _draw_cells(table: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw a cell for every record from its row of a table."""
    bounds = np.cumsum(table, axis=1)
    bounds = bounds[:, :-1] / bounds[:, -1:]  # what is left is the last cell's
    cells = np.empty(len(rows), np.int64)
    step = max(1, _CHUNK // table.shape[1])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        uniform = rng.random(len(some))
        cells[start : start + step] = (bounds[some] <= uniform[:, None]).sum(axis=1)
    return cells


def _cell(node: str, column: Column, value: Any) -> int:
    """Return the cell number that evidence names, by a value or by a label."""
    if isinstance(column, Categories):
        plain = value.item() if isinstance(value, np.generic) else value
        for cell, category in enumerate(column.values):
            if type(plain) is type(category) and plain == category:
                return cell
    elif not math.isnan(number_of(value)) or _is_missing(value):
        try:
            return int(column.encode([value])[0])
        except ValueError as error:
            raise ValueError(f"evidence of {shown(node)}: {error}") from None
    if isinstance(value, str) and value in column.labels:
        return column.labels.index(value)
    raise ValueError(
        f"evidence of {shown(node)} must be a value or label of its cells, got {shown(value)}; the "
        f"labels are {listed(column.labels)}."
    )


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def escape(text: str) -> str:
    """Return a word of BIF; no other text becomes the same."""
    if not text:
        return "_x_"
    characters = [
        character if _PLAIN.match(text, i) else _escaped(character)
        for i, character in enumerate(text)
    ]
    if text[0] in "0123456789" or text.lower() in _KEPT:
        characters[0] = _escaped(text[0])
    return "".join(characters)


def to_bif(
    structure: Structure,
    labels: Mapping[str, tuple[str, ...]],
    tables: Mapping[str, FloatArray],
) -> str:
    """Return a network as BIF.

    Parameters
    ----------
    structure : Structure
        Nodes and parents.
    labels : mapping from str to tuple of str
        A different text for each cell of each node.
    tables : mapping from str to array, shape (R, K)
        Each row's probabilities.

    Returns
    -------
    str
        Names and labels escaped; probabilities with all their digits.
    """
    words = {node: [escape(label) for label in labels[node]] for node in structure.nodes}
    parts = ["network unknown {\n}\n"]
    for node in structure.nodes:
        values = ", ".join(words[node])
        parts.append(
            f"variable {escape(node)} {{\n"
            f"  type discrete [ {structure.sizes[node]} ] {{ {values} }};\n}}\n"
        )
    for node, parents in structure.parents.items():
        rows = [", ".join(map(repr, row)) for row in tables[node].tolist()]
        if parents:
            given = " | " + ", ".join(map(escape, parents))
            configurations = product(*(words[parent] for parent in parents))
            heads = [f"({', '.join(configuration)})" for configuration in configurations]
        else:
            given, heads = "", ["table"]
        lines = "".join(f"  {head} {row};\n" for head, row in zip(heads, rows, strict=True))
        parts.append(f"probability ( {escape(node)}{given} ) {{\n{lines}}}\n")
    return "".join(parts)


def _escaped(character: str) -> str:
    return f"_x{ord(character):x}_"
