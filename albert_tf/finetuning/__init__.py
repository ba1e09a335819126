"""Fine-tuning: task models and their heads, the paper's recipes, the training of a run."""
