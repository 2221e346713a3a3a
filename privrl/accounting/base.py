"""What every accountant is: told of a cost before anything is drawn, it records or refuses it."""

from typing import Protocol

from privrl.accounting.journal import Journal
from privrl.costs.base import Cost
from privrl.numerics.special import FloatArray


class Accountant(Protocol):
    """What adds costs up, converts their sum to epsilon, and keeps a journal of them."""

    @property
    def journal(self) -> Journal:
        """What was charged so far, in order."""

    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost so many times, or refuse it; then nothing is recorded.

        Threads may share an accountant: to check and to record is one step, whoever else charges.

        Raises
        ------
        BudgetExceeded
            If there is a budget that does not cover it.
        """

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all that was recorded, at ``delta`` in (0, 1)."""
