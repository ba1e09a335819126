"""Predictions and what they are worth: official metrics, the files of benchmarks, ensembles. Without Keras."""
