"""Naive Bayes classifiers whose tables of counts are released privately.

Naive Bayes needs counts only: of each class, and of each value of each feature with each class.
`PrivateNaiveBayes` counts the records once, releases all tables together under one target, and
predicts from the release. It keeps scikit-learn's conventions, with one difference: values and
classes are public arguments.

By default (``mechanism="auto"``) it does three things that a single draw or clipped noisy counts
do not. All of them depend on public facts (the number of records, the shapes of the tables, the
target) or on released numbers:

1. The tables get Gaussian noise, or Laplace noise where that has the smaller variance. Its sizes
   minimise the total variance of all cells.
2. Rows are shrunk together as far as the noise makes it likely, which is learned from all tables
   jointly (`privrl.models.estimates.tables`).
3. Naive Bayes multiplies likelihood ratios as if features were independent within a class. It is
   overconfident where they repeat each other, and too uncertain where they are independent of each
   other as a whole. Its sum of log-ratios is therefore multiplied by a temperature from 1/8 to 2. A
   twentieth of the budget measures it: the derivatives of the records' losses by the logarithm of
   the temperature are clipped, and summed with noise, at five temperatures. The temperature with
   the least loss is taken, shrunk towards a typical one in proportion to the noise, and lower the
   more numbers the tables have to a record. If noise would drown the measurement (few records,
   small epsilon), the typical temperature is used: 1 for up to ten features, and the root of ten
   over their number for more.

The constants (the twentieth, the temperatures, the clipping, the ten) were chosen on public and
generated data, listed in docs/models.md, and are the same for all data.

The relation is `ReplaceRecord`: neighbouring data sets have equally many records and differ in one.
The number of records is public, and so is the number of features.

References
----------
D. Ponnoprat. *Dirichlet mechanism for differentially private KL divergence minimization* (DKL),
section 5.1.

J. Vaidya, B. Shafiq, A. Basu and Y. Hong. *Differentially private naive Bayes classification*
(2013).

C. Guo, G. Pleiss, Y. Sun and K. Weinberger. *On calibration of modern neural networks* (2017).
Temperatures.
"""

import privrl.models.classifiers  # noqa: F401 - says what to install without scikit-learn
