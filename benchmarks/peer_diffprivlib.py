"""diffprivlib's naive Bayes and histogram, on the data of `synthetic`."""

from peers import Call, say_missing, serve

try:
    import diffprivlib
    import numpy as np
    import sklearn
    from diffprivlib import tools
    from diffprivlib.models import GaussianNB
    from synthetic import ADULT_SIZES, adult_like, ages
except ImportError as error:
    say_missing(error)

X, y = adult_like()
NUMBERS = X.astype(np.float64)
BOUNDS = np.zeros(len(ADULT_SIZES)), np.array(ADULT_SIZES) - 1.0
FITTED = GaussianNB(epsilon=1.0, bounds=BOUNDS).fit(NUMBERS, y)


def fit() -> Call:
    return lambda: GaussianNB(epsilon=1.0, bounds=BOUNDS).fit(NUMBERS, y)


def predict() -> Call:
    return lambda: FITTED.predict_proba(NUMBERS)


def histogram(n_values: int, bins: int) -> Call:
    values = ages(n_values)
    return lambda: tools.histogram(values, epsilon=1.0, bins=bins, range=(0.0, 100.0))


if __name__ == "__main__":
    versions = {
        "diffprivlib": diffprivlib.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
    }
    serve(versions, {"fit": fit, "predict": predict, "histogram": histogram})
