"""Training runs, sweeps, and the files and pictures that they leave."""
