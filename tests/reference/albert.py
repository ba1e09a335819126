"""The ALBERT forward pass in plain NumPy, float64, one example at a time: slow and easy to check.

Weights are a dict from variable path (without the model's name) to array.
"""

import math

import numpy as np


def layer_norm(x, weights, name, epsilon=1e-12):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def dense(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


ACTIVATIONS = {
    "gelu": gelu_tanh,
    "gelu_erf": gelu_erf,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


def attention_map(x, mask, weights, name, heads):
    """x (T, H), mask (T,) -> (N, T, T), the weights of the keys for each query."""
    D = x.shape[1] // heads
    query, key = (dense(x, weights, f"{name}/{part}") for part in ("query", "key"))
    maps = []
    for head in range(heads):
        columns = slice(head * D, (head + 1) * D)
        scores = query[:, columns] @ key[:, columns].T / math.sqrt(D)
        maps.append(softmax(scores + (1.0 - mask)[None, :] * -10000.0))
    return np.stack(maps)


def attention(x, mask, weights, name, heads):
    """x (T, H), mask (T,) -> (T, H), one head after the other."""
    D = x.shape[1] // heads
    value = dense(x, weights, f"{name}/value")
    probabilities = attention_map(x, mask, weights, name, heads)
    context = np.concatenate([probabilities[n] @ value[:, n * D : (n + 1) * D] for n in range(heads)], axis=1)
    return layer_norm(x + dense(context, weights, f"{name}/output"), weights, f"{name}/layer_norm")


def feed_forward(x, weights, name, hidden_act):
    hidden = ACTIVATIONS[hidden_act](dense(x, weights, f"{name}/intermediate"))
    return layer_norm(x + dense(hidden, weights, f"{name}/output"), weights, f"{name}/layer_norm")


def encoder(config, weights, input_ids, input_mask, token_type_ids):
    """One example: three (T,) arrays -> (list of L + 1 arrays (T, H), pooled (H,))."""
    weights = {path: np.asarray(array, np.float64) for path, array in weights.items()}
    T = len(input_ids)
    x = (
        weights["embeddings/word_embeddings"][input_ids]
        + weights["embeddings/token_type_embeddings"][token_type_ids]
        + weights["embeddings/position_embeddings"][:T]
    )
    x = layer_norm(x, weights, "embeddings/layer_norm")
    if config.embedding_size != config.hidden_size:
        x = dense(x, weights, "embeddings/embedding_projection")
    L, G = config.num_hidden_layers, config.num_hidden_groups
    layers = [x]
    for layer in range(L):
        group = int(layer / L * G)
        attention_group = {"all": group, "attention": 0, "ffn": layer, "none": layer}[
            config.parameter_sharing
        ]
        ffn_group = {"all": group, "attention": layer, "ffn": 0, "none": layer}[config.parameter_sharing]
        for inner in range(config.inner_group_num):
            x = attention(
                x, input_mask, weights, f"attention_{attention_group}_{inner}", config.num_attention_heads
            )
            x = feed_forward(x, weights, f"ffn_{ffn_group}_{inner}", config.hidden_act)
        layers.append(x)
    return layers, np.tanh(dense(x[0], weights, "pooler"))


def masked_lm_logits(config, weights, sequence_output, positions):
    """(T, H) and (P,) -> (P, V); weights are the head's, with the word table under `word_embeddings`."""
    x = sequence_output[positions]
    x = ACTIVATIONS[config.hidden_act](dense(x, weights, "transform"))
    x = layer_norm(x, weights, "layer_norm")
    return x @ weights["word_embeddings"].T + weights["output_bias"]
