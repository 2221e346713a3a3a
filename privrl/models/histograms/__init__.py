"""Private histograms: how records are spread over public bins or categories.

`histogram` and `value_counts` read like NumPy's and pandas' functions of these names, with one
difference: the bins, or the categories, are public and stated beforehand, for a model that reads
them off private data leaks them. Every cell is released, whether anybody is in it or not.

By default (``mechanism="auto"``) the mechanism is chosen that has the least expected loss for the
number of records and cells and the target: nothing of the data decides. What is released is noisy
counts, or a Dirichlet draw; what is returned are probabilities, made of nothing else.
"""

from privrl.models.histograms.choice import (
    HistogramMechanism,
    Name,
    choose_mechanism,
    mechanism_name,
)
from privrl.models.histograms.release import count_cells, histogram, value_counts
from privrl.models.histograms.result import PrivateHistogram

__all__ = [
    "HistogramMechanism",
    "Name",
    "PrivateHistogram",
    "choose_mechanism",
    "count_cells",
    "histogram",
    "mechanism_name",
    "value_counts",
]
