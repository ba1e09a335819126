"""Checkpoints of the formats that ALBERT lives in, read and written through one table of names."""
