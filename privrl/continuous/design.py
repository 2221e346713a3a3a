"""The constants of models of continuous states, and on what they were chosen.

None follows from data. Shares are parts of the budget. "Deviations" count standard deviations of
the noise.
"""

from dataclasses import dataclass
from typing import Final

from privrl.numerics.checks import check_between, check_count


@dataclass(frozen=True, kw_only=True)
class Design:
    """Choices of the fit. They do not depend on data.

    Tuned on Pendulum, MountainCar and CartPole with 3,000 and 10,000 persons, at epsilon .1, .3 and
    1, three seeds each; the shares of ``core``, ``ends`` and ``rewards`` later, by errors of
    predictions on CartPole and MountainCar with 10,000 persons, at epsilon .1 and 1, one or two
    seeds from 1000. `docs/continuous.md` judges them on other tasks as well.
    """

    scales: float = 0.05
    """Part of the budget for the sizes of changes."""
    starts: float = 0.02
    """Part for where episodes start."""
    core: float = 0.02
    """Part for where data are."""
    ends: float = 0.06
    """Part for where they terminate, if the log has that; what is left of it goes to the rounds."""
    rewards: float = 0.02
    """Part for the typical reward, if the log has rewards."""
    rounds: tuple[float, ...] = (0.27, 0.32, 0.41)
    """How the rest is divided among the rounds of moments."""
    root: float = 8.0
    """Sizes of changes are averaged as this root, so that all orders of magnitude are seen."""
    decay: float = 0.75
    """Factor of a weight's prior deviation for each degree of its feature."""
    weak: float = 0.25
    """Power of a direction's strength by which the prior variance of its weight falls."""
    steeper: tuple[float, ...] = (1.0, 0.6, 0.35)
    """Further factors for each degree, of which each target takes the likeliest."""
    spread: float = 1.0
    """Prior deviation of the binary logarithm by which a round's prior is rescaled."""
    power: float = 0.25
    """How far features are whitened between rounds: 0.5 would make them equally strong."""
    targets: float = 0.5
    """Norm of a row's targets over that of its features."""
    noise: float = 0.35
    """Largest noise of the Gram matrix, over its size, at which features of an order are used."""
    orders: tuple[int, ...] = (6, 4, 3, 2)
    """Orders of features that are tried."""
    most: int = 160
    """Most features."""

    def __post_init__(self) -> None:
        shares = (self.scales, self.starts, self.core, self.ends, self.rewards, *self.rounds)
        for share in shares:
            check_between("each share of the budget", share, 0, 1)
        if sum(shares[:5]) >= 1 or not self.rounds or sum(self.rounds) > 1 + 1e-12:
            raise ValueError(
                "shares of the budget must sum to 1 at most, and rounds have one or more."
            )
        if not self.orders:
            raise ValueError("orders must have one order at least.")
        for order in self.orders:
            check_count("each order", order, 2)
        check_count("most", self.most)


@dataclass(frozen=True)
class EndsDesign:
    """Where there are data, and where episodes terminate.

    Designed on Pendulum, MountainCar, CartPole and glucose with seeds from 1000.
    """

    bins: int = 24  # of a column
    fine: int = 12  # of an outer part of a column
    hazard: float = 0.05  # chance in each step to terminate that plans fear where nobody was
    sure: float = 3.0  # deviations above which something is there
    bound: float = 2.0  # the same for a bound, where episodes often terminate
    rare: float = 0.002  # of all visits, below which nobody was there
    wider: float = 0.35  # of the width in which somebody was, on either side: models reach further
    often: float = 2.5  # times as often as elsewhere: where episodes may terminate
    mostly: float = 0.6  # of the steps beyond a bound: how many more terminate than continue
    near: float = 0.3  # of the largest ratio of ends to visits
    floor: float = 0.02  # of visits, in that ratio
    explained: float = 0.85  # of ends by the bounds of larger parts: others are not needed


@dataclass(frozen=True)
class OnlineDesign:
    """The agent that learns a model while it acts.

    Chosen on MountainCar, Pendulum and CartPole with seed 0 at epsilon 1. `docs/results/online.md`
    judges them with other seeds, and on Acrobot.
    """

    bins: int = 24  # of each column, for where episodes terminate
    visits: float = 0.3  # part of a step's squared norm that counts where it leads
    loud: float = 100.0  # times as much counts the last step, where an episode contributes once
    sure: float = 2.0  # deviations above which a bin is taken to be visited
    orders: tuple[int, ...] = (6, 4, 3, 2)  # of features, that are tried
    most: int = 160  # features
    noise: float = 0.35  # largest noise of the Gram matrix, over its size
    used: int = 8  # of as many steps as episodes may have, one is expected
    root: float = 8.0  # sizes of changes are averaged as this root: all magnitudes are seen
    targets: float = 0.5  # norm of a row's targets over that of its features
    decay: float = 0.6  # of the prior deviation of a weight, for each degree of its feature
    prior: float = 0.15  # of the constant's weight, over the scale of the target
    map: float = 0.75  # of the first map of features, for each degree
    white: float = 0.25  # power by which features are whitened
    solid: float = 2.0  # contributions over noise and features, from which a plan is followed
    ratio: float = 1.8  # growth of the number of episodes from draw to draw
    first: int = 20  # the first draw comes after one episode in as many
    random: int = 3  # one episode in as many is random, in the first half
    repeats: float = 0.9  # chance that an action is repeated, in every second random episode
    discount: float = 0.99


DESIGN: Final = Design()
ENDS: Final = EndsDesign()
ONLINE: Final = OnlineDesign()
