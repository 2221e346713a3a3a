"""Bayesian counting models whose tables of counts are released privately, once.

Histograms (`histogram`, `value_counts`), classifiers (`PrivateNaiveBayes`,
`PrivateLogisticRegression` and, to choose between them, `PrivateClassifier`; install
``privrl[models]``) and Bayesian networks, whose structure is public or chosen privately
(`PrivateBayesNet`). What columns may hold is public and stated beforehand
(`privrl.data.Schema`); `discretise` finds bins privately.
"""

from typing import TYPE_CHECKING, Any

from privrl.models.bayes_net import BayesNet, PrivateBayesNet
from privrl.models.bins import discretise
from privrl.models.histograms import PrivateHistogram, histogram, value_counts
from privrl.models.partitions import PartitionedRecords, read_partitioned_records

if TYPE_CHECKING:
    from privrl.models.logistic_regression import PrivateClassifier, PrivateLogisticRegression
    from privrl.models.naive_bayes import PrivateNaiveBayes

__all__ = [
    "BayesNet",
    "PartitionedRecords",
    "PrivateBayesNet",
    "PrivateClassifier",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "PrivateNaiveBayes",
    "discretise",
    "histogram",
    "read_partitioned_records",
    "value_counts",
]


def __getattr__(name: str) -> Any:
    """Load scikit-learn, an extra, for the classifiers alone."""
    if name == "PrivateNaiveBayes":
        from privrl.models.naive_bayes import PrivateNaiveBayes  # noqa: PLC0415 -- an extra

        return PrivateNaiveBayes
    if name in ("PrivateClassifier", "PrivateLogisticRegression"):
        from privrl.models import logistic_regression  # noqa: PLC0415 -- an extra

        return getattr(logistic_regression, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
