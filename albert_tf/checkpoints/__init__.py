"""Files of models: readers, writers, addresses and conversions."""
