"""Figure 1: how far each layer of a model moves its input, for checkpoints of any format.

B batch, T tokens, H hidden, L layers.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.parameters import distinct_layers
from benchmarks.report import describe_machine
from data_prep.errors import InputError, check_at_least
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files
from data_prep.tokenizers.vocabulary import Tokenizer, load_tokenizer
from experiments.conditions import facts_of
from experiments.paper.pictures import draw_curves
from experiments.paper.results import Column, Plot, ResultRow, Results, RowComparison, compare_rows

MEASURES = ("l2", "cosine", "degrees")
_COLUMNS = (
    Column("l2", "L2 distance", decimals=2),
    Column("cosine", "cosine similarity", decimals=4),
    Column("degrees", "angle", "degrees", 2),
)
_PANELS = {"l2": "L2 distance", "degrees": "cosine similarity as an angle, in degrees"}
_SHARED, _NOT_SHARED = "all shared", "nothing shared"
_BATCH = 4  # all layers' outputs are kept until a batch is measured
_TINY = 1e-30  # avoids dividing by 0: a zero vector has no direction and counts as angle 0


@dataclass(frozen=True)
class Figure1Settings:
    """What is measured.

    Attributes:
      model: PATH or NAME=PATH of any model that `load_pretrained` takes. A folder that holds seed-1, seed-2 and so
        on stands for all of them, as do several paths with the same name.
      text: text in prose, as --input_file of `albert prepare`.
      output: folder of the laboratory; the results are written to its folder figure1.
      spm_model_file: SentencePiece model, for checkpoints without a vocabulary.
      max_seq_length: length of a sequence in tokens, including [CLS] and [SEP]; at most the number of positions
        of any of the models.
      num_sequences: number of sequences, spread evenly over the text.
    """

    model: list[str]
    text: str
    output: Path
    spm_model_file: str | None = None
    max_seq_length: int = 512
    num_sequences: int = 32

    def __post_init__(self):
        check_at_least(3, self, "max_seq_length")
        check_at_least(1, self, "num_sequences")


def run_figure1(settings: Figure1Settings, command: str = "") -> Results:
    """Measures checkpoints and writes OUTPUT/figure1."""
    from albert_tf import load_pretrained

    groups = checkpoints(settings.model)
    fallback = load_tokenizer(settings.spm_model_file, None, None) if settings.spm_model_file else None
    files = expand_files(settings.text)
    sentences = [sentence for document in read_documents(files, "prose") for sentence in document.sentences]
    loaded = {name: [load_pretrained(path) for path in paths] for name, paths in groups.items()}
    models = [model for seeds in loaded.values() for model in seeds]
    T = min(settings.max_seq_length, *(model.config.max_position_embeddings for model in models))
    measured = {}
    for name, seeds in loaded.items():
        for path, model in zip(groups[name], seeds, strict=True):
            tokenizer = model.tokenizer or fallback
            if tokenizer is None:
                raise InputError(
                    f"A checkpoint's vocabulary tokenizes the text, and {path} has none. Name a SentencePiece "
                    "model with --spm_model_file."
                )
            windows = make_windows(sentences, tokenizer, T, settings.num_sequences)
            measured.setdefault(name, []).append(layer_changes(model.encoder, windows))
    sharing = {name: sharing_of(seeds[0].config) for name, seeds in loaded.items()}
    results = results_of(measured, sharing)
    folder = settings.output / results.experiment
    folder.mkdir(parents=True, exist_ok=True)
    curves = {
        f"{name} ({sharing[name]})": [
            [
                {"layer": i + 1, **dict(zip(MEASURES, layer.tolist(), strict=True))}
                for i, layer in enumerate(seed)
            ]
            for seed in seeds
        ]
        for name, seeds in measured.items()
    }
    draw_curves(folder / "figure1.png", curves, "layer", _PANELS)
    facts = {
        "max_seq_length": T,
        "num_sequences": settings.num_sequences,
        "text": facts_of(files),
        "models": groups,
    }
    results = dataclasses.replace(results, command=command, settings=facts)
    results.write(folder)
    return results


def checkpoints(models: Sequence[str]) -> dict[str, list[str]]:
    """Name -> the paths of its seeds; a path without a name has that of its folder.

    >>> checkpoints(["BERT=runs/none", "albert_large.tar.gz"])
    {'BERT': ['runs/none'], 'albert_large.tar.gz': ['albert_large.tar.gz']}
    """
    groups: dict[str, list[str]] = {}
    for argument in models:
        name, equals, path = argument.partition("=")
        if not equals:
            name, path = Path(argument).name, argument
        if not path:
            raise InputError(f"--model must be PATH or NAME=PATH. Received {argument!r}.")
        seeds = {folder: re.fullmatch(r"seed[-_](\d+)", folder.name) for folder in Path(path).glob("seed*")}
        found = sorted((int(match[1]), str(folder)) for folder, match in seeds.items() if match)
        groups.setdefault(name, []).extend([folder for _, folder in found] or [path])
    return groups


def sharing_of(config: AlbertConfig) -> str:
    """The layers' parameter sharing in words.

    >>> sharing_of(AlbertConfig(num_hidden_layers=4, num_hidden_groups=4))
    'nothing shared'
    """
    attentions, ffns = distinct_layers(config)
    if attentions == ffns == config.num_hidden_layers:
        return _NOT_SHARED
    if attentions == ffns:
        return _SHARED if attentions == 1 else f"shared in {attentions} groups"
    return "attention shared" if attentions == 1 else "feed-forward shared"


def make_windows(
    sentences: Sequence[str], tokenizer: Tokenizer, length: int, num_sequences: int
) -> np.ndarray:
    """Sequences [CLS] text [SEP] without padding, evenly spread over a text.

    Args:
      sentences: the text, in order.
      tokenizer: tokenizes it.
      length: T, tokens per sequence.
      num_sequences: the number of sequences S, if there is enough text.

    Returns:
      int32 (S, T); (1, fewer than T) if the text is shorter than one sequence.
    """
    tokens = np.concatenate([np.asarray(ids, np.int32) for ids in tokenizer.encode_batch(list(sentences))])
    width = min(length - 2, len(tokens))
    rows = tokens[: len(tokens) // width * width].reshape(-1, width)
    count = min(num_sequences, len(rows))
    ends = ((0, 0), (tokenizer.cls_id, tokenizer.sep_id))
    return np.pad(rows[np.arange(count) * len(rows) // count], ((0, 0), (1, 1)), constant_values=ends)


def layer_changes(encoder, input_ids: np.ndarray) -> np.ndarray:
    """The distances between each layer's input and output, without dropout.

    Args:
      encoder: an `AlbertEncoder`.
      input_ids: (B, T) without padding: [CLS], text and [SEP]. The two symbols are read but do not count.

    Returns:
      Means over the counted tokens, float64 (L, 3), in the order of MEASURES: L2 distance, cosine similarity, and
      angle in degrees.
    """
    import tensorflow as tf

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, input_ids.shape[1]], tf.int32)])
    def sums(batch):
        outputs = encoder({"input_ids": batch}, training=False, intermediates=True)
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        pairs = itertools.pairwise(tf.cast(state[:, 1:-1], tf.float32) for state in states)
        return tf.stack([tf.reduce_sum(_measures(x, y), [1, 2]) for x, y in pairs])

    batches = (input_ids[i : i + _BATCH].astype(np.int32) for i in range(0, len(input_ids), _BATCH))
    total = sum(np.asarray(sums(batch), np.float64) for batch in batches)
    return np.asarray(total) / input_ids[:, 1:-1].size


def _measures(x, y):
    """L2 distance, cosine similarity and angle of vectors (B, T, H), stacked to (3, B, T).

    The angle is not computed from the cosine, which in float32 cannot represent angles below 0.02 degrees.
    """
    import tensorflow as tf

    u, v = (z / tf.maximum(tf.norm(z, axis=-1, keepdims=True), _TINY) for z in (x, y))
    angle = 2.0 * tf.atan2(tf.norm(u - v, axis=-1), tf.norm(u + v, axis=-1))
    return tf.stack([tf.norm(x - y, axis=-1), tf.reduce_sum(u * v, -1), angle * (180.0 / math.pi)])


def results_of(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str]) -> Results:
    """The table, without what is known only of the run.

    Args:
      measured: name -> one (L, 3) per seed, from `layer_changes`.
      sharing: name -> parameter sharing in words.
    """
    means, layers = [], []
    for name, seeds in measured.items():
        title = f"{name} ({sharing[name]})"
        means.append(ResultRow(name, title, {}, _values([seed.mean(axis=0) for seed in seeds])))
        layers += [
            ResultRow(f"{name}/{i + 1}", f"{name}, layer {i + 1}", {}, _values([seed[i] for seed in seeds]))
            for i in range(len(seeds[0]))
        ]
    return Results(
        experiment="figure1",
        title="L2 distance and cosine similarity of each layer's input and output",
        paper="Figure 1",
        question="Are the transitions from layer to layer smoother if layers share their parameters?",
        scale="",
        seeds=[*range(1, 1 + max(map(len, measured.values())))],
        command="",
        settings={},
        environment=describe_machine(),
        columns=_COLUMNS,
        rows=means + layers,
        plots=[Plot("figure1.png", "L2 distance (left) and angle (right) of each layer's input and output.")],
        comparisons=comparisons(means, sharing),
        notes=[
            "Rows without a layer's number are means over the layers; [CLS] and [SEP] do not count.",
            "The paper draws BERT-large and ALBERT-large and prints no numbers. It finds that with shared "
            "parameters the transitions are smoother, both measures are lower, and they do not converge to 0.",
        ],
    )


def _values(seeds: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """(3,) per seed -> column -> one value per seed."""
    return dict(zip(MEASURES, np.stack(seeds).T.tolist(), strict=True))


def comparisons(rows: Sequence[ResultRow], sharing: Mapping[str, str]) -> list[RowComparison]:
    """Whether each model that shares all layers moves its input less than each model that shares none."""
    pairs = itertools.product(
        (name for name, words in sharing.items() if words == _SHARED),
        [name for name, words in sharing.items() if words == _NOT_SHARED],
        ("l2", "degrees"),
    )
    found = [compare_rows(rows, one, other, column) for one, other, column in pairs]
    return [dataclasses.replace(each, paper="lower") for each in found if each is not None]
