"""Public schemas: what the columns of a table may hold, stated before the data are seen.

A model that learns its categories or bins from private data leaks them. Here they are an argument:
each column is `Categories` or `Bins`, a `Schema` is an ordered set of columns, and encoding turns a
table into cell numbers. No error shows a value of the table, or a number of them.

What reading may depend on
--------------------------
Every entry is read by itself: no record decides how another one is read. Whether reading *stops*
depends on

1. public facts: the names and shape of a table, and the types of its columns. NumPy's arrays and
   pandas' columns are refused if their type cannot hold what the schema says (texts for
   categories that are numbers, numbers for texts, truth values for bins): in making such a
   column, one record may have decided what became of all. Lists, arrays of objects and CSV files
   have no such types.
2. single records, in two documented ways only: an entry without a cell, in a column with neither
   ``other=True`` nor ``missing=True``; and, in lists and files, a record whose number of entries is
   not that of the columns.

So where all columns have a cell for the rest, reading stops for no record. Otherwise, an analysis
that stops reveals that some record did not fit, and in which columns.
"""

from privrl.data.schema.columns import Bins, Categories, Column
from privrl.data.schema.documentation import read_documentation
from privrl.data.schema.headers import read_header
from privrl.data.schema.table import Schema
from privrl.data.schema.templates import write_template

__all__ = [
    "Bins",
    "Categories",
    "Column",
    "Schema",
    "read_documentation",
    "read_header",
    "write_template",
]
