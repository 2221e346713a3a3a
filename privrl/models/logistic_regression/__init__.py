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
3. Then gradients of all weights are released with noise, one after the other. A record has a 1 for
   each of its values, so nothing is clipped: the sensitivity of a gradient follows from the current
   weights, which are public by then (`privrl.models.logistic_regression.sensitivity`).
4. The tables already give a part of what the classes add to the gradients. The released gradient
   leaves out as much of it as minimises the noise of both together.
5. The weights are not regularised. Steps go farther than is safe if features carry little
   information, and the second half of them is averaged.
6. The start and some points on the way to that mean are candidates, computed from released numbers.
   One more release measures how well each predicts the records' classes, and chooses one
   (`privrl.models.logistic_regression.scores`).

If noise would decide that choice, steps 3 to 6 are left out, and the feature weights get their part
of the budget. If the noise would drown those as well, nothing is spent on them and the model is
naive Bayes. `PrivateClassifier` uses naive Bayes for a single feature.

If all features are ordered (`privrl.data.schema.Bins`) and cells have few records, slopes take the
place of steps 2 to 6, and nearly all of the budget: one number for each ordered feature and class,
learned from noisy gradients (`privrl.models.logistic_regression.slopes`). If cells have more, but
there are few records for each of their weights, slopes are learned as well, and one more release
chooses between them, naive Bayes and both together.

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
