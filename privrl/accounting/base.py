"""The protocol of accountants: each records or refuses a cost before anything is drawn."""

from typing import Protocol

from privrl.accounting.journal import Journal
from privrl.costs.base import Cost
from privrl.numerics.special import FloatArray


class Accountant(Protocol):
    """Adds costs up, converts their sum to epsilon, and keeps a journal of them."""

    @property
    def journal(self) -> Journal:
        """The charges so far, in order."""

    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost ``count`` times, or refuse it and record nothing.

        Threads may share an accountant: checking and recording are one atomic step.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover the cost.
        """

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all recorded costs, at ``delta`` in (0, 1)."""
