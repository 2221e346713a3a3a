"""Priors that use the order of cells: Markov chains of levels.

Levels along a histogram are a Markov chain. From a cell to the next, the logarithm of the level
moves by a small step, or rarely jumps to an independent level. Many step sizes and jump rates are
weighted by their evidence; a chain that jumps at every cell ignores the order. Step sizes and jump
rates scale with the number of cells, so the number of cells of a column does not matter. Chains are
reversible: a mirrored histogram has the mirrored estimate.
"""

from dataclasses import dataclass

import numpy as np

from privrl.numerics.typing import FloatArray, IntArray


@dataclass(frozen=True)
class _Tuned:
    """Step sizes and jump rates of the chains.

    On which data they were chosen, `privrl.models.estimates.mixture` says.
    """

    # deviation of the log-level from one end to the other
    wandered: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    jumps: tuple[float, ...] = (0.3, 3.0, 20.0)  # from one end to the other
    most: float = 0.5  # chance of a jump
    rounds: int = 60  # until a chain has the law it should have
    never: float = 1e-5  # least share of a cell's memory that is lost from one to the next
    tiny: float = 1e-200


_TUNED = _Tuned()


@dataclass(frozen=True)
class Chains:
    """Chains of levels: one for each kernel and each chance of a jump.

    Attributes
    ----------
    law : array, shape (L,)
        How likely levels are in any cell by itself.
    kernels : array, shape (S, L, L)
        Chances of the levels of the next cell, without a jump.
    jumps : array, shape (S,)
        Chances of a jump.
    variances : array, shape (S,)
        Of all levels together.
    """

    law: FloatArray
    kernels: FloatArray
    jumps: FloatArray
    variances: FloatArray

    @classmethod
    def over(cls, levels: FloatArray, law: FloatArray, n_cells: int) -> "Chains":
        """Return all chains over cells whose levels have a law."""
        steps = np.array(_TUNED.wandered) / np.sqrt(n_cells)
        jumps = np.minimum(np.array(_TUNED.jumps) / n_cells, _TUNED.most)
        kernels = np.stack([_reversible(_steps(levels, step), law) for step in steps])
        variances = _variances(kernels, jumps, levels, law, n_cells)
        kernels = kernels.repeat(len(jumps), axis=0)
        return cls(law, kernels, np.tile(jumps, len(steps)), variances.ravel())

    def only(self, which: IntArray) -> "Chains":
        """Return some of them."""
        return Chains(self.law, self.kernels[which], self.jumps[which], self.variances[which])

    def log_evidence(self, log: FloatArray) -> FloatArray:
        """Return how likely each chain makes what was released, (S,), by likelihoods (K, L)."""
        largest = log.max(axis=1)
        likely = np.maximum(np.exp(log - largest[:, None]), _TUNED.tiny)
        found = self._run(likely[:, None], self.kernels, self.jumps)[1]
        return np.asarray(found + largest.sum())

    def posterior(self, log: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log-evidences (S,) and how likely levels are now, (S, K, L), by likelihoods alike.

        ``log`` has shape (S, K, L).
        """
        largest = log.max(axis=2)
        likely = np.maximum(np.exp(log - largest[..., None]), _TUNED.tiny).swapaxes(
            0, 1
        )  # (K, S, L)
        # What comes from the left, and what from the right: of a reversible chain, the same.
        both = np.concatenate([likely, likely[::-1]], axis=1)
        ahead, evidence = self._run(
            both, np.concatenate([self.kernels] * 2), np.concatenate([self.jumps] * 2)
        )
        n = len(self.jumps)
        found = ahead[:, :n] * ahead[::-1, n:] * likely / self.law
        found /= found.sum(axis=2, keepdims=True)
        return evidence[:n] + largest.sum(axis=1), found.swapaxes(0, 1)

    def _run(
        self, likely: FloatArray, kernels: FloatArray, jumps: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return how likely levels are before a cell is seen, (K, S, L), and log-evidences (S,)."""
        ahead = np.empty((len(likely), len(jumps), len(self.law)))
        seen = np.empty((len(likely), len(jumps)))
        stay, anew = 1 - jumps[:, None], jumps[:, None] * self.law
        now = np.broadcast_to(self.law, ahead.shape[1:])
        for cell, (each, before) in enumerate(zip(likely, ahead, strict=True)):
            before[:] = now
            now = now * each
            seen[cell] = total = now.sum(axis=1)
            now = stay * ((now / total[:, None])[:, None] @ kernels)[:, 0] + anew
        return ahead, np.log(seen).sum(axis=0)


def _steps(levels: FloatArray, deviation: float) -> FloatArray:
    """Return chances of steps of the log-level of that deviation: symmetric, shape (L, L)."""
    u = np.log(np.maximum(levels, levels[1] ** 2 / levels[2]))  # zero is as far as the next
    far = np.abs(u[:, None] - u)
    chances = np.exp(-np.sqrt(2) / deviation * far) * np.gradient(u)
    np.fill_diagonal(chances, 0.0)
    square = (chances * far**2).sum(axis=1) / deviation**2
    chances /= np.maximum(square, chances.sum(axis=1))[:, None]
    np.fill_diagonal(chances, np.maximum(1 - chances.sum(axis=1), 0))
    return np.asarray((chances + chances.T) / 2)


def _reversible(steps: FloatArray, law: FloatArray) -> FloatArray:
    """Return chances of the next level, of a chain with these steps, and with this law anywhere."""
    scale = np.sqrt(law)
    for _ in range(_TUNED.rounds):
        scale = np.sqrt(scale * law / (steps @ scale))
    both = scale[:, None] * steps * scale
    # What is not there yet: fewer steps, so that no level has more than its law.
    share = np.minimum(law / both.sum(axis=1), 1)
    both *= np.minimum(share[:, None], share)
    np.fill_diagonal(both, 0.0)
    np.fill_diagonal(both, np.maximum(law - both.sum(axis=1), 0))
    return both / law[:, None]


def _variances(
    kernels: FloatArray, jumps: FloatArray, levels: FloatArray, law: FloatArray, n_cells: int
) -> FloatArray:
    """Return the variance of all levels together, for every kernel and every jump, (S, J)."""
    root = np.sqrt(law)
    symmetric = root[:, None] * kernels / root
    memory, vectors = np.linalg.eigh((symmetric + symmetric.swapaxes(1, 2)) / 2)
    parts = (root * (levels - law @ levels) @ vectors) ** 2
    # A part is remembered by w to the power of k, k cells later; these are summed over all pairs.
    w = np.clip(memory[:, None] * (1 - jumps[:, None]), _TUNED.never - 1, 1 - _TUNED.never)
    later = w / (1 - w) - w * (1 - w**n_cells) / (n_cells * (1 - w) ** 2)
    return np.asarray(n_cells * (parts[:, None] * (1 + 2 * later)).sum(axis=2))
