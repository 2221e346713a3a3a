"""The fresh noise in each sum of a stream: discrete Gaussians on a grid, drawn exactly.

Everything that a stream adds to its sums is a whole number of *grains*, a power of two. The fresh
noise in a sum is drawn exactly (`privrl.numerics.discrete_gaussian`). The rest is a mixture of
earlier noise, computed in floating point and rounded to whole grains.
Given the releases, a neighbour shifts the fresh noise by the shift of the mixture, to which
rounding adds at most `Factorisation.rounding`; the noise is larger by that amount, see the notes of
`privrl.samplers.NoisyCounts`.
"""

from typing import Final

import numpy as np

from privrl.numerics.discrete_gaussian import LARGEST_ON_GRID, gaussian_on_grid
from privrl.numerics.randomness import SECRET, VectorisedGenerator, randomness_of
from privrl.numerics.special import FloatArray
from privrl.numerics.typing import BoolArray
from privrl.samplers.base import GRID

FINENESS: Final = 2.0**-40
"""Grains are no larger than this, in deviations of the loudest fresh noise."""
#: No noise, nor any mixture of noises, is farther out than so many deviations, ever: discrete
#: Gaussians are subgaussian, and ``exp(−800)`` times all noise there could be is below all floats.
FARTHEST: Final = 40.0
#: Of the loudest fresh noise, but for the loops': where grains as wide as `GRID` end.
LARGEST_DEVIATION: Final = LARGEST_ON_GRID * GRID / 2


class Innovations:
    """The fresh noise of one stream.

    Parameters
    ----------
    deviation : array, shape runs
        Of noise of factor 1, in counts, for each run.
    loudest : float
        The largest factor there will be.
    shape : tuple of int
        Of the counts: leading axes are the runs.
    loops : array of bool, optional
        Shape of the last axes: where noise is √2 times as large.
    """

    def __init__(
        self,
        deviation: FloatArray,
        loudest: float,
        shape: tuple[int, ...],
        loops: BoolArray | None = None,
    ) -> None:
        self.shape, self._loops = shape, loops
        self._deviation, self._loudest = deviation, loudest
        # Powers of two, none wider than the grid of counts: counts are whole numbers of grains.
        # Of a stream that needs no noise, such as that of no users, all grains will do.
        exponent = np.floor(np.log2(deviation * (loudest or 1.0) * FINENESS))
        self.grain: FloatArray = np.minimum(2.0**exponent, GRID)
        sizes = np.ravel(deviation / self.grain)
        self._groups = [(size, np.flatnonzero(sizes == size)) for size in np.unique(sizes)]

    def draw(self, factors: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return fresh noise for n sums, shape (n, *shape), in whole grains.

        Parameters
        ----------
        factors : array, shape (n,)
            By which the noise of each sum is larger; 0 for none.
        rng : numpy.random.Generator
            Source of randomness; the rows of a vectorised generator are the runs.
        """
        if isinstance(rng, VectorisedGenerator):
            rows = [
                Innovations(own[None], self._loudest, (1, *self.shape[1:]), self._loops)
                for own in self._deviation
            ]
            fresh = [row.draw(factors, own) for row, own in zip(rows, rng.each, strict=True)]
            return np.concatenate(fresh, axis=1)
        cells = self.shape[self.grain.ndim :]
        if len(self._groups) == 1 and (factors == factors[0]).all():
            size = float(self._groups[0][0] * factors[0])
            return self._noise(size, (len(factors), *self.shape), rng)
        drawn = np.empty((len(factors), self.grain.size, *cells))
        for factor in np.unique(factors):
            sums = np.flatnonzero(factors == factor)
            for size, members in self._groups:
                drawn[np.ix_(sums, members)] = self._noise(
                    float(size * factor), (len(sums), len(members), *cells), rng
                )
        return drawn.reshape(len(factors), *self.shape)

    def _noise(self, size: float, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        if size == 0:
            return np.zeros(shape)
        noise = gaussian_on_grid(size, shape, rng)
        if self._loops is not None:
            louder = noise[..., self._loops]
            noise[..., self._loops] = gaussian_on_grid(size * _ROOT, louder.shape, rng)
        return noise


def draws_ahead(rng: np.random.Generator) -> bool:
    """Return whether a stream may draw the noise of later sums now, which is quicker.

    Not if it is secret: then a checkpoint holds no noise but that of sums that were released. Two
    runs resumed from one checkpoint draw independent noise for all later sums.
    """
    return randomness_of(rng) != SECRET


_ROOT: Final = float(np.nextafter(np.sqrt(2.0), 2))  # never below the root of 2
