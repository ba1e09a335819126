"""Compares the ids of the tokenizer class, its graph, a portable model and tokenizer.json, for many vocabularies.

For example:

    python -m experiments.tokenizer_agreement --text='de=novel.txt' --text='hi=news.txt' --lines=2000

Small vocabularies of all kinds are trained on the texts; albert_small_en and those of --vocab_file are compared,
too. Lines are the texts', spread evenly. The class is the reference for its graph, for the tokenizer of a portable
model, and for the tokenizer.json that `albert convert` writes: by Hugging Face's tokenizers, and read back. The
tokenizer.json that transformers saves is the reference for the vocabulary that is read from it. Prints a table in
Markdown and one JSON object. A cell is "equal", or the number of lines that differ in each language: after "told:"
if a conversion or the reader says so, after "ties:" if two segmentations have the same score but for rounding.
"not written" is told, too.
"""

import base64
import io
import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_cli import program
from albert_tf.checkpoints.sources import SHIPPED_FOLDER
from data_prep.errors import InputError
from data_prep.files import read_text, write_json
from data_prep.text.sources import expand_files
from data_prep.tokenizers.albert_tokenizer import CONTROL_SYMBOLS
from data_prep.tokenizers.normalization import RELEASED, Normalization, normalize
from data_prep.tokenizers.offsets import OffsetTables
from data_prep.tokenizers.tokenizer_json import TOKENIZER_JSON, other_ids, read_tokenizer_json
from data_prep.tokenizers.tokenizer_json_writing import is_tie, write_tokenizer_json
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_training import USER_SYMBOLS

Ids = dict[str, list[list[int]]]  # of the lines of each language
_KEPT = Normalization(keep_accents=True)
_CASED = Normalization(do_lower_case=False, keep_accents=True)


class Kind(NamedTuple):
    """A vocabulary to train: on all languages, or on one of the texts."""

    name: str
    normalization: Normalization = RELEASED
    options: dict[str, Any] = {}  # noqa: RUF012 - of the trainer; never changed
    language: str = ""


KINDS = (
    Kind("unigram, released rules"),
    Kind("unigram, accents kept", _KEPT),
    Kind("unigram, cased, accents kept", _CASED),
    Kind("unigram, cased", Normalization(do_lower_case=False)),
    Kind("unigram, white space kept", Normalization(remove_space=False)),
    Kind("Korean", language="ko"),
    Kind("Hindi", language="hi"),
    Kind("Thai, accents kept", _KEPT, language="th"),
    Kind("Greek, accents kept", _KEPT, language="el"),
    Kind("identity, cased", _CASED, {"normalization_rule_name": "identity"}),
    Kind("nfkc", _KEPT, {"normalization_rule_name": "nfkc"}),
    Kind("nmt_nfkc_cf", RELEASED, {"normalization_rule_name": "nmt_nfkc_cf"}),
    Kind("nmt_nfkc_cf, cased, accents kept", _CASED, {"normalization_rule_name": "nmt_nfkc_cf"}),
    Kind("byte_fallback", RELEASED, {"byte_fallback": True}),
    Kind("byte_fallback, accents kept", _KEPT, {"byte_fallback": True}),
    Kind("treat_whitespace_as_suffix", RELEASED, {"treat_whitespace_as_suffix": True}),
    Kind("split_by_whitespace=false", RELEASED, {"split_by_whitespace": False}),
    Kind("add_dummy_prefix=false", RELEASED, {"add_dummy_prefix": False}),
    Kind("remove_extra_whitespaces=false", RELEASED, {"remove_extra_whitespaces": False}),
    Kind("other user symbols", RELEASED, {"user_defined_symbols": ["<num>", "-", "http"]}),
    Kind("bpe", RELEASED, {"model_type": "bpe"}),
    Kind("bpe, accents kept, byte_fallback", _KEPT, {"model_type": "bpe", "byte_fallback": True}),
    Kind("char", RELEASED, {"model_type": "char"}),
    Kind("word", RELEASED, {"model_type": "word"}),
)


@dataclass(frozen=True)
class AgreementSettings:
    """What is compared.

    Attributes:
      text: LANGUAGE=FILES of text with one text per line; give the flag once per language. Globs and commas are
        allowed.
      vocab_file: further vocabularies.
      lines: maximum number of lines per language.
      vocab_size: number of pieces in the trained vocabularies, V; more if there are more characters.
    """

    text: tuple[str, ...]
    vocab_file: tuple[str, ...] = ()
    lines: int = 2000
    vocab_size: int = 8000


def main(settings: AgreementSettings) -> dict[str, Any]:
    """Compares all vocabularies in all languages and prints the result."""
    texts: dict[str, list[str]] = {}
    for given in settings.text:
        language, _, files = given.partition("=")
        if not files:
            raise InputError(f"--text must be LANGUAGE=FILES. Received {given!r}.")
        texts[language] = spread_lines(expand_files(files), settings.lines)
    vocabularies: dict[str, Vocabulary] = {
        "albert_small_en": Vocabulary.read(SHIPPED_FOLDER / "albert_small_en" / "spiece.model"),
        **{Path(file).stem: Vocabulary.read(file) for file in settings.vocab_file},
        "WordPiece": wordpiece(texts, settings.vocab_size),
    }
    for kind in KINDS:
        if kind.language in ("", *texts):
            vocabularies[kind.name] = train(kind, texts, settings.vocab_size)
    result: dict[str, Any] = {"lines": {language: len(lines) for language, lines in texts.items()}}
    ways = ("graph", "portable", "written", "written, read", "of transformers, read")
    print(f"| vocabulary | {' | '.join(ways)} |\n|{'---|' * (len(ways) + 1)}", flush=True)
    for name, vocabulary in vocabularies.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name] = compare(vocabulary, texts, Path(folder))
        print(f"| {name} | {' | '.join(result[name][way] for way in ways)} |", flush=True)
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return result


def spread_lines(files: Iterable[str], most: int) -> list[str]:
    """Lines with text, spread evenly over the files."""
    lines = [line.strip() for file in files for line in read_text(file).split("\n")]
    lines = [line for line in lines if line]
    return lines if len(lines) <= most else [lines[i * len(lines) // most] for i in range(most)]


def train(kind: Kind, texts: dict[str, list[str]], vocab_size: int) -> Vocabulary:
    """A vocabulary of the kind."""
    chosen = [texts[kind.language]] if kind.language else list(texts.values())
    lines = [normalize(line, kind.normalization) for lines in chosen for line in lines]
    characters = len(set("".join(lines)))
    model = io.BytesIO()
    settings = {
        "vocab_size": max(vocab_size, characters + 1000),
        "control_symbols": list(CONTROL_SYMBOLS),
        "user_defined_symbols": list(USER_SYMBOLS),
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "character_coverage": 0.9995,
        "hard_vocab_limit": False,
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **settings | kind.options
    )
    return Vocabulary("sentencepiece", model.getvalue(), kind.normalization, kind.name)


def wordpiece(texts: dict[str, list[str]], vocab_size: int) -> Vocabulary:
    """Characters, as words and within them, and the most frequent words."""
    words = " ".join(normalize(line) for lines in texts.values() for line in lines).split()
    names, counts = np.unique(words, return_counts=True)
    characters = sorted({character for word in words for character in word})
    frequent = names[np.argsort(-counts, kind="stable")][:vocab_size].tolist()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{c}" for c in characters)]
    content = "\n".join(dict.fromkeys(pieces + frequent)) + "\n"
    return Vocabulary("wordpiece", content.encode(), RELEASED, "WordPiece")


def compare(vocabulary: Vocabulary, texts: dict[str, list[str]], folder: Path) -> dict[str, str]:
    """What differs from the reference, for each way to compute ids."""
    from tokenizers import Tokenizer

    from data_prep.in_graph import make_graph_tokenizer

    def ids(tokenizer) -> Ids:
        return {name: [i.tolist() for i in tokenizer.encode_batch(lines)] for name, lines in texts.items()}

    def others(path: Path) -> Ids:
        tokenizer = Tokenizer.from_file(str(path))
        return {
            name: [encoding.ids for encoding in tokenizer.encode_batch(lines, add_special_tokens=False)]
            for name, lines in texts.items()
        }

    scores = _scores(vocabulary)
    tokenizer = vocabulary.tokenizer()

    def cell(found: Ids, expected: Ids, note: str = "") -> str:
        differing: dict[str, dict[str, int]] = {"told" if note else "differ": {}, "ties": {}}
        for language in texts:
            for a, b in zip(found[language], expected[language], strict=True):
                if a != b:
                    tie = scores and is_tie(tokenizer, scores, a, b)
                    counts = differing["ties" if tie else "told" if note else "differ"]
                    counts[language] = counts.get(language, 0) + 1
        parts = [
            f"{kind}: {', '.join(f'{language} {count}' for language, count in counts.items())}"
            for kind, counts in differing.items()
            if counts
        ]
        return "; ".join(parts) or "equal"

    ours = ids(tokenizer)
    graph = make_graph_tokenizer(tokenizer)
    saved = Vocabulary.read(vocabulary.save(folder))
    written, made = folder / TOKENIZER_JSON, folder / "made.json"
    if vocabulary.kind == "sentencepiece":
        tokenizer.offset_tables.write(folder / "tables.npz", "the vocabulary")
        saved = replace(saved, offset_tables=OffsetTables.read(folder / "tables.npz", "the vocabulary"))
        note = write_tokenizer_json(vocabulary, written)
        write_json(made, unigram_of_transformers(vocabulary))
    else:
        note = ""
        write_json(made, wordpiece_of_transformers(vocabulary))
        write_json(written, wordpiece_of_transformers(vocabulary))
    result = {
        "note": note,
        "graph": cell({name: graph.tokenize(lines).to_list() for name, lines in texts.items()}, ours),
        "portable": cell(ids(saved.tokenizer()), ours),
    }
    if written.exists():
        result["written"] = cell(others(written), ours, note)
        result["written, read"] = cell(ids(read_tokenizer_json(written).tokenizer()), ours, note)
    else:
        result |= {"written": "not written", "written, read": "not written"}
    found = read_tokenizer_json(made).tokenizer()
    return result | {"of transformers, read": cell(ids(found), others(made), other_ids(made))}


def _scores(vocabulary: Vocabulary) -> list[float]:
    """The pieces' scores; WordPiece has none."""
    if vocabulary.kind == "wordpiece":
        return []
    return [p.score for p in sentencepiece_model_pb2.ModelProto.FromString(vocabulary.content).pieces]


def unigram_of_transformers(vocabulary: Vocabulary) -> dict[str, Any]:
    """What transformers 5.24 saves after it has read spiece.model."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.content)
    rules, spec = vocabulary.normalization, proto.normalizer_spec
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")
    ]
    if not rules.keep_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if rules.do_lower_case:
        steps.append({"type": "Lowercase"})
    if charsmap := base64.b64encode(spec.precompiled_charsmap).decode():
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    names = ["<pad>", "<unk>", *CONTROL_SYMBOLS]
    names += [piece.piece for piece in proto.pieces if piece.type == piece.USER_DEFINED]
    pieces = [piece.piece for piece in proto.pieces]
    return {
        "version": "1.0",
        "added_tokens": [_added(pieces.index(name), name, i < 5) for i, name in enumerate(names)],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "model": {
            "type": "Unigram",
            "unk_id": proto.trainer_spec.unk_id,
            "vocab": [[piece.piece, piece.score] for piece in proto.pieces],
            "byte_fallback": False,
        },
    }


def wordpiece_of_transformers(vocabulary: Vocabulary) -> dict[str, Any]:
    """What transformers 5.24 saves after it has read vocab.txt."""
    pieces = vocabulary.content.decode().removesuffix("\n").split("\n")
    lower = vocabulary.normalization.do_lower_case
    rules = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lower}
    return {
        "version": "1.0",
        "added_tokens": [_added(i, name, True) for i, name in enumerate(pieces[:5])],
        "normalizer": {"type": "BertNormalizer", **rules},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: i for i, piece in enumerate(pieces)},
        },
    }


def _added(i: int, name: str, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": i, "content": name, **flags, "special": special}


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, AgreementSettings, __doc__))
