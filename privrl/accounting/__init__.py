"""What was spent, and what may be: targets, accountants, calibration.

`RdpAccountant` adds Rényi divergences up; `PldAccountant` convolves privacy loss distributions,
which is tighter (install ``privrl[pld]``). Both refuse what would exceed their budget, and keep a
`Journal` of what they were charged. `calibrate` finds the parameter with which a mechanism just
meets a target.
"""

from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.accounting.journal import Entry, Journal
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
    "BudgetExceeded",
    "Entry",
    "Journal",
    "PldAccountant",
    "PureDP",
    "RdpAccountant",
    "RenyiDP",
    "Target",
    "ZeroConcentratedDP",
    "calibrate",
    "target_of",
]
