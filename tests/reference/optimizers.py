"""LAMB and AdamW in plain NumPy, float64, as lamb_optimizer.py and optimization.py define them."""

import numpy as np


class ReferenceOptimizer:
    """Holds weights, moments and step count; `step` applies one set of gradients in place."""

    def __init__(self, weights, learning_rates, *, trust_ratio, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
        self.weights = {name: np.asarray(array, np.float64).copy() for name, array in weights.items()}
        self.m = {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.v = {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.learning_rates = learning_rates
        self.trust_ratio = trust_ratio
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.steps = 0

    def step(self, gradients):
        learning_rate = self.learning_rates(self.steps)
        for name, weight in self.weights.items():
            gradient = np.asarray(gradients[name], np.float64)
            self.m[name] = self.beta_1 * self.m[name] + (1 - self.beta_1) * gradient
            self.v[name] = self.beta_2 * self.v[name] + (1 - self.beta_2) * gradient**2
            update = self.m[name] / (np.sqrt(self.v[name]) + self.epsilon)
            plain = "layer_norm" in name or "LayerNorm" in name or "bias" in name
            ratio = 1.0
            if not plain:
                update = update + 0.01 * weight
                weight_norm, update_norm = np.sqrt((weight**2).sum()), np.sqrt((update**2).sum())
                if self.trust_ratio and weight_norm > 0 and update_norm > 0:
                    ratio = weight_norm / update_norm
            self.weights[name] = weight - learning_rate * ratio * update
        self.steps += 1


def learning_rate(step, peak, num_train_steps, num_warmup_steps, power=1.0, start_warmup_step=0):
    """The original's schedule, which is negative before a late warm-up; here it is the decay."""
    if start_warmup_step <= step < start_warmup_step + num_warmup_steps:
        return peak * (step - start_warmup_step) / num_warmup_steps
    return peak * (1 - min(step, num_train_steps) / num_train_steps) ** power
