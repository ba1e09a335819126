"""Every reader of files that come from elsewhere: how to write a small valid set of files, and how to read it."""

import io
import json
import tarfile
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console

from albert_tf import load_adapters, load_portable, save_adapters
from albert_tf.checkpoints.checkpoint_files import write_checkpoint
from albert_tf.checkpoints.downloads import download
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.checkpoints.names import CLASSES, SEQUENCE_HEAD, HeadSize
from albert_tf.checkpoints.savedmodels import WEIGHTS
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.config import AlbertConfig
from albert_tf.conversion.convert import write_keras
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.finetuned import read_finetuned
from albert_tf.runtime.portable_loading import load_trained
from albert_tf.runtime.predictor import Predictor, predict_stream
from albert_tf.tasks.benchmarks.ensemble import report_runs
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.open_task import read_source
from albert_tf.tasks.probabilities import Probabilities, read_probabilities, write_probabilities
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.scores import score_predictions
from albert_tf.tasks.spans.answer_files import read_answers, read_n_best, write_answers
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.task import find_task
from albert_tf.training.plot import plot_runs
from albert_tf.training.weights import by_name
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.files import visible_files
from data_prep.inspection.inspection import inspect
from data_prep.prepare.local import prepare
from data_prep.reading.example_files import ExampleFiles
from data_prep.text.rows import rows_reader
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.tokenizer_json import read_tokenizer_json
from data_prep.tokenizers.vocabulary import Vocabulary, write_normalization
from export.write import export_for_runtime
from tests.albert_tf.checkpoints.hub import Hub
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    VOCABULARY,
    random_stored,
    spm_model,
)
from tests.albert_tf.runtime.portable_files import seal
from tests.albert_tf.tasks import files as task_files
from tests.albert_tf.tasks.task_models import CASES
from tests.albert_tf.tasks.task_models import CONFIG as TASK_CONFIG
from tests.data_prep.tokenizers.test_tokenizer_json import unigram, wordpiece
from tests.story import write_story

CONFIG = CONFIGS["one group"]
TEXT = "The café owner (1,987) painted"


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Attributes:
      name: short.
      write: writes a valid set of files into an empty folder.
      read: reads them; any bytes in any of the files give a result or an InputError.
      untouched: glob patterns of files that no case changes.
      seal: makes the hashes that a changed set of files holds of itself right again.
    """

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    untouched: Sequence[str] = ()
    seal: Callable[[Path], None] | None = None


def pretrained_model(labels: Sequence[str] = ()) -> StoredModel:
    """A pretrained model, or a fine-tuned one with these classes."""
    stored = random_stored(CONFIG)
    if not labels:
        return stored
    rng, H = np.random.default_rng(1), CONFIG.hidden_size
    shapes = {f"{SEQUENCE_HEAD}/kernel": (H, len(labels)), f"{SEQUENCE_HEAD}/bias": (len(labels),)}
    weights = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    head = Head(HeadSize(SEQUENCE_HEAD, len(labels)), (CLASSES,), weights, tuple(labels), 0.1)
    encoder = {name: array for name, array in stored.weights.items() if "masked_lm" not in name}
    encoder = {name: array for name, array in encoder.items() if "sentence_order" not in name}
    return StoredModel("run", Path("nowhere"), CONFIG, encoder, VOCABULARY, head=head)


def _write_run(folder: Path) -> None:
    model = AlbertPretrainer.of_stored(pretrained_model())
    content = tf.train.Checkpoint(weights=by_name(model.trainable_variables))
    for step in (1, 2):
        write_checkpoint(content, folder / "checkpoints", step, good=True)
    CONFIG.to_json_file(folder / "albert_config.json")
    VOCABULARY.save(folder)
    (folder / "best.json").write_text('{"step": 1, "loss": 2.5}')
    (folder / "settings.json").write_text('{"phases": [{"max_seq_length": 16}], "learning_rate": 0.001}')
    (folder / "data").mkdir()
    _write_examples(folder / "data")
    (folder / "data" / "manifest.json").replace(folder / "data_manifest.json")
    for path in (folder / "data").iterdir():
        path.unlink()
    (folder / "data").rmdir()


def _write_tf1(folder: Path) -> None:
    write_tf1(pretrained_model(), folder)
    for path in folder.glob("model.ckpt-best.*"):
        (folder / path.name.replace("best", "2")).write_bytes(path.read_bytes())
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')


def _write_exported(folder: Path) -> None:
    module = tf.Module()
    setattr(module, WEIGHTS, {name: tf.Variable(array) for name, array in pretrained_model().weights.items()})
    tf.saved_model.save(module, str(folder))
    CONFIG.to_json_file(folder / "assets" / "albert_config.json")
    VOCABULARY.save(folder / "assets")


def _write_archive(folder: Path) -> None:
    (folder / "model").mkdir()
    write_huggingface(pretrained_model(), folder / "model")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(folder / "model", "model")
    for path in (folder / "model").iterdir():
        path.unlink()
    (folder / "model").rmdir()


def _write_finetuned(folder: Path) -> None:
    seed = folder / "seed_0"
    seed.mkdir()
    vocabulary = Vocabulary("sentencepiece", spm_model(90))
    preprocessor = CASES["text"].model.new_preprocessor(vocabulary, 16, TASK_CONFIG)
    CASES["text"].build(None, preprocessor=preprocessor).save(seed / "model.keras")
    (seed / "settings.json").write_text('{"task": "classification", "column_names": "text_a=text"}')
    (seed / "results.json").write_text('{"dev": {"accuracy": 0.5, "threshold": 0.1}}')
    (seed / "training.json").write_text('{"steps": 12}')
    (folder / "results.json").write_text('{"best_seed": 0, "dev": {"accuracy": {"mean": 0.5}}}')


def _read_finetuned(folder: Path) -> Any:
    found = read_finetuned(folder)
    return found.model, found.task.name, found.columns, found.facts.null_threshold, found.preprocessor


@cache
def _model_for_adapters() -> keras.Model:
    return CASES["topics"].build(None)


def _write_adapters(folder: Path) -> None:
    model = CASES["topics"].build(None)
    model.enable_lora(2)
    save_adapters(model, folder / "adapters.safetensors")


def _read_adapters(folder: Path) -> Any:
    model = _model_for_adapters()
    load_adapters(model, folder / "adapters.safetensors")
    return model


@cache
def _hub() -> Hub:
    server = Hub(Path())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _write_hub(folder: Path) -> None:
    """The files of a repository, and what the Hub answers about them."""
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        (folder / name).write_text("{}")
    server = _hub()
    server.folder, server.facts, server.tree = folder, None, None
    answers = {"facts.json": "", "tree.json": "/tree/main"}
    with server.in_place_of_the_hub(folder):
        for name, place in answers.items():
            address = f"http://127.0.0.1:{server.server_port}/api/models/owner/tiny{place}"
            with urllib.request.urlopen(address) as answer:
                answers[name] = answer.read()
    for name, content in answers.items():
        (folder / name).write_bytes(content)


def _read_hub(folder: Path) -> Any:
    server = _hub()
    server.folder = folder
    server.facts, server.tree = (
        path.read_bytes() if path.exists() else b"" for path in (folder / "facts.json", folder / "tree.json")
    )
    with tempfile.TemporaryDirectory() as home:
        with server.in_place_of_the_hub(Path(home, "cache")):
            found = visible_files(download("hf://owner/tiny"))
        contents = [(path.name, path.read_bytes()) for path in found]
        assert [path.name for path in Path(home).iterdir()] == ["cache"]  # nothing is written elsewhere
    return contents


def _prepared(**changes) -> Callable[[Path], None]:
    """Writes examples and their manifest, with these flags of `albert prepare`."""

    def write(folder: Path) -> None:
        write_story(folder / "story.txt", 2, 6)
        VOCABULARY.save(folder)
        flags = {"max_seq_length": 32, "dupe_factor": 1, **changes}
        settings = PrepareSettings(
            str(folder / "story.txt"), str(folder / "e.tfrecord"), str(folder / "spm.model"), **flags
        )
        prepare(settings, show_progress=False)
        (folder / "story.txt").unlink()

    return write


_write_examples = _prepared()


def _read_examples(folder: Path) -> Any:
    found = ExampleFiles.read([folder / "e.tfrecord"], vocab_size=50)
    output = io.StringIO()
    console = Console(file=output, width=100)
    inspect([str(folder / "e.tfrecord")], console, stats=True, verify=True, num_examples=1)
    return found, output.getvalue()


def _write_vocabularies(folder: Path) -> None:
    (folder / "spm.model").write_bytes(VOCABULARY.content)
    write_normalization(folder / "spm.model", Normalization(do_lower_case=False))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop", "##a", "##b", "the"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": null}')


def _read_vocabulary(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        vocabulary = Vocabulary.read(folder / name)
        tokenizer = vocabulary.tokenizer()
        return vocabulary.count_pieces(), tokenizer.pieces, tokenizer.encode_batch_with_offsets([TEXT])[0].ids

    return read


def _write_tokenizer_json(folder: Path) -> None:
    (folder / "spm.model").write_bytes(VOCABULARY.content)
    (folder / "tokenizer.json").write_text(json.dumps(unigram(folder / "spm.model", Normalization())))
    (folder / "spm.model").unlink()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
    (folder / "wordpiece.json").write_text(json.dumps(wordpiece(pieces)))


def _read_tokenizer_json(folder: Path) -> Any:
    read = [read_tokenizer_json(folder / name) for name in ("tokenizer.json", "wordpiece.json")]
    return [vocabulary.tokenizer().pieces for vocabulary in read]


def _task(name: str, file: str, write: Callable[[Path], Any], split: str = "train") -> Reader:
    """The data of a task."""

    def read(folder: Path) -> Any:
        problems = Problems()
        examples = read_examples(find_task(name), folder / file, split, problems)
        return examples, problems.lines()

    return Reader(f"{name} {file}", lambda folder: write(folder / file), read)


def _write_race(path: Path) -> None:
    passage = {
        "article": "The captain sailed past the lighthouse.",
        "questions": ["Who sailed?", "Past _ ?"],
        "options": [["the captain", "a", "b", "c"], ["clocks", "the lighthouse", "d", "e"]],
        "answers": ["A", "B"],
        "id": "high1.txt",
    }
    path.write_text(json.dumps(passage))


def _write_questions(path: Path) -> None:
    task_files.write_questions(path, 4, 0, impossible=True)


def _read_gold(folder: Path) -> Any:
    return score_predictions("squad2.0", folder / "predictions.json", folder / "dev.json", Problems())


def _write_gold(folder: Path) -> None:
    _write_questions(folder / "dev.json")
    content = json.loads((folder / "dev.json").read_text())
    ids = [qa["id"] for part in content["data"][0]["paragraphs"] for qa in part["qas"]]
    (folder / "predictions.json").write_text(json.dumps(dict.fromkeys(ids, "the captain")))


_CLASSES = ("0", "1")
_PROBABILITIES = (
    Probabilities(("a", "b"), _CLASSES, (np.array([0.25, 0.75]), np.array([0.5, 0.5])), ("0", "1")),
    Probabilities(("a", "b"), (), (np.array(1.5), np.array(2.5)), (1.0, 2.0)),
    Probabilities(("a",), _CLASSES, (np.array([[0.25, 0.75], [0.5, 0.5]]),), (["0", "1"],)),
    Probabilities(("a", "b"), _CLASSES, (np.array([0.2, 0.7]),) * 2, (["0"], []), None, (0.5, 0.25)),
)


def _write_predictions(folder: Path) -> None:
    for number, probabilities in enumerate(_PROBABILITIES):
        write_probabilities(folder / f"{number}.jsonl", probabilities)
    answers = [Answer("the captain", 0, 0.75, 1.5, 2.5), Answer("the café", 4, 0.25, 1.0, 2.0)]
    write_answers(
        folder, "dev", SquadPredictions({"q1": answers, "q2": answers[:1]}, {"q1": -1.0, "q2": 2.0})
    )
    (folder / "labels.tsv").write_text("index\tprediction\n0\t1\n1\t0\n")
    (folder / "letters.json").write_text('{"high1.txt-0": "A", "high1.txt-1": "B"}')


def _read_predictions(folder: Path) -> Any:
    probabilities = [read_probabilities(folder / f"{number}.jsonl") for number in range(len(_PROBABILITIES))]
    n_best = read_n_best(folder, "dev")
    labels = find_task("sst-2").kind.read_predictions(find_task("sst-2"), folder / "labels.tsv")
    letters = find_task("race").kind.read_predictions(find_task("race"), folder / "letters.json")
    made = [each.predictions() for each in probabilities]
    return (
        probabilities,
        made,
        n_best.texts(0.0),
        labels,
        letters,
        read_answers(folder / "dev_predictions.json"),
    )


def _write_ensemble(folder: Path) -> None:
    for run in ("one", "two"):
        (folder / run).mkdir()
        write_probabilities(folder / run / "dev_probabilities.jsonl", _PROBABILITIES[0])


def _read_ensemble(folder: Path) -> Any:
    return report_runs(find_task("sst-2"), [folder / "one", folder / "two"])


def _write_metrics(folder: Path) -> None:
    names = ("masked_lm_loss", "sentence_order_loss", "gradient_norm", "learning_rate")
    lines = [{"step": step, **dict.fromkeys(names, 1.0 + step)} for step in (10, 20, 30)]
    lines[1] |= {"max_seq_length": 128, "eval_masked_lm_loss": 2.0, "rolled_back_to": 10}
    lines[2] |= {"max_seq_length": 512}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _read_metrics(folder: Path) -> None:
    plot_runs([folder], folder / "picture.png")


def _write_texts(folder: Path) -> None:
    (folder / "texts.jsonl").write_text('{"text": "One. Two."}\n{"text": "Three.\\n\\nFour."}\n')
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"One. Two."]))
    example = tf.train.Example(features=tf.train.Features(feature={"text": feature}))
    with tf.io.TFRecordWriter(str(folder / "texts.tfrecord")) as writer:
        writer.write(example.SerializeToString())


def _read_texts(folder: Path) -> Any:
    found = []
    for name in ("texts.jsonl", "texts.tfrecord"):
        reader = rows_reader(Path(name))
        assert reader
        found += [row.text for row in reader(folder / name, "text")]
    return found


def _read_task_source(folder: Path) -> Any:
    return read_source(folder / "seed_0")


# Portable folders: a model, and the columns of an example.
_PORTABLE: dict[str, dict[str, Any]] = {
    "encoder": {},
    "fill-mask": {"text": f"{TEXT} the [MASK]."},
    "embedding": {"text": TEXT},
    "text": {"text": TEXT},
    "topics": {"text": TEXT},
    "pair": {"text": TEXT},
    "choice": {"passage": TEXT, "question": "who _?", "options": ["the café owner", "a"]},
    "words": {"text": TEXT},
    "span": {"question": "who painted?", "context": TEXT},
    "span or none": {"question": "who painted?", "context": TEXT},
}


def _portable(name: str) -> Reader:
    def write(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary, "model.keras")
            if name in CASES:
                vocabulary = Vocabulary("sentencepiece", spm_model(90))
                lengths = {"max_seq_length": 24}
                if "context" in _PORTABLE[name]:
                    lengths |= {"max_query_length": 8, "doc_stride": 5}
                preprocessor = find_kind(CASES[name].model.kind).preprocessor(vocabulary, **lengths)
                CASES[name].build(None, preprocessor=preprocessor).save(source)
            else:
                source = Path(temporary)
                write_keras(pretrained_model(), source)
            export_for_runtime(source, folder, "onnx", kind=None if name in CASES else name)
        (folder / "README.md").unlink()

    def read(folder: Path) -> Any:
        columns, engine = _PORTABLE[name], EngineSettings("onnxruntime")
        model = load_portable(folder, engine="onnxruntime")
        if not columns:
            ids = np.array([[2, 7, 3]])
            inputs = {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0}
            return model({**inputs, "masked_lm_positions": np.array([[1]])})
        found = model(*([column] for column in columns.values()))
        if name not in CASES:
            return found
        output = io.BytesIO()
        line = io.BytesIO(json.dumps({**columns, "words": TEXT.split()}).encode())
        predict_stream(Predictor(load_trained(folder, engine)), line, output)
        return found, output.getvalue()

    return Reader(f"portable {name}", write, read, seal=seal)


READERS = [
    Reader(
        "config",
        lambda folder: CONFIG.to_json_file(folder / "albert_config.json"),
        lambda folder: AlbertConfig.from_json_file(folder / "albert_config.json"),
    ),
    Reader("run", _write_run, read_source),
    Reader("keras pretrainer", lambda folder: write_keras(pretrained_model(), folder), read_source),
    Reader("fine-tuned run", _write_finetuned, _read_finetuned),
    Reader("fine-tuned source", _write_finetuned, _read_task_source, ("*.json",)),
    Reader("adapters", _write_adapters, _read_adapters),
    Reader("TF1", _write_tf1, read_source),
    Reader("Hugging Face", lambda folder: write_huggingface(pretrained_model("ab"), folder), read_source),
    Reader("KerasHub", lambda folder: write_kerashub(pretrained_model("ab"), folder), read_source),
    Reader("SavedModel", _write_exported, read_source, ("fingerprint.pb",)),
    *map(_portable, _PORTABLE),
    Reader("archive", _write_archive, lambda folder: read_source(folder / "model.tar.gz")),
    Reader("hub answers", _write_hub, _read_hub, ("config.json", "model.safetensors", "vocab.txt")),
    Reader("examples", _write_examples, _read_examples),
    Reader("unmasked examples", _prepared(masking="dynamic"), _read_examples),
    Reader("spm.model", _write_vocabularies, _read_vocabulary("spm.model"), ("vocab.txt", "tokenizer*")),
    Reader("vocab.txt", _write_vocabularies, _read_vocabulary("vocab.txt"), ("spm.*",)),
    Reader("tokenizer.json", _write_tokenizer_json, _read_tokenizer_json),
    _task("classification", "train.csv", lambda path: task_files.write_classes(path, 4, 0)),
    _task("multi-label-classification", "train.csv", lambda path: task_files.write_topics(path, 4, 0)),
    _task("regression", "train.tsv", lambda path: task_files.write_scores(path, 4, 0)),
    _task("multiple-choice", "train.jsonl", lambda path: task_files.write_choices(path, 4, 0)),
    _task("token-classification", "train.conll", lambda path: task_files.write_words(path, 4, 0)),
    _task("squad2.0", "train.json", _write_questions),
    _task("race", "high1.txt", _write_race),
    Reader("gold answers", _write_gold, _read_gold),
    Reader("predictions", _write_predictions, _read_predictions),
    Reader("ensemble", _write_ensemble, _read_ensemble),
    Reader("metrics.jsonl", _write_metrics, _read_metrics),
    Reader("texts", _write_texts, _read_texts),
]
BY_NAME = {reader.name: reader for reader in READERS}
