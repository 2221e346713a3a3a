"""Bayesian counting models whose tables of counts are released privately, once.

Histograms (`histogram`, `value_counts`), a naive Bayes classifier (`PrivateNaiveBayes`; install
``privrl[models]``) and Bayesian networks of a public structure (`PrivateBayesNet`). What columns
may hold is public and stated beforehand (`privrl.data.Schema`); `discretise` finds bins privately.
"""

from typing import TYPE_CHECKING, Any

from privrl.models.bayes_net import BayesNet, PrivateBayesNet
from privrl.models.bins import discretise
from privrl.models.histograms import PrivateHistogram, histogram, value_counts

if TYPE_CHECKING:
    from privrl.models.naive_bayes import PrivateNaiveBayes

__all__ = [
    "BayesNet",
    "PrivateBayesNet",
    "PrivateHistogram",
    "PrivateNaiveBayes",
    "discretise",
    "histogram",
    "value_counts",
]


def __getattr__(name: str) -> Any:
    """Load scikit-learn, an extra, for the classifier alone."""
    if name == "PrivateNaiveBayes":
        from privrl.models.naive_bayes import PrivateNaiveBayes  # noqa: PLC0415 -- an extra

        return PrivateNaiveBayes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
