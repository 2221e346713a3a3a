"""Discrete Bayesian networks: private parameters, with a public or a privately chosen structure.

`PrivateBayesNet` holds the public facts: nodes, parents if they are known, the domain of each
column, and the target. Its `fit` counts the records once for each node, releases all tables of
counts together, and makes a `BayesNet` of them. The network holds nothing else of the data and may
be shared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, get_args

import numpy as np
import pandas as pd

from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import Target
from privrl.costs.noise import GaussianCost
from privrl.data.schema import Schema
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.mechanisms.tables import ReleasedTable, TablesMechanism
from privrl.models.bayes_net.backoff import family_probabilities
from privrl.models.bayes_net.budget import first_precisions, precisions_of, second_round
from privrl.models.bayes_net.choice import Plan, Scores, choose_parents, with_choices
from privrl.models.bayes_net.choice import plan as plan_choices
from privrl.models.bayes_net.network import BayesNet, make_structure
from privrl.models.bayes_net.pairs import PAIR_OF_COLUMN, PAIR_OF_FAMILY, gaussian, with_pairs
from privrl.models.bayes_net.structure import Structure
from privrl.models.estimates.tables import clipped_rows
from privrl.models.others import warn_of_others
from privrl.models.partitions import PartitionedRecords
from privrl.models.released import check_bins, randomness_of_model
from privrl.models.targets import given_target, mechanism_for, not_pure
from privrl.numerics.checks import check_among, check_positive
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray

_ROUNDING = 1e-13  # of the budget, kept back for that of a sum of precisions

_Counter = Callable[[Structure], Sequence[FloatArray]]  # of the records, which it holds
BayesNetMechanism = Literal["auto", "dirichlet", "dkl", "gaussian", "laplace", "none"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateBayesNet:
    """The public facts of a private Bayesian network.

    Parameters
    ----------
    parents : mapping from str to sequence of str, or "private"
        For every node its parents; ``()`` for none. They are taken as public: do not look them up
        in the data. ``"private"`` has at most a fifth of the budget choose them, for all columns of
        the schema, by `privrl.models.bayes_net.choice`, and pairs of columns to be counted besides,
        or alone, by `privrl.models.bayes_net.pairs`. With too few records for this budget, or if
        the tables are within chance of independence, the network has no edges.
    schema : Schema
        The domain of each node; other columns are ignored.
    target : RenyiDP, ApproxDP, PureDP or ZeroConcentratedDP
        The privacy target of all tables together, where one record is replaced by any other.
        None for ``mechanism="none"`` only.
    epsilon, delta : float, optional
        A short form of the target, as for `PrivateNaiveBayes`; it becomes ``target``.
    mechanism : {"auto", "dirichlet", "dkl", "gaussian", "laplace", "none"}
        ``"auto"`` adds Gaussian noise, or Laplace noise where that has the smaller variance, and
        estimates rows by `privrl.models.bayes_net.backoff`. Gaussian noise comes in two rounds: the
        nodes are counted one by one, and then with those parents of which
        `privrl.models.bayes_net.budget` expects some information; the others are dropped. The
        others are for comparison: one Dirichlet draw of each row, weight and prior as
        `privrl.mechanisms.design` chooses or, with ``"dkl"``, by DKL's Algorithm 1; noisy counts,
        raised to the noise's standard deviation where they are less; or exact counts and 1 more in
        each cell, without any privacy.
    shares : mapping from str to float, optional
        Parts of the budget that the nodes get, > 0, in any unit, in a single round and with all
        parents. By default ``"auto"`` takes, where the noise is Laplace's, the fourth roots of the
        numbers of cells: between equal parts, best where noise drowns the large tables anyway, and
        square roots, with which the noise has the least variance in all. The others take equal
        parts, as DKL does; ``"dkl"`` knows no other.

    Raises
    ------
    ValueError
        If the structure is none (`privrl.models.bayes_net.structure.Structure`), the shares are not
        of the nodes, or the target or mechanism is unknown; or parents are to be chosen for
        another mechanism than ``"auto"``, or with shares.

    References
    ----------
    D. Ponnoprat. *Dirichlet mechanism for differentially private KL divergence minimization*
    (DKL), section 5.2.
    """

    parents: Mapping[str, Sequence[str]] | Literal["private"]
    schema: Schema
    target: Target | None = None
    epsilon: float | None = None
    delta: float | None = None
    mechanism: BayesNetMechanism = "auto"
    shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        structure = self.structure  # checks parents and schema
        if not self._is_chosen:
            object.__setattr__(self, "parents", dict(structure.parents))
        object.__setattr__(self, "schema", self.schema.subset(structure.nodes))
        check_among("mechanism", self.mechanism, get_args(BayesNetMechanism))
        if self.mechanism != "none":
            otherwise = "; mechanism='none' has no privacy and needs none"
            target = given_target(self.target, self.epsilon, self.delta, otherwise)
            if self._is_chosen:
                not_pure(target, "the choice of parents")
            for name, value in {"target": target, "epsilon": None, "delta": None}.items():
                object.__setattr__(self, name, value)
        if self._is_chosen and (self.mechanism != "auto" or self.shares is not None):
            raise ValueError(
                "parents='private' must come with mechanism='auto' and without shares, got "
                f"mechanism={shown(self.mechanism)}; give the parents to compare mechanisms."
            )
        if self.shares is None:
            return
        if self.mechanism in ("dkl", "none"):
            raise ValueError(f"shares must be None for mechanism {shown(self.mechanism)}.")
        if not isinstance(self.shares, Mapping) or set(self.shares) != set(self.structure.nodes):
            got = listed(self.shares) if isinstance(self.shares, Mapping) else shown(self.shares)
            raise ValueError(
                f"shares must be of all nodes, {listed(self.structure.nodes)}, got {got}."
            )
        object.__setattr__(self, "shares", dict(self.shares))
        for node, share in self.shares.items():
            check_positive(f"shares[{node!r}]", share)

    @property
    def _is_chosen(self) -> bool:
        return isinstance(self.parents, str) and self.parents == "private"

    @cached_property
    def structure(self) -> Structure:
        """The checked structure; where it is to be chosen, the nodes without edges."""
        if not isinstance(self.parents, str):
            return make_structure(self.parents, self.schema)
        if not self._is_chosen:
            raise ValueError(
                "parents must be 'private', for a part of the budget to choose them, or map each "
                f"node to its parents, got {shown(self.parents)}."
            )
        names = self.schema.names if isinstance(self.schema, Schema) else ()
        return make_structure(dict.fromkeys(names, ()), self.schema)

    def fit(
        self,
        frame: pd.DataFrame | PartitionedRecords,
        rng: Rng = None,
        *,
        accountant: Accountant | None = None,
    ) -> BayesNet:
        """Count the records, release the counts, and return the network they give.

        Parameters
        ----------
        frame : pandas.DataFrame or PartitionedRecords
            Records that fit the schema, at least one; other columns are ignored. Their number is
            public: a neighbour has as many.
        rng : numpy.random.Generator, int or None
            Where the randomness comes from.
        accountant : RdpAccountant or PldAccountant, optional
            Is charged before anything is drawn.

        Returns
        -------
        BayesNet
            Made of the release alone; ``parents`` lists the kept edges, or those of the network
        that was fitted to the chosen tables.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the release; then nothing is drawn.
        ValueError
            If a value does not fit, or another argument is out of range; nothing is spent then,
            and the message shows no value of the data.
        """
        rng = as_rng(rng)
        count: _Counter
        if isinstance(frame, PartitionedRecords):
            if self._is_chosen:
                raise ValueError("parents must be given for records on a cluster, got 'private'.")
            records = frame.of(self.schema)
            cells: dict[str, IntArray] = {}
            n_records, count = records.n_records, partial(records.summed, _counts)
        else:
            codes = self.schema.encode(frame)
            cells = {node: codes[:, i] for i, node in enumerate(self.structure.nodes)}
            n_records, count = len(codes), partial(_counts, codes)
        if n_records == 0:
            raise ValueError("frame must have at least one record, got none.")
        plan = self._plan(n_records)
        check_bins(self.schema, accountant)
        if self._in_two_rounds(plan):
            assert isinstance(plan.cost, GaussianCost)
            return self._fit_in_two_rounds(
                plan.cost, None, count, n_records, rng=rng, accountant=accountant
            )
        if self._is_chosen:
            assert self.target is not None
            choices = plan_choices(self.target, self.structure.sizes.values(), n_records)
            if choices.choice is not None:
                cost = GaussianCost(sigma=choices.sigma, relation=plan.relation)
                return self._fit_in_two_rounds(
                    cost,
                    (choices, cells),
                    count,
                    n_records,
                    rng=rng,
                    accountant=accountant,
                )
        counts = count(self.structure)

        def learn(rng: np.random.Generator) -> BayesNet:
            released = plan.release(counts, rng)
            self._warn(released)
            rows = self._estimate(released, n_records)
            said = randomness_of_model(rng, self.schema)
            return BayesNet(self.structure.parents, self.schema, rows, plan, said)

        return Release(accountant, plan.cost, learn, rng).make()

    def _in_two_rounds(self, plan: TablesMechanism) -> bool:
        """Whether nodes are counted alone first: decided by public facts."""
        by_default = self.mechanism == "auto" and self.shares is None
        return by_default and plan.mechanism == "gaussian" and any(self.structure.parents.values())

    def _fit_in_two_rounds(
        self,
        tables: GaussianCost,
        chosen: tuple[Plan, Mapping[str, IntArray]] | None,
        count: _Counter,
        n_records: int,
        *,
        rng: np.random.Generator,
        accountant: Accountant | None,
    ) -> BayesNet:
        """Count each node alone, choose edges from the release, and count with those.

        Both rounds together cost what the tables do, whatever the first releases: one record
        changes two counts of each table, and the precisions of all tables have one fixed sum. Edges
        are chosen, with one choice for each node but one and for each pair, or some of those given
        are dropped. If pairs alone are chosen, the second round counts only those. Where pairs end
        early, columns get their precision (`privrl.models.bayes_net.pairs`).
        """
        n_nodes = len(self.structure.nodes)
        (_, choice, n_parents, n_rounds), cells = chosen or (Plan(tables.sigma, None, 0, 0), {})
        n_choices = n_parents + n_rounds
        paid = tables if choice is None else with_choices(tables, choice.cost, n_choices)
        precision = tables.sigma**-2 * (1 - _ROUNDING)
        alone = Structure(dict.fromkeys(self.structure.nodes, ()), self.structure.sizes)
        is_one_round = choice is not None and not n_parents
        units = n_rounds * (PAIR_OF_FAMILY if n_parents else PAIR_OF_COLUMN)
        part = units / (units + n_nodes)
        if is_one_round:
            known = precisions_of(alone, (1 - part) * precision)
            for_pairs = part * precision
        else:
            known = first_precisions(
                self.structure, n_records, precision, chosen=choice is not None
            )
            for_pairs = part * (precision - float(known.sum()))
        sigmas = [(n_rounds / for_pairs) ** 0.5] * n_rounds if n_rounds else []
        first = gaussian(alone, known)
        counts = count(alone)

        def learn(rng: np.random.Generator) -> BayesNet:
            margins = first.release(counts, rng)
            rows = probabilities = family_probabilities(alone, margins, n_records)
            of = {node: probabilities[node][0] for node in alone.nodes}
            structure, released, each = alone, margins, [first]
            if not is_one_round:
                rest = precision - float(known.sum())
                if choice is None:
                    structure, precisions = second_round(
                        self.structure, list(of.values()), known, n_records, rest
                    )
                else:
                    rest -= for_pairs
                    scores = Scores(alone.sizes, of, cells, rest / n_nodes)
                    structure = Structure(choose_parents(scores, choice, rng), alone.sizes)
                    precisions = precisions_of(structure, rest)
                second = gaussian(structure, precisions)
                released = second.release(count(structure), rng)
                rows = family_probabilities(structure, released, n_records, margins)
                each.append(second)
            self._warn(released)
            parents = structure.parents
            if choice is not None:
                of_nodes = [((node,), table) for node, table in zip(of, margins, strict=True)]
                of_families = [
                    ((*own, node), table)
                    for (node, own), table in zip(parents.items(), released, strict=True)
                    if not is_one_round
                ]
                rows, parents, of_pairs = with_pairs(
                    structure,
                    rows,
                    of_nodes + of_families,
                    cells,
                    choice=choice,
                    sigmas=sigmas,
                    rng=rng,
                )
                each += of_pairs
            whole = replace(
                first,
                shapes=tuple(shape for one in each for shape in one.shapes),
                sizes=tuple(size for one in each for size in one.sizes),
            )
            said = randomness_of_model(rng, self.schema)
            return BayesNet(parents, self.schema, rows, whole, said, choice, n_choices)

        return Release(accountant, paid, learn, rng).make()

    def _warn(self, released: Sequence[ReleasedTable]) -> None:
        for node, table in zip(self.structure.nodes, released, strict=True):
            warn_of_others(node, self.schema.columns[node], table.values, table.deviation)

    def _plan(self, n_records: int) -> TablesMechanism:
        """Return the mechanism of all tables, for the public number of records."""
        shapes = tuple(map(self.structure.shape, self.structure.nodes))
        if self.mechanism == "none":
            return TablesMechanism(shapes=shapes, mechanism="none")
        assert self.target is not None
        noise = mechanism_for(self.target, self.mechanism)
        if self.mechanism == "dkl":
            return TablesMechanism.algorithm_1(self.target, shapes=shapes)
        shares = None
        if self.shares is not None:
            shares = [self.shares[node] for node in self.structure.nodes]
        elif self.mechanism == "auto":
            shares = [(rows * cells) ** 0.25 for rows, cells in shapes]
        return TablesMechanism.calibrated(
            self.target,
            shapes=shapes,
            n_records=n_records,
            mechanism=noise,
            shares=shares,
        )

    def _estimate(
        self, released: Sequence[ReleasedTable], n_records: int
    ) -> Mapping[str, FloatArray]:
        """Return the probabilities that released tables give."""
        if self.mechanism == "auto":
            return family_probabilities(self.structure, released, n_records)
        if self.mechanism == "none":
            released = [ReleasedTable(table.values + 1, "none", 0.0) for table in released]
        return dict(zip(self.structure.nodes, map(clipped_rows, released), strict=True))


def _counts(codes: IntArray, structure: Structure) -> Sequence[FloatArray]:
    """Return the tables of counts of a structure, whose nodes are the columns of the cells."""
    return structure.counts({node: codes[:, i] for i, node in enumerate(structure.nodes)})
