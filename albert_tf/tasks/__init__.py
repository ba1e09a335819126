"""Kinds of tasks: rows, features, models, answers and metrics."""
