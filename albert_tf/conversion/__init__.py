"""`albert convert`: a model in one format is written in another, and both are compared."""
