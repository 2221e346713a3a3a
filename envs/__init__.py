"""Finite environments: the mathematical object, and Gymnasium environments made from it."""
