"""Bayesian networks, of a public structure or one chosen privately, with released parameters."""
