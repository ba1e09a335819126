"""Checks that a portable model's file computes the arrays that its folder describes."""

from collections.abc import Mapping

import numpy as np

from albert_tf.runtime.portable_folder import ONNX_FILE, PortableFolder
from albert_tf.runtime.portable_inputs import MASKED_POSITIONS, TEXT_INPUTS
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.probabilities import sigmoid, softmax
from data_prep.errors import InputError

# A letter for each dimension: B rows, T tokens, P positions, H of the configuration, V embeddings, C labels or
# options, K best pieces or starts, J = K * K pairs of a start and an end.
_LOGITS = {"probabilities": "BC", "logits": "BC"}
_DIMENSIONS: Mapping[str, Mapping[str, str]] = {
    "encoder": {"sequence_output": "BTH", "pooled_output": "BH", "sop_logits": "B2", "mlm_logits": "BPV"},
    "fill-mask": {"ids": "BPK", "probabilities": "BPK"},
    "embedding": {"embedding": "BH"},
    "classifier": _LOGITS,
    "regression": {"score": "B"},
    "multiple-choice": _LOGITS,
    "token-classification": {"probabilities": "BTC", "logits": "BTC"},
    "question-answering": {"start_logits": "BT", "end_logits": "BT"},
    "answerable": {
        "answerable_logits": "B",
        "start_top_log_probs": "BK",
        "start_top_index": "BK",
        "end_top_log_probs": "BJ",
        "end_top_index": "BJ",
    },
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
    kind = "regression" if facts.task_kind == "regression" else facts.kind
    expected = _DIMENSIONS["answerable" if facts.answerable else kind]
    needed = {name for name in expected if name not in _OPTIONAL}
    if MASKED_POSITIONS in inputs and kind == "encoder":
        needed.add("mlm_logits")
    if not needed <= set(found) <= set(expected):
        raise _other_model(folder, f"the outputs {', '.join(expected)}", ", ".join(found))
    K = facts.options.get("top_k") or np.shape(found.get("start_top_index", [[]]))[-1]
    sizes = {
        **{"B": len(ids), "T": ids.shape[-1], "P": inputs.get(MASKED_POSITIONS, ids).shape[-1]},
        **{"H": config.hidden_size, "V": config.vocab_size, "K": K, "J": K * K, "2": 2},
        "C": ids.shape[1] if kind == "multiple-choice" else len(facts.labels),
    }
    limits = {"ids": facts.pieces, "start_top_index": ids.shape[-1], "end_top_index": ids.shape[-1]}
    for name, array in found.items():
        shape, type_ = tuple(sizes[letter] for letter in expected[name]), "i" if name in limits else "f"
        if array.shape != shape or array.dtype.kind != type_:
            wanted = f"`{name}` as {'int32' if type_ == 'i' else 'float32'} {shape}"
            raise _other_model(folder, wanted, f"{array.dtype} {array.shape}")
        if name in limits and array.size and not 0 <= array.min() <= array.max() < limits[name]:
            received = f"{array.min()} to {array.max()}"
            raise _other_model(folder, f"`{name}` from 0 to {limits[name] - 1}", received)
    check_finite("Outputs", found.values())
    if "logits" in found:
        probabilities = (sigmoid if facts.task_kind == "multi_label_classification" else softmax)(
            found["logits"]
        )
        if not np.allclose(found["probabilities"], probabilities, atol=_ROUNDING):
            raise _other_model(folder, f"the probabilities of {facts.task_kind}", "those of another task")


def _other_model(folder: PortableFolder, wanted: str, received: str) -> InputError:
    return InputError(
        f"{folder.path / ONNX_FILE} must be the model that the other files of its folder describe, with {wanted}. "
        f"Received {received or 'none'}; export the model again."
    )
