"""Public schemas: what the columns of a table may hold, stated before the data are seen.

A model that learns its categories or bins from private data leaks them. Here they are an argument:
each column is `Categories` or `Bins`, a `Schema` is an ordered set of columns, and encoding turns a
table into cell numbers. No error shows a value of the table, or how many there are of one.
"""

from privrl.schema.columns import MISSING, OTHER, Bins, Categories, Column
from privrl.schema.table import Schema
from privrl.schema.templates import parse_bounds, read_header, template, write_template

__all__ = [
    "MISSING",
    "OTHER",
    "Bins",
    "Categories",
    "Column",
    "Schema",
    "parse_bounds",
    "read_header",
    "template",
    "write_template",
]
