"""A memory of spends that outlives processes: what was released of which data, and what may be.

A `Ledger` is a file. Its accountants go wherever an ``accountant=`` is taken, and enter each charge
before anything is drawn, so that a process that is killed has entered too much rather than too
little. Totals add up over processes, threads and days, and budgets hold for all of them together.
"""

from privrl.ledger.accountant import LedgerAccountant
from privrl.ledger.amounts import Amount
from privrl.ledger.budgets import Budget
from privrl.ledger.file import LedgerError, default_path
from privrl.ledger.ledger import Account, DataSet, Ledger, Receipt

__all__ = [
    "Account",
    "Amount",
    "Budget",
    "DataSet",
    "Ledger",
    "LedgerAccountant",
    "LedgerError",
    "Receipt",
    "default_path",
]
