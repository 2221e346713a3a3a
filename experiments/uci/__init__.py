"""DKL's experiments on UCI data: naive Bayes and Bayesian networks, mechanism by mechanism."""
