"""Logistic regression whose prior is a private naive Bayes classifier.

Naive Bayes multiplies likelihood ratios as if features were independent. Logistic regression over
the same values, with a weight for each value and class, learns how features overlap. It is the
better model with enough data. `PrivateLogisticRegression` learns both under one target:

1. A share of the budget releases the tables and the temperature of naive Bayes. With more records
   per cell, by public facts, the share is smaller. If features carry little information, more of
   the share is for the counts of the classes, and a temperature that is not measured is lower than
   the typical one (`privrl.models.logistic_regression.plan`).
2. A weight for each feature is learned from noisy gradients. These are few numbers. The steps end
   before their noise matters (`privrl.models.logistic_regression.scores`).
3. Then gradients of all weights are released with noise, one after the other. Long residuals are
   shortened. The sensitivity of a gradient follows from their length and from the current weights,
   which are public by then (`privrl.models.logistic_regression.sensitivity`).
4. The weights are not regularised. Steps go farther than is safe if features carry little
   information, and the second half of them is averaged.
5. The start, and the way to that mean, are parts of the model. The last gradients learn a multiple
   of each, and an intercept (`privrl.models.logistic_regression.scores`).

If noise would decide these multiples, steps 3 to 5 are left out, and the feature weights get their
part of the budget. If the noise would drown those as well, nothing is spent on them and the model
is naive Bayes. `PrivateClassifier` uses naive Bayes for a single feature.

In step 3, weights of neighbouring bins (`privrl.data.schema.Bins`) move together. If all features
are bins and cells have few records, slopes take the place of steps 2 to 5, and nearly all of the
budget: one number for each feature and class, learned from noisy gradients
(`privrl.models.logistic_regression.slopes`). If cells have more, but noise is loud, slopes and
naive Bayes are the parts of the model.

The constants were chosen on public data sets, listed in docs/models.md, and are the same for all
data.

The relation is `ReplaceRecord`: neighbouring data sets have equally many records and differ in one.
The number of records is public, and so is the number of features. Other relations are not
supported, because shares, steps and the known part of gradients depend on the number of records.

References
----------
R. Bassily, A. Smith and A. Thakurta. *Private empirical risk minimization* (2014). Noisy gradients.

J. Dong, A. Roth and W. Su. *Gaussian differential privacy* (2022). Adaptive Gaussian releases cost
together as much as one of the summed precision.
"""

import privrl.models.classifiers  # noqa: F401 - says what to install without scikit-learn
