"""pyagrum, an independent library of Bayesian networks, imported so that it survives.

Its extension warns while it is being loaded, and ends the process where warnings are errors.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pyagrum

__all__ = ["pyagrum"]
