"""Compares the ids of the tokenizer class, its graph, an export and transformers where accents are kept.

For example:

    python -m experiments.tokenizer_agreement --text='de=novel.txt' --text='hi=news.txt' --lines=2000

For each language a vocabulary with accents is trained on its text. Lines are the text's, spread evenly. The class
is the reference. transformers runs if it is installed (the extra [peers]), with the tokenizer.json that
`albert convert` writes, and with spiece.model alone, from which it is known to tokenize three kinds of lines
differently (docs/fidelity.md). Prints one JSON object.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.conversion import peers
from data_prep.errors import InputError
from data_prep.files import read_text
from data_prep.text.sources import expand_files
from data_prep.tokenizers.vocabulary import TOKENIZER_CONFIG, Vocabulary
from data_prep.tokenizers.vocabulary_training import USER_SYMBOLS, VocabularySettings, train_vocabulary

# What transformers is known to do differently, in this order.
RULES = {
    "digit and comma": re.compile(r"\d,"),
    "quotes of backquotes or apostrophes": re.compile(r"``|''"),
    "characters of added symbols": re.compile("[" + re.escape("".join(USER_SYMBOLS)) + "]"),
}


@dataclass(frozen=True)
class AgreementSettings:
    """What is compared.

    Attributes:
      text: LANGUAGE=FILES of text with one text per line; give the flag once per language. Globs and commas are
        allowed.
      lines: maximum number of lines per language.
      vocab_size: number of pieces in the vocabulary, V.
      character_coverage: share of the text's characters that get a piece, as in `albert vocab`.
    """

    text: tuple[str, ...]
    lines: int = 2000
    vocab_size: int = 8000
    character_coverage: float = 0.9995


def main(settings: AgreementSettings) -> dict[str, Any]:
    """Compares all languages and prints the result."""
    result = {}
    for given in settings.text:
        language, _, files = given.partition("=")
        if not files:
            raise InputError(f"--text must be LANGUAGE=FILES. Received {given!r}.")
        with tempfile.TemporaryDirectory() as folder:
            lines = spread_lines(expand_files(files), settings.lines)
            result[language] = compare(train(files, settings, Path(folder)), lines, Path(folder))
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return result


def spread_lines(files: Iterable[str], most: int) -> list[str]:
    """Lines with text, spread evenly over the files."""
    lines = [line.strip() for file in files for line in read_text(file).split("\n")]
    lines = [line for line in lines if line]
    return lines if len(lines) <= most else [lines[i * len(lines) // most] for i in range(most)]


def train(files: str, settings: AgreementSettings, folder: Path) -> Vocabulary:
    """A vocabulary of the text that keeps accents."""
    flags = VocabularySettings(
        files,
        str(folder / "spm"),
        vocab_size=settings.vocab_size,
        keep_accents=True,
        character_coverage=settings.character_coverage,
    )
    return Vocabulary.read(train_vocabulary(flags))


def compare(vocabulary: Vocabulary, lines: Sequence[str], folder: Path) -> dict[str, Any]:
    """How many lines the graph, an export and transformers tokenize unlike the class.

    Returns:
      "lines", "pieces", and for each of the others the count of lines that differ; of transformers by rule.
    """
    from albert_tf.model.pretrainer import AlbertPretrainer
    from albert_tf.pretrained.huggingface import write_huggingface
    from albert_tf.pretrained.stored import StoredModel
    from albert_tf.pretrained.weights import weights_of
    from data_prep.in_graph import make_graph_tokenizer
    from data_prep.tokenizers.tokenizer_json import TOKENIZER_JSON

    tokenizer = vocabulary.tokenizer()
    expected = [ids.tolist() for ids in tokenizer.encode_batch(lines)]
    config = AlbertConfig(
        vocab_size=vocabulary.count_pieces(),
        embedding_size=4,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
    )
    weights = weights_of(AlbertPretrainer(config, seed=0))
    (folder / "hf").mkdir()
    write_huggingface(StoredModel("huggingface", folder, config, weights, vocabulary), folder / "hf")
    graph = make_graph_tokenizer(tokenizer)
    others = {
        "graph": graph.tokenize(list(lines)).to_list(),
        "export": _ids_of_export(folder, lines),
    }
    result: dict[str, Any] = {"lines": len(lines), "pieces": sum(map(len, expected))}
    for name, found in others.items():
        result[name] = sum(a != b for a, b in zip(found, expected, strict=True))
    if peers.is_installed("huggingface"):
        result["transformers"] = differences_by_rule(
            lines, _ids_of_transformers(folder / "hf", lines), expected
        )
        (folder / "hf" / TOKENIZER_JSON).unlink()
        (folder / "hf" / TOKENIZER_CONFIG).unlink()
        found = _ids_of_transformers(folder / "hf", lines, keep_accents=True)
        result["transformers, spiece.model alone"] = differences_by_rule(lines, found, expected)
    return result


def _ids_of_export(folder: Path, lines: Sequence[str]) -> list[list[int]]:
    import tensorflow as tf

    from export.run import export_model

    export_model(folder / "hf", folder / "export", "preprocessor")
    preprocessor = tf.saved_model.load(folder / "export")
    return preprocessor.tokenize(tf.constant(lines)).to_list()


def _ids_of_transformers(folder: Path, lines: Sequence[str], **options) -> list[list[int]]:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    return tokenizer(list(lines), add_special_tokens=False)["input_ids"]


def differences_by_rule(
    lines: Sequence[str], found: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]
) -> dict[str, int]:
    """The number of lines that differ, under the first of `RULES` that a line falls under, else "no rule".

    >>> differences_by_rule(["on 5, 6", "yes", "no"], [[1], [2], [3]], [[0], [2], [4]])
    {'digit and comma': 1, 'no rule': 1}
    """
    differing = [line for line, a, b in zip(lines, found, expected, strict=True) if list(a) != list(b)]
    rules = (
        next((name for name, rule in RULES.items() if rule.search(line)), "no rule") for line in differing
    )
    return dict(Counter(rules))


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, AgreementSettings, __doc__))
