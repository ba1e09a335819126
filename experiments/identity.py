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

import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from benchmarks.report import markdown_table
from data_prep.text.sources import expand_files
from experiments.identity_consumers import LENGTH, Failed, Missing, Outputs, consumers, run_reference
from experiments.tokenizer_agreement import KINDS, spread_lines, train

TOLERANCE = 1e-4
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
        for consumer in consumers(folder, reference, settings.peers, settings.transformers_js):
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
