"""Checks that a portable model's file computes the arrays that its folder describes."""

from collections.abc import Mapping

import numpy as np

from albert_tf.runtime.engines import Engine
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
_INTEGERS = ("ids", "start_top_index", "end_top_index")
_ROUNDING = 0.05  # error of probabilities that were computed in 8 bits


def check_model(folder: PortableFolder, engine: Engine, inputs: Mapping[str, np.ndarray]) -> None:
    """Compares an engine's inputs and its outputs for a batch with what the folder's other files describe.

    Raises:
      InputError: an input or output is missing, an output has another type or shape, or the probabilities are not
        those of the kind of task.
    """
    facts, config, ids = folder.facts, folder.config, inputs[TEXT_INPUTS[0]]
    positions = {MASKED_POSITIONS} & set(engine.inputs) if facts.kind == "encoder" else {MASKED_POSITIONS}
    names = {*TEXT_INPUTS, *(positions if facts.kind in ("encoder", "fill-mask") else ())}
    if set(engine.inputs) != names:
        raise _other_model(folder, f"the inputs {', '.join(sorted(names))}", ", ".join(engine.inputs))
    found, kind = engine(dict(inputs)), folder.task_kind
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
    for name, array in found.items():
        shape = tuple(sizes[size] if size in sizes else int(size) for size in expected[name].split(", "))
        type_ = "int32" if name in _INTEGERS else "float32"
        if array.shape != shape or array.dtype.kind != type_[0]:
            raise _other_model(folder, f"`{name}` as {type_} {shape}", f"{array.dtype} {array.shape}")
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
