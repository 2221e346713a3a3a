"""Private histograms: how records are spread over public bins or categories.

`histogram` and `value_counts` read like NumPy's and pandas' functions of these names, with one
difference: the bins, or the categories, are public and stated beforehand, for a model that reads
them off private data leaks them. Every cell is released, whether anybody is in it or not.

By default (``mechanism="auto"``) the mechanism is chosen that has the least expected loss for the
number of records and cells and the target: nothing of the data decides. What is released is noisy
counts, or a Dirichlet draw; what is returned are probabilities, made of nothing else.
"""
