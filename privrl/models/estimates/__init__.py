"""Probabilities from released tables: post-processing, which is free.

`tables` estimates tables of several rows, which it shrinks together, and several tables with the
same rows. `mixture` estimates a single row, a histogram of unknown shape. `frequencies` does so if
all histograms are equally likely, which gives the expected loss of a release beforehand.
"""
