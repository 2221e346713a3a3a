"""Histograms, classifiers and Bayesian networks with differential privacy.

`histogram` and `value_counts` release histograms. `PrivateNaiveBayes`,
`PrivateLogisticRegression` and `PrivateClassifier`, which chooses between the two, are
scikit-learn classifiers (``pip install "privrl[models]"``). `PrivateBayesNet` fits a Bayesian
network whose structure is public or chosen privately. `discretise` finds bins privately, and
`read_partitioned_records` reads a folder of Parquet files on a Dask cluster. The domain of each
column is public: it is an argument (`privrl.data.Schema`) and never read from the records.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bins import discretise
from privrl.models.histograms.release import histogram, value_counts
from privrl.models.partitions import read_partitioned_records

if TYPE_CHECKING:
    from privrl.models.logistic_regression.choice import PrivateClassifier
    from privrl.models.logistic_regression.classifier import PrivateLogisticRegression
    from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

__all__ = [
    "PrivateBayesNet",
    "PrivateClassifier",
    "PrivateLogisticRegression",
    "PrivateNaiveBayes",
    "discretise",
    "histogram",
    "read_partitioned_records",
    "value_counts",
]

_CLASSIFIERS = {
    "PrivateClassifier": "logistic_regression.choice",
    "PrivateLogisticRegression": "logistic_regression.classifier",
    "PrivateNaiveBayes": "naive_bayes.classifier",
}


def __getattr__(name: str) -> Any:
    """Import the classifiers, which need the extra scikit-learn, when they are first used."""
    if name not in _CLASSIFIERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_CLASSIFIERS[name]}"), name)
