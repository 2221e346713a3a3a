"""What an episode is worth, as far as what was released tells, and how sure that is."""

from dataclasses import dataclass
from typing import Final

from privrl.files.html import InHtml

CHOSEN: Final = 2.0  # times as far below, where it is the largest of many noisy values
DEVIATIONS: Final = 2.2  # on each side of 95 in 100, of normal laws and of Laplace's


@dataclass(frozen=True)
class Estimate(InHtml):
    """What an episode earns in the mean, from what was released: nothing more leaves.

    Attributes
    ----------
    value : float
        Of an episode.
    lower, upper : float
        Meant to have it between them in 95 of 100 logs: normal, of noise and of who was logged, to
        first order. ``docs/results/logs.md`` says in how many they have, of simulated ones: in
        fewer where a policy is planned for noisy counts, as what noise hides counts as paying
        nothing.
    """

    value: float
    lower: float
    upper: float


def estimate(value: float, below: float, above: float, possible: tuple[float, float]) -> Estimate:
    """Return an estimate with its bounds, within what is possible.

    ``below`` and ``above`` are how far it may be off.
    """
    low, high = possible
    bounds = value - below, value, value + above
    lower, inside, upper = (float(min(max(each, low), high)) for each in bounds)
    return Estimate(inside, lower, upper)
