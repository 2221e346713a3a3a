"""A naive Bayes classifier whose tables of counts are released privately.

Naive Bayes needs counts alone: how often each class occurs, and for each feature how often each
value occurs with each class. `PrivateNaiveBayes` counts the records once, releases all tables
together under one target, and predicts from what was released. It keeps scikit-learn's promises,
with one difference: what values and classes there may be is public and stated beforehand.

By default (``mechanism="auto"``) three things are done that a single draw or clipped noisy counts
leave undone. All of them are settled by public facts (the number of records, the tables' shapes,
the target) or computed from what was released:

1. The tables get Gaussian noise, or Laplace noise where that has the smaller variance, of sizes
   with which the sum of all cells' variances is least.
2. Rows are shrunk together as far as the noise makes it likely, which is learned from all tables
   together (`privrl.models.estimates.tables`).
3. Naive Bayes multiplies likelihood ratios as if features were independent, and is far too sure of
   itself, with privacy and without. Its sum of log-ratios is therefore multiplied by a temperature
   from 1/8 to 1. A twentieth of the budget measures it: the records' derivatives of the loss, by
   the logarithm of the temperature, each clipped, are summed with noise at five temperatures. The
   temperature at which the loss is then least is taken, drawn towards a typical one the more the
   larger the noise. Where the noise would drown what is measured (few records, small epsilon)
   nothing is measured, and the temperature is the typical one: 1 for up to ten features, and with
   more of them, of which more are likely to say the same, the root of ten to their number.

The constants in this (the twentieth, the temperatures, where to clip, the ten) were chosen on
public and generated data, which docs/models.md lists, and are the same for all data.

The relation is `ReplaceRecord`: neighbours are data sets with equally many records, one of them
another. So the number of records is public, and so is the number of features.

References
----------
D. Ponnoprat. *Dirichlet mechanism for differentially private KL divergence minimization* (DKL),
section 5.1.

J. Vaidya, B. Shafiq, A. Basu and Y. Hong. *Differentially private naive Bayes classification*
(2013).

C. Guo, G. Pleiss, Y. Sun and K. Weinberger. *On calibration of modern neural networks* (2017).
Temperatures.
"""
