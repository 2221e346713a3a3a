"""Private histograms of public bins or categories.

`histogram` and `value_counts` resemble NumPy's and pandas' functions of these names. One thing
differs: the bins or categories are public arguments, because reading them from private data leaks
the data. All cells are released, empty or not.

By default (``mechanism="auto"``) the mechanism with the least expected loss is chosen, from the
number of records and cells and the target. The release is noisy counts, or a Dirichlet draw. The
returned probabilities are computed from the release alone.
"""
