"""Tables of people's data: public schemas, and readers that go by them.

A `Schema` lists the values that each column may hold, and is never read from the data.
`privrl.data.datasets` has real data sets with theirs.
"""

from privrl.data.schema import Bins, Categories, Schema

__all__ = ["Bins", "Categories", "Schema"]
