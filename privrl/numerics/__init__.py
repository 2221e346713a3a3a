"""Numbers that costs are made of: special functions, grids, rounding, exact discrete noise."""
