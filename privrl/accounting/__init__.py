"""Privacy accounting: targets, accountants, calibration and the durable ledger.

`RdpAccountant` adds Rényi divergences up; `PldAccountant` convolves privacy loss distributions,
which is tighter (install ``privrl[pld]``). The accountants of a `Ledger` store each charge in a
file, so totals and budgets hold across processes and days. All of them refuse a charge that exceeds
the budget and keep a `Journal`. `calibrate` finds the parameter with which a mechanism just meets a
target.
"""

from privrl.accounting.base import Accountant
from privrl.accounting.budgets import Budget
from privrl.accounting.calibration import calibrate
from privrl.accounting.journal import Journal
from privrl.accounting.ledger import Ledger
from privrl.accounting.ledger_file import LedgerError
from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import (
    ApproxDP,
    PureDP,
    RenyiDP,
    Target,
    ZeroConcentratedDP,
    target_of,
)

__all__ = [
    "Accountant",
    "ApproxDP",
    "Budget",
    "BudgetExceeded",
    "Journal",
    "Ledger",
    "LedgerError",
    "PldAccountant",
    "PureDP",
    "RdpAccountant",
    "RenyiDP",
    "Target",
    "ZeroConcentratedDP",
    "calibrate",
    "target_of",
]
