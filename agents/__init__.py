"""Agents that learn from private counts, on any finite environment."""
