"""Policies and models from logs of persons (offline reinforcement learning)."""
