"""Bayesian networks with private parameters, and a structure that is public or chosen privately."""
