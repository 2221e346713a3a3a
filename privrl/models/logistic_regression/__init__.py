"""Logistic regression whose prior is a private naive Bayes classifier.

Naive Bayes multiplies likelihood ratios as if features were independent. Logistic regression over
the same values, a weight for each value and class, finds what features add to each other, and is
the better model wherever there is enough data to learn it. `PrivateLogisticRegression` learns both
under one target:

1. A share of the budget releases naive Bayes' tables and temperature. The more records there are
   to a cell, by public facts, the smaller the share. Where features can tell little, more of it is
   for the counts of the classes, and a temperature that is not measured is lower than naive
   Bayes' typical one (`privrl.models.logistic_regression.plan`).
2. A weight for each feature is learned from noisy gradients: few numbers, which say how far each
   feature is to be believed. Steps end before their noise matters
   (`privrl.models.logistic_regression.scores`).
3. From there on, gradients of all weights are released with noise, one after the other. A record
   has a 1 for each of its values, so nothing is clipped: by how much one record can change a
   gradient follows from the weights, which are public by then
   (`privrl.models.logistic_regression.sensitivity`).
4. A part of what classes add to gradients is known from the tables already. As much of it is left
   out of what is released as makes the noise of both together least.
5. Nothing draws weights back. Steps lead farther than is safe where features tell little, and the
   second half of them is averaged.
6. Parts of the way from the start to that mean, and the start, are candidates, made of what was
   released. One more release, of how well each predicts the records' classes, says which is taken
   (`privrl.models.logistic_regression.scores`).

Where noise would decide what is taken, steps 3 to 6 are left out, and weights of features have
their part of the budget. Where those would drown too nothing is spent on them, and the model
is naive Bayes.
`PrivateClassifier` takes naive Bayes where there is a single feature.

The constants in this were chosen on public data sets, which docs/models.md names, and are the same
for all data.

The relation is `ReplaceRecord`: neighbours are data sets with equally many records, one of them
another. So the number of records is public, and so is the number of features. There is no other
relation here: shares, steps and what is known from tables rest on the number of records, which
is private where records come and go.

References
----------
R. Bassily, A. Smith and A. Thakurta. *Private empirical risk minimization* (2014). Noisy gradients.

J. Dong, A. Roth and W. Su. *Gaussian differential privacy* (2022). Adaptive Gaussian releases cost
together what one of the summed precision does.
"""
