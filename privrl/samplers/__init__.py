"""Samplers: a mechanism over time. New counts go in, a private posterior comes out.

`Diffuse` and `Concentrated` draw from a Dirichlet posterior at every update, and pay for each;
`NoisyCounts` pays once for a whole stream of running counts; `NonPrivate` makes no claim. `draw`
checks the counts, charges the accountant and updates, in one call; `stack` puts samplers side by
side.
"""

from privrl.samplers.base import Sampler, draw
from privrl.samplers.dirichlet import Concentrated, Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

__all__ = [
    "Concentrated",
    "Diffuse",
    "NoisyCounts",
    "NonPrivate",
    "Sampler",
    "draw",
]
