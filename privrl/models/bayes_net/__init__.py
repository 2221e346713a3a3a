"""Bayesian networks, of a public structure or one chosen privately, with released parameters."""

from privrl.models.bayes_net.fit import BayesNetMechanism, PrivateBayesNet
from privrl.models.bayes_net.network import BayesNet

__all__ = ["BayesNet", "BayesNetMechanism", "PrivateBayesNet"]
