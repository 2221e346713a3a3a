"""Probabilities from what was released: post-processing, which is free.

`rows` is for a table of several rows, which it draws together as far as they are alike; `tables`
for several tables with the same rows, which tell of each other how far that is; `mixture`
for a single row, a histogram, whatever it looks like; `frequencies` for one if all are equally
likely, which tells a release's loss beforehand.
"""
