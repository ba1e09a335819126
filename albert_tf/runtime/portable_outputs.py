"""Checks that a portable model's file computes the arrays that its folder describes."""

from collections.abc import Mapping

import numpy as np

from albert_tf.runtime.portable_folder import ONNX_FILE, PortableFolder
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS
from data_prep.errors import InputError

# The dimensions of what pretrained models compute: B rows, T tokens, P positions, H of the configuration, V
# embeddings, K best pieces. Kinds of tasks also have C labels or options, and K starts, each with K ends.
_PRETRAINED: Mapping[str, Mapping[str, str]] = {
    "encoder": {
        "sequence_output": "B, T, H",
        "pooled_output": "B, H",
        "sop_logits": "B, 2",
        "mlm_logits": "B, P, V",
    },
    "fill-mask": {"ids": "B, P, K", "probabilities": "B, P, K"},
    "embedding": {"embedding": "B, H"},
}
_OPTIONAL = ("pooled_output", "sop_logits", "mlm_logits")
_ROUNDING = 0.05  # error of probabilities that were computed in 8 bits


def check_inputs(folder: PortableFolder, names: tuple[str, ...]) -> None:
    """Raises InputError if a model's inputs are not those of its kind."""
    kind = folder.facts.kind
    positions = {MASKED_POSITIONS} & set(names) if kind == "encoder" else {MASKED_POSITIONS}
    expected = {*TEXT_INPUTS, *(positions if kind in ("encoder", "fill-mask") else ())}
    if set(names) != expected:
        raise _other_model(folder, f"the inputs {', '.join(sorted(expected))}", ", ".join(names))


def check_outputs(
    folder: PortableFolder, inputs: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]
) -> None:
    """Compares the outputs for a batch with what the folder's other files describe.

    Args:
      folder: the files.
      inputs: the batch, with the names of TEXT_INPUTS.
      found: the outputs.

    Raises:
      InputError: an output is missing, has another type or shape or is out of range, a number is not finite, or
        the probabilities are not those of the kind of task.
    """
    facts, config, ids = folder.facts, folder.config, inputs[TEXT_INPUTS[0]]
    kind = folder.task_kind
    expected = kind.outputs_of(facts.answerable) if kind else _PRETRAINED[facts.kind]
    needed = {name for name in expected if name not in _OPTIONAL}
    if MASKED_POSITIONS in inputs and facts.kind == "encoder":
        needed.add("mlm_logits")
    if not needed <= set(found) <= set(expected):
        raise _other_model(folder, f"the outputs {', '.join(expected)}", ", ".join(found))
    K = facts.options.get("top_k") or np.shape(found.get("start_top_index", [[]]))[-1]
    sizes = {
        **{"B": len(ids), "T": ids.shape[-1], "P": inputs.get(MASKED_POSITIONS, ids).shape[-1]},
        **{"H": config.hidden_size, "V": config.vocab_size, "K": K, "K*K": K * K},
        "C": len(facts.labels) if ids.ndim == 2 else ids.shape[1],
    }
    limits = {"ids": facts.pieces, "start_top_index": ids.shape[-1], "end_top_index": ids.shape[-1]}
    for name, array in found.items():
        shape, type_ = (
            tuple(sizes[size] if size in sizes else int(size) for size in expected[name].split(", ")),
            "i" if name in limits else "f",
        )
        if array.shape != shape or array.dtype.kind != type_:
            wanted = f"`{name}` as {'int32' if type_ == 'i' else 'float32'} {shape}"
            raise _other_model(folder, wanted, f"{array.dtype} {array.shape}")
        if name in limits and array.size and not 0 <= array.min() <= array.max() < limits[name]:
            received = f"{array.min()} to {array.max()}"
            raise _other_model(folder, f"`{name}` from 0 to {limits[name] - 1}", received)
    check_finite("Outputs", found.values())
    if kind and {"logits", "probabilities"} <= found.keys():
        expected_probabilities = kind.probabilities(found["logits"])
        if not np.allclose(found["probabilities"], expected_probabilities, atol=_ROUNDING):
            raise _other_model(folder, f"the probabilities of {facts.task_kind}", "those of another task")


def _other_model(folder: PortableFolder, wanted: str, received: str) -> InputError:
    return InputError(
        f"{folder.path / ONNX_FILE} must be the model that the other files of its folder describe, with {wanted}. "
        f"Received {received or 'none'}; export the model again."
    )
