"""Samplers: a mechanism over time. New counts go in, a private posterior comes out.

`Diffuse` and `Concentrated` draw from a Dirichlet posterior at each update, and pay for each;
`NoisyCounts` pays once for a whole stream of running counts; `SparseCounts` is for large tables, of
which it releases only some cells; `NonPrivate` adds no noise. `draw` checks the counts, charges the
accountant and updates, in one call. Write your own sampler with
`privrl.samplers.base.PaidSampler`.
"""

from privrl.samplers.base import Sampler, draw
from privrl.samplers.dirichlet import Concentrated, Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate
from privrl.samplers.sparse_counts import SparseCounts

__all__ = [
    "Concentrated",
    "Diffuse",
    "NoisyCounts",
    "NonPrivate",
    "Sampler",
    "SparseCounts",
    "draw",
]
