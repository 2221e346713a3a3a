"""The accountant of a data set: whatever it is charged with is in the ledger before it is drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privrl.accounting.journal import USUAL_DELTA, KeepsJournal, one_at_a_time
from privrl.accounting.rdp import RdpAccountant
from privrl.costs.base import Cost, check_delta
from privrl.costs.relations import Relation, check_relation
from privrl.ledger.amounts import Amount, amount_of
from privrl.ledger.budgets import Budget
from privrl.numerics.printing import up
from privrl.numerics.special import FloatArray

if TYPE_CHECKING:
    from privrl.ledger.ledger import Account, DataSet, Ledger, Receipt


class LedgerAccountant(KeepsJournal):
    """An accountant whose sums are of all processes and days; `Ledger.accountant` makes it.

    It goes wherever an ``accountant=`` is taken. Its `journal` is what was charged through it;
    `epsilon` is of all that was ever spent of the data set. Copies spend from the same budget.
    """

    def __init__(
        self,
        ledger: "Ledger",
        dataset: "DataSet",
        relation: Relation | None = None,
        *,
        delta: float | None = None,
        about: str | None = None,
    ) -> None:
        super().__init__()
        self._ledger, self._dataset = ledger, dataset
        self._relation = None if relation is None else check_relation(relation)
        self._about = about
        self._delta = None if delta is None else check_delta(delta)
        self._receipt: Receipt | None = None
        self._known: Amount | None = None  # what had been spent when this was charged last

    @property
    def relation(self) -> Relation | None:
        """The neighbouring relation of everything composed; None before the first cost."""
        return self._relation

    @property
    def settings(self) -> tuple[object, ...]:
        """Ledger and data set; its budget is in the ledger, and may change."""
        return self._ledger.identity, self._dataset.name, self._delta

    @property
    def budget(self) -> Budget | None:
        """What may be spent of the data set in all, now; None where nothing says."""
        if not self._ledger.is_there:
            return None
        budgets, name = self._ledger.budgets(), self._dataset.name
        own = None if self._relation is None else budgets.get((name, str(self._relation)))
        return budgets.get((name, None)) if own is None else own

    @property
    def receipt(self) -> "Receipt | None":
        """What was entered last through this accountant; None before the first cost."""
        return self._receipt

    def unlimited(self) -> RdpAccountant:
        """Return an accountant in memory, without charges or a budget, that enters nothing."""
        return RdpAccountant()

    @one_at_a_time
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Enter a cost ``count`` times, before anything that it pays for is drawn.

        Raises
        ------
        BudgetExceeded
            If the data set's budget does not cover all of them; then none is entered.
        LedgerError
            If they cannot be entered.
        ValueError
            If the cost is about another neighbouring relation than the earlier ones or of several
            runs, ``count`` is not a whole number of at least 1, or the data have another name.
        """
        if self._relation is not None and cost.relation != self._relation:
            raise ValueError(
                f"cost must be about the relation {str(self._relation)!r} like those before it, "
                f"got {str(cost.relation)!r}; use another accountant for it."
            )
        self._receipt = self._ledger.spend(
            self._dataset, cost, count, delta=self._delta, about=self._about
        )
        before, known = self._receipt.before, self._known
        if known is not None and not before.covers(known):  # the ledger has forgotten it
            before = known
        self._known = before + self._receipt.amount
        self._relation = cost.relation
        self._book.add(cost, count)

    @one_at_a_time
    def recall(self, cost: Cost) -> None:
        """Take note of a cost that was entered before, by a run that this one goes on from.

        Nothing is entered. Without it, this accountant would not know of a draw that is made once
        more, nor under which relation it was paid for.

        Raises
        ------
        LedgerError
            If the ledger cannot be read.
        """
        self._recharge([cost], [1])
        self._book.add(cost, 1)

    def _recharge(self, costs: Sequence[Cost], counts: Sequence[int]) -> None:
        orders = self._ledger.orders
        charged, known = Amount.nothing(orders), self._known
        for cost, count in zip(costs, counts, strict=True):  # in the ledger they are
            charged += amount_of(cost, count, orders, self._delta)
            self._relation = cost.relation
        account = self._account()
        total = Amount.nothing(orders) if account is None else account.total
        there = total.covers(charged) and (known is None or total.covers(known))
        self._known = total if there else Amount.unknown(orders)

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all that was spent of the data set, at ``delta`` in (0, 1).

        Under the accountant's relation; at the best order, so that it holds if the costs and the
        number of releases (not the data) were settled beforehand. Where outcomes chose them, the
        guarantee is the budget. What was entered through this
        accountant counts though the ledger forgets it; infinite where nobody knows it any more.
        """
        delta, account, known = check_delta(delta), self._account(), self._known
        totals = [] if account is None else [account.total]
        totals += [] if known is None else [known]
        return np.asarray(max((total.epsilon(delta) for total in totals), default=0.0))

    def _account(self) -> "Account | None":
        if self._relation is None or not self._ledger.is_there:
            return None
        return self._ledger.account(self._dataset.name, self._relation)

    def _spent_in_words(self) -> str:
        delta = USUAL_DELTA if self._delta is None else self._delta
        return f"epsilon {up(self.epsilon(delta))} at delta {delta:g} of {self._dataset.name}"
