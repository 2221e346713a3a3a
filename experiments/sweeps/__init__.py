"""Sweeps: reward against privacy budget, for many methods, budgets and runs."""
