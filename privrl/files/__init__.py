"""Files and what is written into them: saving, sharing, plain data, tables for notebooks."""
