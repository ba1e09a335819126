"""Small models with weights so large that a misplaced one shows in the outputs."""

from pathlib import Path

import numpy as np
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.checkpoints.names import parameters
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from data_prep.tokenizers.vocabulary import Vocabulary

SIZES = {
    "vocab_size": 50,
    "embedding_size": 10,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 16,
}
CONFIGS = {
    "one group": AlbertConfig(**SIZES),
    "two groups": AlbertConfig(**SIZES, num_hidden_groups=2),
    "two blocks": AlbertConfig(**SIZES, num_hidden_groups=2, inner_group_num=2),
    "E == H": AlbertConfig(**{**SIZES, "embedding_size": 24}),
    "relu": AlbertConfig(**SIZES, hidden_act="relu", layer_norm_epsilon=1e-6),
    "erf": AlbertConfig(**SIZES, hidden_act="gelu_erf", hidden_dropout_prob=0.1),
}


def spm_model(pieces: int) -> bytes:
    """A SentencePiece model of single characters."""
    proto = sentencepiece_model_pb2.ModelProto()
    for piece, kind in (("<pad>", 3), ("<unk>", 2), ("[CLS]", 3), ("[SEP]", 3), ("[MASK]", 3)):
        proto.pieces.add(piece=piece, score=0.0, type=kind)
    for number in range(pieces - len(proto.pieces)):
        proto.pieces.add(piece=chr(ord("a") + number), score=-float(number))
    proto.trainer_spec.unk_id, proto.trainer_spec.pad_id = 1, 0
    proto.trainer_spec.bos_id, proto.trainer_spec.eos_id = -1, -1
    return proto.SerializeToString()


VOCABULARY = Vocabulary("sentencepiece", spm_model(50))


def random_weights(
    config: AlbertConfig, *without: str, seed: int = 0, scale: float = 0.3
) -> dict[str, np.ndarray]:
    """Weights under our names; `without` names parts to leave out."""
    rng = np.random.default_rng(seed)
    weights = {}
    for row in sorted(parameters(config, "tf1"), key=lambda row: row.ours):
        noise = scale * rng.standard_normal(row.shape) + (1.0 if row.ours.endswith("gamma") else 0.0)
        if row.part not in without:
            weights[row.ours] = noise.astype("float32")
    return weights


def random_stored(config: AlbertConfig, *without: str, vocabulary=VOCABULARY) -> StoredModel:
    """A model as a reader returns it."""
    return StoredModel("run", Path("nowhere"), config, random_weights(config, *without), vocabulary)


def assert_same_weights(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """The names and every bit are equal."""
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert second[name].dtype == array.dtype
        np.testing.assert_array_equal(second[name], array, err_msg=name)


def save_tf1(prefix: Path, arrays: dict[str, np.ndarray]) -> None:
    """A checkpoint as TF1's Saver writes it."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[arrays[name] for name in names],
    )
