"""Files and their contents: saving, sharing, plain data, tables for notebooks."""
