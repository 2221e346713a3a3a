"""A warning where scikit-learn fits copies of a private model: each fit is a release that costs.

A grid search and cross-validation clone an estimator for every candidate and every fold, and fit
each clone. A clone knows that it is one (`__sklearn_clone__` is how scikit-learn asks for it), in
other processes too.
"""

import warnings
from typing import Any

from sklearn.base import BaseEstimator  # type: ignore[import-untyped] # has no types

from privrl.accounting.base import Accountant


class Copied(BaseEstimator):  # type: ignore[misc] # of no types
    """An estimator that warns when a clone of it is fitted and no accountant is charged."""

    _is_clone = False

    def __sklearn_clone__(self) -> Any:
        """Return what `sklearn.base.clone` returns: a copy that is not fitted, and is marked."""
        clone = super().__sklearn_clone__()
        clone._is_clone = True
        return clone

    def warn_of_clones(self, accountant: Accountant | None) -> None:
        """Warn of the cost if this is a clone, unless an accountant adds it up."""
        if self._is_clone and accountant is None:
            warnings.warn(
                "a clone of a private model is fitted, as searches and cross-validation do many "
                "times: each fit is a release of its own and costs the whole target again, and the "
                "costs add up. Pass fit an accountant, or fit once and set what is free "
                "afterwards, as PrivateNaiveBayes.with_temperature does.",
                UserWarning,
                stacklevel=3,
            )
