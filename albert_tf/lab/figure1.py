"""Figure 1: how far each layer moves its input, for checkpoints in any format.

checkpoints --read--> models --make_windows--> ids (S,T) --layer_changes--> (L,3) per checkpoint --> rows, plot
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from albert_tf.lab.checkpoints import Checkpoint, describe_checkpoints, read_checkpoints, sharing_of
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.laboratory import make_folder
from albert_tf.lab.layer_changes import MEASURES, layer_changes
from albert_tf.lab.results import Column, Plot, ResultRow, Results, RowComparison, compare_rows
from albert_tf.lab.settings import Figure1Settings
from albert_tf.lab.tables import write_results
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.training.plot import dress
from data_prep.errors import InputError, needs_extra
from data_prep.files import file_sha256, written_aside
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary

with needs_extra("Drawing", "matplotlib", "plot"):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

NAME = "figure1"
PLOT_FILE = "figure1.png"
_COLUMNS = (
    Column("l2", "L2 distance", decimals=2),
    Column("cosine", "cosine similarity", decimals=4),
    Column("degrees", "angle", "degrees", 2),
)
_PANELS = (("l2", "L2 distance", "distance"), ("degrees", "Cosine similarity as an angle", "degrees"))
_SHARED, _NOT_SHARED = "all shared", "nothing shared"  # as `sharing_of` names them
_NOTES = (
    "Rows without a layer's number are means over the layers.",
    "The paper draws BERT-large and ALBERT-large and prints no numbers. It finds that with shared parameters the "
    "transitions are smoother and both measures are lower, and that they do not converge to 0.",
)


def run_figure1(
    models: Sequence[str],
    text: str,
    settings: Figure1Settings,
    *,
    command: str = "",
    log: Callable[[str], None] = lambda line: None,
) -> Results:
    """Measures checkpoints and writes OUTPUT/figure1: results.json, results.md and a plot.

    Args:
      models: PATH or NAME=PATH of anything that `albert_tf.load_pretrained` reads. Paths with the same name are
        seeds of one row; so are seed-1, seed-2, ... in one folder.
      text: files, as for `data_prep.text.sources.expand_files`.
      settings: the other flags.
      command: the command line.
      log: receives lines on the progress.

    Raises:
      InputError: a checkpoint, the vocabulary or the text cannot be read, or they do not fit together. Nothing has
        been written then.
    """
    if not models:
        raise InputError("--model names a checkpoint, and may be given several times. Received none.")
    vocab_file = settings.spm_model_file or settings.vocab_file
    fallback = Vocabulary.read(vocab_file, settings.do_lower_case) if vocab_file else None
    groups = read_checkpoints(models, fallback)
    checkpoints = [each for group in groups.values() for each in group]
    length = min(
        settings.max_seq_length, *(each.stored.config.max_position_embeddings for each in checkpoints)
    )
    files = expand_files(text)
    sentences = [sentence for document in read_documents(files, "prose") for sentence in document.sentences]
    windows = {
        vocabulary: make_windows(sentences, vocabulary.tokenizer(), length, settings.num_sequences)
        for vocabulary in dict.fromkeys(each.vocabulary for each in checkpoints)
    }

    folder = Path(settings.output) / NAME
    make_folder(folder)
    measured = _measure(checkpoints, windows, log)
    sharing = {name: sharing_of(group[0].stored.config) for name, group in groups.items()}
    draw_layers(measured, sharing, folder / PLOT_FILE)
    facts = {
        "max_seq_length": length,
        "num_sequences": settings.num_sequences,
        "texts": {file.name: f"sha256:{file_sha256(file)[:16]}" for file in files if file.is_file()},
        "models": {name: describe_checkpoints(group) for name, group in groups.items()},
    }
    seeds = {each.source.seed for each in checkpoints if each.source.seed is not None}
    results = dataclasses.replace(
        results_of(measured, sharing),
        seeds=sorted(seeds),
        command=command,
        settings=facts,
        notes=[_token_note(windows.values()), *_NOTES],
    )
    write_results(folder, results)
    return results


def _measure(
    checkpoints: Sequence[Checkpoint],
    windows: Mapping[Vocabulary, np.ndarray],
    log: Callable[[str], None],
) -> dict[str, list[np.ndarray]]:
    """Name -> one (L, 3) per seed."""
    measured: dict[str, list[np.ndarray]] = {}
    for each in checkpoints:
        ids = windows[each.vocabulary]
        log(f"{each.source.name}: {each.source.path}, {len(ids)} sequences of {ids.shape[1]} tokens")
        changes = layer_changes(AlbertEncoder.of_stored(each.stored), ids)
        measured.setdefault(each.source.name, []).append(changes)
    return measured


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
    encoded = [np.asarray(ids, np.int32) for ids in tokenizer.encode_batch(list(sentences))]
    if not sum(map(len, encoded)):
        raise InputError("The text must contain at least one token. Received a text without any.")
    tokens = np.concatenate(encoded)
    width = min(length - 2, len(tokens))
    rows = tokens[: len(tokens) // width * width].reshape(-1, width)
    chosen = rows[np.arange(min(num_sequences, len(rows))) * len(rows) // min(num_sequences, len(rows))]
    return np.pad(
        chosen, ((0, 0), (1, 1)), constant_values=((0, 0), (tokenizer.cls_id, tokenizer.sep_id))
    ).astype(np.int32)


def results_of(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str]) -> Results:
    """The table, the plot and the comparisons, without what is known only of the run.

    Args:
      measured: name -> one (L, 3) per seed, from `layer_changes`.
      sharing: name -> parameter sharing in words.
    """
    rows = rows_of(measured, sharing)
    has_seeds = any(len(seeds) > 1 for seeds in measured.values())
    return Results(
        experiment=NAME,
        title="L2 distance and cosine similarity of each layer's input and output",
        paper="Figure 1",
        question="Are the transitions from layer to layer smoother if layers share their parameters?",
        scale="",
        seeds=[],
        command="",
        settings={},
        environment=describe_environment(),
        columns=_COLUMNS,
        rows=rows,
        plots=[Plot(PLOT_FILE, _caption(has_seeds=has_seeds))],
        comparisons=comparisons(rows, sharing),
    )


def rows_of(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str]) -> list[ResultRow]:
    """For each model a row of means over its layers, followed by a row for each layer of each model.

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
    return means + layers


def _values(seeds: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """(3,) per seed -> column -> one value per seed."""
    return dict(zip(MEASURES, np.stack(seeds).T.tolist(), strict=True))


def comparisons(rows: Sequence[ResultRow], sharing: Mapping[str, str]) -> list[RowComparison]:
    """Whether each model that shares all layers moves its input less than each model that shares none."""
    shared = [name for name, words in sharing.items() if words == _SHARED]
    others = [name for name, words in sharing.items() if words == _NOT_SHARED]
    found = [
        compare_rows(rows, one, other, column)
        for one in shared
        for other in others
        for column in ("l2", "degrees")
    ]
    return [dataclasses.replace(each, paper="lower") for each in found if each is not None]


def draw_layers(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str], path: Path) -> None:
    """Draws a line for each model over its layers, with a panel for L2 distance and one for the angle, to a PNG.

    Args:
      measured: name -> one (L, 3) per seed, from `layer_changes`.
      sharing: name -> parameter sharing in words; lines of models that share nothing are dashed.
      path: the PNG.
    """
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    colors = matplotlib.color_sequences["tab10"]
    panels = figure.subplots(1, len(_PANELS))
    for axis, (measure, title, unit) in zip(panels, _PANELS, strict=True):
        for i, (name, seeds) in enumerate(measured.items()):
            values = np.stack([seed[:, MEASURES.index(measure)] for seed in seeds])  # (seeds, L)
            layers, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
            style = {"color": colors[i % len(colors)], "ls": "--" if sharing[name] == _NOT_SHARED else "-"}
            axis.plot(layers, mean, lw=1.8, marker="o", ms=3.5, label=f"{name} ({sharing[name]})", **style)
            if len(values) > 1:
                spread = values.std(axis=0, ddof=1)
                axis.fill_between(layers, mean - spread, mean + spread, color=style["color"], alpha=0.2, lw=0)
        dress(axis, title, unit)
        axis.set_xlabel("layer", fontsize=9)
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), frameon=False)
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)


def _caption(*, has_seeds: bool) -> str:
    bands = " Bands span one standard deviation over the seeds." if has_seeds else ""
    return (
        "L2 distance (left) and angle, the cosine similarity in degrees (right), between the input and the output "
        f"of each layer, averaged over all tokens.{bands}"
    )


def _token_note(windows: Iterable[np.ndarray]) -> str:
    tokens = " or ".join(dict.fromkeys(f"{ids[:, 1:-1].size:,}" for ids in windows))
    return f"Averages over {tokens} tokens of text; [CLS] and [SEP] are read but do not count."
