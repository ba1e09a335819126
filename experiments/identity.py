"""Compares ids and vectors of one model in everybody's runtime: the table of docs/identity.md.

For example:

    python -m experiments.identity --peers=/path/to/python --transformers_js=/path/to/folder

Lines in eight languages and pairs of them go through the model's files in each format. The reference is this
library in Keras. Ids come from each runtime's own tokenizer, if it has one; vectors are the means of the tokens'
vectors, compared where ids are equal. --peers is a Python with the packages of the extra [peers], and
--transformers_js a folder in which `npm install --ignore-scripts @huggingface/transformers@4` was run. What is not
installed is skipped, with the reason. The exit status is 1 if ids that can be equal are not, or vectors differ by
more than 1e-4.

The text follows a rule, so that everybody compares the same: each language has about 40 syllables, from which a
lexicon of 2,000 words is drawn; a line has 3 to 14 words by Zipf's law, some capitalized or in capitals, with
punctuation, numbers such as 12,500 and, in one line of ten, something that tokenizers treat differently. The model
is then an ALBERT of random weights (H=128, four layers) with a vocabulary that is trained on the text.
"""

import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_cli import program
from benchmarks.report import markdown_table
from data_prep.errors import InputError
from data_prep.text.sources import expand_files
from experiments.tokenizer_agreement import KINDS, spread_lines, train

TOLERANCE = 1e-4
LENGTH = 128
SYLLABLES = {
    "en": "the of and ing ion er re in on at en st or ar al an ed th wh ough ou ea ch sh le ly ment "
    "tion be con de ex im per pre pro un ver out over",
    "de": "der die und ein sch ge ver be er en ung keit heit lich ä ö ü ß äu eu ei ie au ach icht "
    "über für nen ten ter stein wald zeit haus groß straß mäd kön müh zö",
    "fr": "le de et un que é è ê ç à où eau eux oi ou an en in on tion ment ré pré dé l'h d'a qu'i "
    "œu î ï ô û gne ille age isse être voir mon jour",
    "ru": "по на не ра ко ли го во то ни ка за пе ре до ты мы вы ст пр ов ен ий ая ое ть ся ж ш щ ё "
    "э ю я ъе нь ло да бу дет ми",
    "hi": "का की के में है और से को पर यह वह ना ता ती ते हि न्दी क्ष त्र ज्ञ श्री भा र त दि ल्ली लि "
    "खा ब च्चा मा पि अ आ इ ई उ ए ओ",
    "ko": "가 나 다 라 마 바 사 아 자 하 고 는 을 를 이 에 서 로 한 국 어 학 교 사람 물 집 길 날 밤 "
    "봄 ㅎ 힣 값 닭 뷁 은 와 과 도 만",
    "ja": "の は が を に で と も から まで です ます 日 本 語 人 年 月 時 東 京 カ タ ナ ひ ら が "
    "ガ ギ パ ー ッ ョ 学 校 水 山 川 行く 見る",
    "zh": "的 一 是 不 了 在 人 有 我 他 这 个 们 中 来 上 大 为 和 国 地 到 以 说 时 要 就 出 会 "
    "可 也 你 对 生 能 而 子 那 得 于",
}
WITHOUT_SPACES = ("ja", "zh")
HARD = (
    "``quoted''", "“so”", "№ 5", "ﬁre", "½", "Ａｂｃ", "①", "e\u0301te\u0301", "q\u0323\u0307", "soft\u00adhyphen",
    "zero\u200bwidth", "a\u00a0b", "tab\tbed", "…",
    "😀", "☂", "👨\u200d👩", "ΟΔΟΣ ΑΣ.", "İstanbul", "ß ẞ ǰ ŉ", "ｶﾞ",
    "ก็ทำ", "ক\u09c7\u09be", "x² y₃", "a.b@c.de", "##ing", "300,000,000", "1,5", "۱۲۳",
)  # fmt: skip


@dataclass(frozen=True)
class IdentitySettings:
    """What is compared, and where.

    Attributes:
      model: any encoder with a vocabulary. Default: the one that the page describes.
      text: files with one text per line, instead of the text by rule; globs and commas are allowed.
      lines: number of lines.
      pairs: number of pairs of lines.
      peers: the Python that has transformers, sentence-transformers and keras-hub.
      transformers_js: a folder with node_modules.
      output: folder for the files; those that are there are taken. Default: a temporary one.
    """

    model: str = ""
    text: str = ""
    lines: int = 10_000
    pairs: int = 1_000
    peers: str = sys.executable
    transformers_js: str = ""
    output: str = ""


class Outputs(NamedTuple):
    """Of each row the ids, None if the runtime takes them from us, the token types, and the vector."""

    version: str
    vectors: np.ndarray
    ids: list[list[int]] | None = None
    types: list[list[int]] | None = None


@dataclass
class Consumer:
    """A program that runs the model.

    Attributes:
      name: in the table.
      run: takes the rows, each of one text or two, and returns the outputs; raises `Missing` if it cannot run.
      share: of rows whose ids must be equal.
      why: what makes ids differ.
    """

    name: str
    run: Callable[[list[list[str]]], Outputs]
    share: float = 1.0
    why: str = ""


class Missing(Exception):  # noqa: N818 - no error
    """Why a consumer is skipped."""


class Failed(Missing):
    """Why a consumer that is installed did not run."""


def lines_by_rule(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Lines of each language."""
    texts = {}
    for number, (language, given) in enumerate(SYLLABLES.items()):
        rng, syllables = np.random.default_rng([seed, number]), given.split()
        lexicon = ["".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(2000)]
        chances = 1 / np.arange(1, len(lexicon) + 1)
        texts[language] = [
            _line(rng, rng.choice(lexicon, rng.integers(3, 15), p=chances / chances.sum()), language)
            for _ in range(count // len(SYLLABLES))
        ]
    return texts


def _line(rng: np.random.Generator, words: np.ndarray, language: str) -> str:
    chosen = [str(word) for word in words]
    chosen[0] = chosen[0].capitalize()
    draw = rng.random(4)
    if draw[0] < 0.1:
        chosen[-1] = chosen[-1].upper()
    if draw[1] < 0.2:
        chosen.insert(len(chosen) // 2, f"{rng.integers(1, 10**6):,}")
    if draw[2] < 0.1:
        chosen.insert(1, HARD[rng.integers(len(HARD))])
    if draw[3] < 0.3:
        chosen[len(chosen) // 2] += ","
    return ("" if language in WITHOUT_SPACES else " ").join(chosen) + str(
        rng.choice([".", "!", "?", "。", ""])
    )


def write_model(folder: Path, texts: dict[str, list[str]]) -> None:
    """The model of random weights, as a Hugging Face directory."""
    from albert_tf.checkpoints.huggingface import write_huggingface
    from albert_tf.checkpoints.stored import StoredModel
    from albert_tf.config import AlbertConfig
    from albert_tf.model.pretrainer import AlbertPretrainer
    from albert_tf.model.weights import weights_of

    # No piece ends in a digit and a comma: ALBERT splits those, which transformers cannot (docs/convert.md).
    plain = {name: [re.sub(r"(?<=\d),", " ", line) for line in lines] for name, lines in texts.items()}
    vocabulary = train(KINDS[0], plain, 6000)
    sizes = {"embedding_size": 64, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = AlbertConfig(
        vocab_size=vocabulary.count_pieces(),
        intermediate_size=512,
        max_position_embeddings=LENGTH,
        initializer_range=0.15,
        **sizes,
    )
    weights = weights_of(AlbertPretrainer(config, seed=0, dtype="float32"))
    folder.mkdir()
    write_huggingface(StoredModel("run", folder, config, weights, vocabulary), folder)


def consumers(folder: Path, reference: Outputs, settings: IdentitySettings) -> Iterator[Consumer]:
    """All consumers; the folder holds the model in each format."""

    def peer(library: str, where: str) -> Callable[[list[list[str]]], Outputs]:
        return lambda rows: run_peer(settings.peers, library, folder / where, rows)

    yield Consumer("Keras, converted to a SavedModel", lambda rows: run_savedmodel(folder, rows))
    for name, run in (
        ("ONNX Runtime", run_onnxruntime),
        ("OpenVINO", run_openvino),
        ("LiteRT", run_litert),
    ):
        yield Consumer(name, lambda rows, run=run: run(folder, reference))  # type: ignore[misc]
    ties = "two segmentations have the same score"
    yield Consumer("transformers", peer("transformers", "huggingface"), 0.998, ties)
    yield Consumer(
        "transformers, the folder for Transformers.js",
        peer("transformers", "onnx"),
        0.7,
        "AlbertTokenizer leaves Korean syllables in parts, drops vowel signs of Hindi, has no final sigma, and "
        "makes `` and '' quotation marks",
    )
    yield Consumer("sentence-transformers", peer("sentence_transformers", "huggingface"), 0.998, ties)
    yield Consumer(
        "KerasHub",
        peer("keras_hub", "kerashub"),
        0.2,
        "it does not lower-case, strip accents or replace quotes",
    )
    yield Consumer(
        "Transformers.js",
        lambda rows: run_javascript(settings.transformers_js, folder / "onnx", rows),
        0.99,
        "it has NFKC in place of SentencePiece's table",
    )


def features_of(ids: list[list[int]], types: list[list[int]]) -> list[dict[str, np.ndarray]]:
    """Rows as the runner takes them."""
    arrays = (np.array(ids_row, np.int32) for ids_row in ids)
    return [
        {"input_ids": row, "token_type_ids": np.array(type_row, np.int32)}
        for row, type_row in zip(arrays, types, strict=True)
    ]


def means(run: Callable[[dict], Any], ids: list[list[int]], types: list[list[int]]) -> np.ndarray:
    """The mean of the vectors (B, T, H) that `run` returns for batches, of each row."""
    from albert_tf.tasks.runner import FunctionRunner

    def mean(batch):
        weights = batch["input_mask"][:, :, None].astype(np.float32)
        return {"mean": (np.asarray(run(batch)) * weights).sum(axis=1) / weights.sum(axis=1)}

    return np.stack([row["mean"] for row in FunctionRunner(mean).rows(features_of(ids, types))])


def run_reference(source: str | Path, rows: list[list[str]]) -> Outputs:
    """This library in Keras."""
    import keras

    from albert_tf.runtime.pretrained import load_pretrained
    from albert_tf.tasks.features import joined

    loaded = load_pretrained(source, dtype="float32")
    if loaded.tokenizer is None:
        raise InputError(f"--model must have a vocabulary. {source} has none.")
    encoded = [[*map(np.asarray, loaded.tokenizer.encode_batch(row)), None] for row in rows]
    features = [joined(row[0], row[1], loaded.tokenizer, LENGTH) for row in encoded]
    ids, types = ([row[name].tolist() for row in features] for name in ("input_ids", "token_type_ids"))
    vectors = means(lambda batch: loaded.encoder.predict_on_batch(batch)["sequence_output"], ids, types)
    return Outputs(f"Keras {keras.version()}", vectors, ids, types)


def run_savedmodel(folder: Path, rows: list[list[str]]) -> Outputs:
    """The exports of the preprocessor and of the encoder in TensorFlow."""
    import tensorflow as tf

    from albert_tf.tasks.hub_names import to_hub_names

    if importlib.util.find_spec("tensorflow_text") is None:
        raise Missing("tensorflow-text is not installed")
    preprocessor = tf.saved_model.load(str(folder / "preprocessor"))
    encoder = tf.saved_model.load(str(folder / "encoder"))
    ids, types = [], []
    for length in (1, 2):
        chosen = [row for row in rows if len(row) == length]
        for first in range(0, len(chosen), 256):
            columns = zip(*chosen[first : first + 256], strict=True)
            segments = [preprocessor.tokenize(tf.constant(list(column))) for column in columns]
            packed = preprocessor.bert_pack_inputs(segments, tf.constant(LENGTH))
            masks = packed["input_mask"].numpy() > 0
            for name, found in (("input_word_ids", ids), ("input_type_ids", types)):
                found += [row[m].tolist() for row, m in zip(packed[name].numpy(), masks, strict=True)]
    vectors = means(lambda batch: encoder(to_hub_names(batch))["sequence_output"], ids, types)
    return Outputs(f"TensorFlow {tf.__version__}", vectors, ids, types)


def _hub_inputs(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}
    return {theirs: batch[ours].astype(np.int64) for theirs, ours in names.items()}


def run_onnxruntime(folder: Path, reference: Outputs) -> Outputs:
    """onnx/model.onnx of Hugging Face's layout."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        folder / "onnx" / "onnx" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    run = lambda batch: session.run(["last_hidden_state"], _hub_inputs(batch))[0]  # noqa: E731
    return Outputs(f"ONNX Runtime {onnxruntime.__version__}", means(run, reference.ids, reference.types))


def run_openvino(folder: Path, reference: Outputs) -> Outputs:
    """The same file."""
    if importlib.util.find_spec("openvino") is None:
        raise Missing("openvino is not installed")
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(folder / "onnx" / "onnx" / "model.onnx"), "CPU", options)
    run = lambda batch: model(_hub_inputs(batch))["last_hidden_state"]  # noqa: E731
    version = importlib.metadata.version("openvino")
    return Outputs(f"OpenVINO {version}", means(run, reference.ids, reference.types))


def run_litert(folder: Path, reference: Outputs) -> Outputs:
    """model.tflite of the encoder."""
    from albert_tf.tasks.hub_names import to_hub_names
    from export.litert import litert_runner

    if importlib.util.find_spec("ai_edge_litert") is None:
        raise Missing("ai-edge-litert is not installed")
    runner = litert_runner(folder / "litert" / "model.tflite")
    vectors = means(
        lambda batch: runner(to_hub_names(batch))["sequence_output"], reference.ids, reference.types
    )
    return Outputs(f"LiteRT {importlib.metadata.version('ai-edge-litert')}", vectors)


def run_peer(python: str, library: str, folder: Path, rows: list[list[str]]) -> Outputs:
    """A library of the extra [peers], in a process of its own."""
    if library == "sentence_transformers":
        rows = [row for row in rows if len(row) == 1]
    probe = subprocess.run([python, "-c", f"import {library}"], capture_output=True, check=False)
    if probe.returncode:
        raise Missing(f"{library.replace('_', '-')} is not installed for --peers={python}")
    with tempfile.TemporaryDirectory() as scratch:
        rows_file, outputs = Path(scratch, "rows.json"), Path(scratch, "outputs.npz")
        rows_file.write_text(json.dumps(rows), encoding="utf-8")
        script = Path(__file__).with_name("identity_peers.py")
        _run([python, "-P", str(script), library, str(folder), str(rows_file), str(outputs)])
        with np.load(outputs) as arrays:
            ends = np.cumsum(arrays["lengths"])[:-1]
            ids, types = (
                [part.tolist() for part in np.split(arrays[name], ends)] for name in ("ids", "types")
            )
            return Outputs(str(arrays["version"]), arrays["vectors"], ids, types)


def run_javascript(modules: str, folder: Path, rows: list[list[str]]) -> Outputs:
    """Transformers.js on Node.js."""
    if not modules or shutil.which("node") is None:
        raise Missing("--transformers_js is not given" if not modules else "Node.js is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        rows_file, outputs = Path(scratch, "rows.json"), Path(scratch, "outputs.jsonl")
        rows_file.write_text(json.dumps(rows), encoding="utf-8")
        script = Path(__file__).with_name("identity.mjs")
        _run(
            [
                "node",
                str(script),
                str(folder.absolute()),
                str(rows_file),
                str(outputs),
                str(Path(modules).absolute()),
            ]
        )
        version, *found = [json.loads(line) for line in outputs.read_text(encoding="utf-8").splitlines()]
    ids, types, vectors = zip(*found, strict=True)
    return Outputs(version, np.array(vectors), list(ids), list(types))


def _run(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        print(f"{' '.join(command)} failed:\n{process.stderr[-3000:]}", file=sys.stderr)
        raise Failed(f"failed: {(process.stderr.strip() or 'no reason').splitlines()[-1]}")


def write_formats(source: str | Path, folder: Path) -> None:
    """The model in the format of each consumer; each conversion compares outputs itself."""
    from albert_tf.conversion.convert import convert
    from export.huggingface_layout import add_onnx
    from export.litert import LITERT
    from export.write import export_for_runtime, export_model

    writers: dict[str, Callable[[Path], Any]] = {
        "huggingface": lambda made: convert(source, made, "huggingface", pooling="mean"),
        "onnx": lambda made: convert(source, made, "huggingface", pooling="mean", write_more=add_onnx),
        "kerashub": lambda made: convert(source, made, "kerashub"),
        "preprocessor": lambda made: export_model(source, made, "preprocessor", seq_length=LENGTH),
        "encoder": lambda made: export_model(source, made, "encoder"),
    }
    if all(map(importlib.util.find_spec, LITERT.packages)):
        writers["litert"] = lambda made: export_for_runtime(source, made, "litert", kind="encoder")
    for name, write in writers.items():
        if not (folder / name).exists():
            write(folder / name)


def compared(found: Outputs, reference: Outputs, count: int) -> tuple[list[str], float, float]:
    """The cells of a row of the table, the share of equal rows, and the largest difference of theirs.

    Args:
      found: of a consumer; of the lines alone, if it takes no pairs.
      reference: ours.
      count: number of lines, which come before the pairs.
    """
    assert reference.ids and reference.types
    N = len(found.vectors)
    ours = list(zip(reference.ids[:N], reference.types[:N], strict=True))
    theirs = ours if found.ids is None else list(zip(found.ids, found.types or [], strict=True))
    equal = np.array([a == b for a, b in zip(ours, theirs, strict=True)])
    expected = reference.vectors[:N].astype(np.float64)
    difference = np.abs(found.vectors - expected).max(axis=1)
    lengths = np.linalg.norm(found.vectors, axis=1) * np.linalg.norm(expected, axis=1)
    cosine = (found.vectors * expected).sum(axis=1) / lengths
    cells = []
    for part in (slice(count), slice(count, None)):
        if not len(equal[part]):
            cells.append("none")
        elif found.ids is None:
            cells.append("takes ids")
        else:
            cells.append(f"{equal[part].mean():.2%}")
    largest = float(difference[equal].max())
    return (
        [found.version, *cells, f"{largest:.1e}", f"{cosine[equal].min():.7f}"],
        float(equal.mean()),
        largest,
    )


def main(settings: IdentitySettings) -> None:
    """Writes the model in all formats, runs all consumers, and prints the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(settings.output or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        texts = lines_by_rule(IdentitySettings.lines)
        lines = [line for of_language in zip(*texts.values(), strict=True) for line in of_language]
        lines = lines[: settings.lines]
        if settings.text:
            lines = spread_lines(map(str, expand_files(settings.text)), settings.lines)
        source = settings.model or folder / "model"
        if not Path(source).exists() and not settings.model:
            write_model(folder / "model", texts)
        half = len(lines) // 2
        pairs = [[lines[i], lines[half + i]] for i in range(min(settings.pairs, half))]
        rows = [*([line] for line in lines), *pairs]
        write_formats(source, folder)
        reference = run_reference(source, rows)
        cells, faults = [["albert_tf, the reference", reference.version, "", "", "", "", ""]], []
        for consumer in consumers(folder, reference, settings):
            try:
                found = consumer.run(rows)
            except Missing as reason:
                cells.append([consumer.name, "not run", "", "", "", "", str(reason)])
                faults += [consumer.name] * isinstance(reason, Failed)
                continue
            row, share, largest = compared(found, reference, len(lines))
            cells.append([consumer.name, *row, consumer.why if share < 1 else ""])
            print(*cells[-1], sep="; ", flush=True)
            if share < consumer.share or not largest <= TOLERANCE:
                faults.append(consumer.name)
    print(f"\n{len(lines):,} lines, {len(pairs):,} pairs\n")
    header = ("consumer", "version", "lines with equal ids", "pairs with equal ids", "largest difference")
    print(markdown_table((*header, "lowest cosine", "why ids differ, or why it was not run"), cells))
    if faults:
        raise SystemExit(f"\nOther ids or vectors than they must have: {', '.join(faults)}")


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, IdentitySettings, __doc__))
