"""Floating-point operations of a training step, by arithmetic, and the peak throughput of devices."""

from albert_tf.config import AlbertConfig

# Dense bfloat16 (V100, T4: float16) matrix products, TFLOP/s a chip, as the manufacturers state them: for TPUs
# https://cloud.google.com/tpu/docs/v5e and the pages beside it, for GPUs NVIDIA's data sheets (without sparsity).
TPU_TFLOPS = {
    "v2": 45.0,
    "v3": 123.0,
    "v4": 275.0,
    "v5litepod": 197.0,
    "v5p": 459.0,
    "v6e": 918.0,
    "tpu7x": 2307.0,
}
GPU_TFLOPS = {
    "B200": 2250.0,
    "H200 NVL": 835.0,
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,
    "A100": 312.0,
    "A10": 125.0,
    "L40S": 362.0,
    "L4": 121.0,
    "V100": 125.0,
    "T4": 65.0,
}
_CORES_PER_CHIP = {"v2": 2, "v3": 2, "v4": 2, "v5p": 2}  # the number in the type of these TPUs counts cores
# JAX's names of its devices: their generation, and their number on a chip.
_DEVICE_KINDS = {
    "TPU v2": ("v2", 2),
    "TPU v3": ("v3", 2),
    "TPU v4": ("v4", 1),
    "TPU v5": ("v5p", 1),
    "TPU v5 lite": ("v5litepod", 1),
    "TPU v6 lite": ("v6e", 1),
    "TPU7x": ("tpu7x", 2),
}


def training_flops(config: AlbertConfig, T: int, P: int, *, whole_last_layer: bool = False) -> int:
    """Operations in the matrix products of one pretraining example, forward and backward.

    A product (m, k) x (k, n) counts as 2 m k n, and the backward pass as two such products for each. Elementwise
    operations and recomputation (--remat) are not counted. The last layer counts only for the positions that are
    read, the first token and the P predictions, unless it is to be counted for all.

    Args:
      config: the model.
      T: tokens in an example.
      P: predictions in an example.
      whole_last_layer: whether to count the last layer for all positions, as most libraries compute it.
    """
    E, H, F, V = config.embedding_size, config.hidden_size, config.intermediate_size, config.vocab_size
    blocks = config.num_hidden_layers * config.inner_group_num
    embeddings = T * E * H if E != H else 0
    layers = (blocks - 1) * _block(H, F, T, T)
    layers += _block(H, F, T, T if whole_last_layer else P + 1)
    heads = H * H + 2 * H + P * (H * E + E * V)
    return 3 * 2 * (embeddings + layers + heads)


def inference_flops(config: AlbertConfig, T: int) -> int:
    """Operations in the matrix products of the encoder for one sequence, counted as in `training_flops`."""
    E, H, F = config.embedding_size, config.hidden_size, config.intermediate_size
    blocks = config.num_hidden_layers * config.inner_group_num
    return 2 * ((T * E * H if E != H else 0) + blocks * _block(H, F, T, T) + H * H)


def _block(H: int, F: int, T: int, wanted: int) -> int:
    """Multiplications of an attention and a feed-forward part of which `wanted` of T outputs are read."""
    key_value, query_output = 2 * T * H * H, 2 * wanted * H * H
    return key_value + query_output + 2 * wanted * T * H + 2 * wanted * H * F


def tpu_peak(accelerator_type: str) -> float | None:
    """Peak FLOP/s of a whole slice such as "v4-32" or "v5litepod-8"; None if the type is unknown."""
    generation, _, number = accelerator_type.partition("-")
    if generation not in TPU_TFLOPS or not number.isdigit():
        return None
    return TPU_TFLOPS[generation] * 1e12 * int(number) / _CORES_PER_CHIP.get(generation, 1)


def tpu_device_peak(kind: str) -> float | None:
    """Peak FLOP/s of one device of a TPU by JAX's name of its kind; None if it is not in the table."""
    generation, devices_a_chip = _DEVICE_KINDS.get(kind, ("", 1))
    return TPU_TFLOPS[generation] * 1e12 / devices_a_chip if generation else None


def gpu_peak(name: str) -> float | None:
    """Peak FLOP/s of one GPU by the name that its driver reports; None if it is not in the table."""
    words = name.replace("-", " ").split()
    for model, tflops in GPU_TFLOPS.items():  # of two names that match, the longer comes first
        if all(word in words for word in model.split()):
            return tflops * 1e12
    return None
