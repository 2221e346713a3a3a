"""Training: one agent on one environment."""
