"""Evaluation without Keras: official metrics, files of predictions, ensembles."""
