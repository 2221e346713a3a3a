"""Discrete Bayesian networks with a public structure, their parameters released privately.

`PrivateBayesNet` says what is public: nodes and parents, what each column may hold, and what may be
spent. Its `fit` counts the records once for each node, releases all tables of counts together, and
makes a `BayesNet` of them, a network that holds nothing else of the data and may be shared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pandas as pd

from privrl._checks import check_positive, check_rng, shown
from privrl._plain import listed
from privrl._typing import FloatArray
from privrl.accounting.base import Accountant
from privrl.accounting.targets import ApproxDP, Rdp, Target
from privrl.data.schema import Schema
from privrl.mechanisms.tables import ReleasedTable, TablesMechanism
from privrl.models.bayes_net.backoff import family_probabilities
from privrl.models.bayes_net.network import BayesNet, make_structure
from privrl.models.bayes_net.structure import Structure
from privrl.models.estimates import clipped_rows
from privrl.numerics.randomness import randomness_of

BayesNetMechanism = Literal["auto", "dirichlet", "dkl", "gaussian", "laplace", "none"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateBayesNet:
    """How the parameters of a Bayesian network are to be released: public facts alone.

    Parameters
    ----------
    parents : mapping from str to sequence of str
        For every node its parents; ``()`` for none.
    schema : Schema
        What each node may hold; columns that are no nodes are ignored.
    target : Rdp or ApproxDP
        What all the tables together may spend, where one record is replaced by any other.
        None for ``mechanism="none"`` only.
    mechanism : {"auto", "dirichlet", "dkl", "gaussian", "laplace", "none"}
        ``"auto"`` adds Gaussian noise, or Laplace noise where that has the smaller variance, and
        estimates rows by `privrl.models.bayes_net.backoff`. The others are for comparison: one
        Dirichlet draw of each row, weight and prior as `privrl.accuracy.design` chooses or, with
        ``"dkl"``, by DKL's Algorithm 1; noisy counts, raised to the noise's standard deviation
        where they are less; or exact counts and 1 more in each cell, without any privacy.
    shares : mapping from str to float, optional
        Parts of the budget that the nodes get, > 0, in any unit. By default ``"auto"`` takes the
        fourth roots of the numbers of cells: between equal parts, best where noise drowns the
        large tables anyway, and square roots, with which the noise has the least variance in all.
        The others take equal parts, as DKL does; ``"dkl"`` knows no other.

    Raises
    ------
    ValueError
        If the structure is none (`privrl.models.bayes_net.structure.Structure`), the shares are not
        of the nodes, or the target or mechanism is unknown.

    References
    ----------
    D. Ponnoprat. *Dirichlet mechanism for differentially private KL divergence minimization*
    (DKL), section 5.2.
    """

    parents: Mapping[str, Sequence[str]]
    schema: Schema
    target: Target | None
    mechanism: BayesNetMechanism = "auto"
    shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", dict(self.structure.parents))
        object.__setattr__(self, "schema", self.schema.subset(self.structure.nodes))
        if self.mechanism not in get_args(BayesNetMechanism):
            raise ValueError(
                f"mechanism must be one of {listed(get_args(BayesNetMechanism))}, got "
                f"{self.mechanism!r}."
            )
        if not (isinstance(self.target, Rdp | ApproxDP) or self.mechanism == "none"):
            raise ValueError(
                f"target must be Rdp(...) or ApproxDP(...), got {shown(self.target)}; "
                "mechanism='none' has no privacy and needs none."
            )
        if self.shares is None:
            return
        if self.mechanism in ("dkl", "none"):
            raise ValueError(f"shares must be None for mechanism {self.mechanism!r}.")
        if not isinstance(self.shares, Mapping) or set(self.shares) != set(self.parents):
            got = listed(self.shares) if isinstance(self.shares, Mapping) else repr(self.shares)
            raise ValueError(f"shares must be of all nodes, {listed(self.parents)}, got {got}.")
        for node, share in self.shares.items():
            check_positive(f"shares[{node!r}]", share)

    @cached_property
    def structure(self) -> Structure:
        """The checked structure."""
        return make_structure(self.parents, self.schema)

    def fit(
        self, frame: pd.DataFrame, rng: np.random.Generator, *, accountant: Accountant | None = None
    ) -> BayesNet:
        """Count the records, release the counts, and return the network they give.

        Parameters
        ----------
        frame : pandas.DataFrame
            Records that fit the schema, at least one; other columns are ignored. Their number is
            public: a neighbour has as many.
        rng : numpy.random.Generator
            Where the randomness comes from.
        accountant : RdpAccountant or PldAccountant, optional
            Is charged before anything is drawn.

        Returns
        -------
        BayesNet
            Of the released counts alone.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the release; then nothing is drawn.
        ValueError
            If a value does not fit, or another argument is out of range; nothing is spent then,
            and the message shows no value of the data.
        """
        check_rng(rng)
        codes = self.schema.encode(frame)
        n_records = len(codes)
        if n_records == 0:
            raise ValueError("frame must have at least one record, got none.")
        mechanism = self._plan(n_records)
        counts = self.structure.counts(
            {node: codes[:, i] for i, node in enumerate(self.structure.nodes)}
        )
        released = mechanism.release(counts, rng, accountant=accountant)
        rows = self._estimate(released, n_records)
        return BayesNet(self.parents, self.schema, rows, mechanism, randomness_of(rng))

    def _plan(self, n_records: int) -> TablesMechanism:
        """Return what releases all tables, for the public number of records."""
        shapes = tuple(map(self.structure.shape, self.structure.nodes))
        if self.mechanism == "none":
            return TablesMechanism(shapes=shapes, mechanism="none")
        assert self.target is not None
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
            mechanism=self.mechanism,
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
