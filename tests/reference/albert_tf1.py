"""The original's ALBERT in plain NumPy, with the names of arrays in TF1 checkpoints.

It does not use our names, so that tests find wrong rows in the table of names.
"""

import math

import numpy as np

from tests.reference.albert import ACTIVATIONS, dense, layer_norm, softmax


def forward(config, arrays, input_ids, input_mask, token_type_ids, positions):
    """One example: (T,) arrays and (P,) -> sequence (T, H), pooled (H,), MLM logits (P, V), SOP logits (2,)."""
    w = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    T, act = len(input_ids), ACTIVATIONS[config.hidden_act]
    x = (
        w["bert/embeddings/word_embeddings"][input_ids]
        + w["bert/embeddings/token_type_embeddings"][token_type_ids]
        + w["bert/embeddings/position_embeddings"][:T]
    )
    x = layer_norm(x, w, "bert/embeddings/LayerNorm", config.layer_norm_epsilon)
    if config.embedding_size != config.hidden_size:
        x = dense(x, w, "bert/encoder/embedding_hidden_mapping_in")
    for layer in range(config.num_hidden_layers):
        group = int(layer / config.num_hidden_layers * config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            x = block(config, w, f"bert/encoder/transformer/group_{group}/inner_group_{inner}", x, input_mask)
    pooled = np.tanh(dense(x[0], w, "bert/pooler/dense"))
    y = act(dense(x[positions], w, "cls/predictions/transform/dense"))
    y = layer_norm(y, w, "cls/predictions/transform/LayerNorm", config.layer_norm_epsilon)
    masked_lm = y @ w["bert/embeddings/word_embeddings"].T + w["cls/predictions/output_bias"]
    order = pooled @ w["cls/seq_relationship/output_weights"].T + w["cls/seq_relationship/output_bias"]
    return x, pooled, masked_lm, order


def block(config, w, scope, x, mask):
    T, N = len(x), config.num_attention_heads

    def heads(name):
        return dense(x, w, f"{scope}/attention_1/self/{name}").reshape(T, N, -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")  # (N, T, D)
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]) + (1.0 - mask) * -10000.0
    context = (softmax(scores) @ value).transpose(1, 0, 2).reshape(T, -1)
    x = x + dense(context, w, f"{scope}/attention_1/output/dense")
    x = layer_norm(x, w, f"{scope}/LayerNorm", config.layer_norm_epsilon)
    y = ACTIVATIONS[config.hidden_act](dense(x, w, f"{scope}/ffn_1/intermediate/dense"))
    y = x + dense(y, w, f"{scope}/ffn_1/intermediate/output/dense")
    return layer_norm(y, w, f"{scope}/LayerNorm_1", config.layer_norm_epsilon)
