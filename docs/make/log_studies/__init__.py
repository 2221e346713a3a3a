"""Logs of simulated persons, to measure the policies that are learned from them."""
