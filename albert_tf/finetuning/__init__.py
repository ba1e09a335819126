"""Fine-tuning: task models, the paper's recipes, official metrics, ensembles and submissions."""
