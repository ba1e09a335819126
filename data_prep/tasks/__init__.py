"""Downstream tasks: their files, their examples, and the examples as arrays."""
