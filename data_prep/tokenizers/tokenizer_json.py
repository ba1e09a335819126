"""Hugging Face's tokenizer.json to a vocabulary: Unigram and BPE for SentencePiece, WordPiece for vocab.txt."""

import base64
import binascii
import math
import re
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from data_prep.errors import InputError
from data_prep.files import check_file, read_json_object
from data_prep.tokenizers.albert_tokenizer import load_sentencepiece
from data_prep.tokenizers.charsmap import SEPARATOR, all_characters, charsmap_keys, compiled_charsmap
from data_prep.tokenizers.digit_comma import SPACE, is_split
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.tokenizer_json_writing import (
    BEFORE_MARKS,
    FINAL_SIGMA,
    NEVER,
    PREFIX,
    REMOVE_EXTRA_SPACES,
    REMOVE_SPACE,
    REMOVE_STOP,
    SUFFIX,
    Step,
)
from data_prep.tokenizers.vocabulary import Vocabulary, wordpiece_normalization

TOKENIZER_JSON = "tokenizer.json"
_MOST_BYTES = 1 << 28  # a vocabulary of 30,000 pieces has 2 MB
_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
_LONGEST_WHOLE = 6  # bytes: shorter characters with their marks are looked up by tokenizers
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_QUOTES = ("``", "''")  # which transformers replaces by "
_SPACES = " {2,}"
# What the file's table already did: the texts of a file that transformers made are left as they are.
_AS_IN_TABLE = Normalization(do_lower_case=False, keep_accents=True, remove_space=False)


def read_tokenizer_json(path: Path) -> Vocabulary:
    """Reads what transformers 5 saves in place of spiece.model or vocab.txt.

    Texts are normalized as transformers does it: its rules become the SentencePiece model's table of characters.
    `other_ids` says which texts get other ids nevertheless.
    """
    check_file(path, _MOST_BYTES)
    values = read_json_object(path)
    try:
        kind = values["model"]["type"]
        if kind in ("Unigram", "BPE"):
            return _sentencepiece(values, path)
        if kind == "WordPiece":
            return _wordpiece(values, path)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is not a complete tokenizer of transformers ({reason}).") from None
    raise InputError(f"{path} must have a model of the type Unigram, BPE or WordPiece. Received {kind!r}.")


def other_ids(path: Path) -> str:
    """The kinds of texts for which transformers may compute other ids from a file than we do, in words, or "".

    A file that `write_tokenizer_json` wrote, or transformers after loading it, gives the same ones.
    """
    values = read_json_object(path)
    if values["model"]["type"] == "WordPiece":
        return ""
    names = [step["type"] for step in _steps(values["pre_tokenizer"], "pretokenizers")]
    added = [token["content"] for token in values["added_tokens"] if not token["special"]]
    pieces = values["model"]["vocab"]
    pieces = [piece for piece in pieces if values["model"]["type"] == "BPE"] or [piece for piece, _ in pieces]
    texts = []
    if any(is_split(piece) for piece in pieces if not piece.startswith(NEVER)):
        texts.append("numbers with a comma")
    if added:
        texts.append(f"words around {' '.join(added)}")
    if SPACE not in pieces:
        texts.append("unknown words in a row")
    if names == ["Metaspace"]:
        texts.append("texts with a space at the end, or several in a row")
    return ", ".join(texts)


def _sentencepiece(values: dict[str, Any], path: Path) -> Vocabulary:
    model = values["model"]
    scored = _scored(model)
    unknown = model["unk_id"] if "unk_id" in model else model["vocab"][model["unk_token"]]
    added = {token["content"]: token["special"] for token in values["added_tokens"]}
    has_bytes = bool(model.get("byte_fallback"))
    proto = sentencepiece_model_pb2.ModelProto()
    for piece, score in _with_added(scored, values, path):
        if not isinstance(piece, str) or not isinstance(score, int | float) or not math.isfinite(score):
            raise InputError(
                f"{path}: a piece must be a string with a number. Received {piece!r}, {score!r}."
            )
        kind = _PIECE.NORMAL
        if piece in added:
            kind = _PIECE.CONTROL if added[piece] else _PIECE.USER_DEFINED
        elif has_bytes and _BYTE.fullmatch(piece):
            kind = _PIECE.BYTE
        proto.pieces.add(piece=piece, score=score, type=kind)
    if not 0 <= unknown < len(proto.pieces):
        raise InputError(f"{path}: an ALBERT vocabulary must have an unknown piece. It does not.")
    proto.pieces[unknown].type = _PIECE.UNKNOWN

    pieces = [piece.piece for piece in proto.pieces]
    trainer = proto.trainer_spec
    trainer.model_type = trainer.BPE if model["type"] == "BPE" else trainer.UNIGRAM
    trainer.vocab_size, trainer.byte_fallback = len(pieces), has_bytes
    trainer.unk_id, trainer.unk_piece = unknown, pieces[unknown]
    trainer.pad_id, trainer.pad_piece = pieces.index("<pad>"), "<pad>"
    trainer.bos_id = trainer.eos_id = -1
    steps = _steps(values["normalizer"], "normalizers")
    before = _steps(values["pre_tokenizer"], "pretokenizers")
    if any(step.get("pattern") == {"Regex": BEFORE_MARKS} for step in steps):
        normalization = _own_rules(steps, before, proto, path)
    else:
        normalization = _rules_as_table(steps, before, proto, path)
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString(), normalization, str(path))
    vocabulary.count_pieces()  # reads the model
    return vocabulary


def _scored(model: dict[str, Any]) -> list[tuple[str, float]]:
    """The pieces and their scores; those of BPE fall in the order in which pieces are merged."""
    if model["type"] == "Unigram":
        return [(piece, score) for piece, score in model["vocab"]]
    merged = dict.fromkeys("".join(pair) for pair in model["merges"])
    scores = {piece: -float(i) for i, piece in enumerate(merged)}
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return [(piece, scores.get(piece, -float(len(merged)))) for piece in pieces]


def _own_rules(steps: list[Step], before: list[Step], proto: Any, path: Path) -> Normalization:
    """The rules that `write_tokenizer_json` wrote into a file."""
    spec, names = proto.normalizer_spec, [step["type"] for step in before]
    in_words = "WhitespaceSplit" in names
    tables = [_charsmap(step, path) for step in steps if step["type"] == "Precompiled"]
    spec.precompiled_charsmap = tables[1] if len(tables) > 1 else b""
    spec.add_dummy_prefix = in_words or PREFIX in steps or SUFFIX in steps
    spec.remove_extra_whitespaces = in_words or REMOVE_EXTRA_SPACES[0] in steps
    proto.trainer_spec.treat_whitespace_as_suffix = SUFFIX in steps
    return Normalization(
        do_lower_case=any(step.get("content") == FINAL_SIGMA for step in steps),
        keep_accents=REMOVE_STOP in steps,
        remove_space=in_words or REMOVE_SPACE[0] in steps,
    )


def _rules_as_table(steps: list[Step], before: list[Step], proto: Any, path: Path) -> Normalization:
    """The normalizers of transformers, which treat each character on its own, as the model's table."""
    from tokenizers import normalizers  # imported here, since only this and tokenizer_json_writing.py need it

    replaced, names = [], []
    for step in steps:
        if step["type"] != "Replace":
            names.append(step["type"])
        elif (text := next(iter(step["pattern"].values()))) in _QUOTES:
            replaced.append((text, step["content"]))
        elif text != _SPACES:
            raise InputError(
                f"{path}: ALBERT replaces the quotes `` and '' and several spaces. Received {text!r}."
            )
    expected = ["NFKD", "StripAccents"] * (names[:2] == ["NFKD", "StripAccents"])
    expected += [name for name in ("Lowercase", "Precompiled") if name in names]
    if names != expected:
        raise InputError(
            f"{path}: ALBERT's normalizers are NFKD with StripAccents, Lowercase and Precompiled, in this order. "
            f"Received {', '.join(names)}."
        )
    kinds = [step["type"] for step in before]
    if kinds not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"]):
        raise InputError(
            f"{path}: ALBERT's pre-tokenizers are WhitespaceSplit and Metaspace. Received {', '.join(kinds)}."
        )
    replacement = before[-1].get("replacement", SPACE)
    if replacement != SPACE:
        raise InputError(f"{path}: Metaspace must replace spaces by {SPACE}. Received {replacement!r}.")
    keys = all_characters() + _composed(steps, path)
    normalized = SEPARATOR.join(keys)
    for step in steps:
        if step["type"] == "Precompiled":
            normalized = _replaced(normalized, _charsmap(step, path), path)
        elif step["type"] != "Replace":
            normalized = getattr(normalizers, step["type"])().normalize_str(normalized)
    table = dict(zip(keys, normalized.split(SEPARATOR), strict=True))
    if "WhitespaceSplit" in kinds:
        table |= {c: " " for c, found in table.items() if found.isspace() and found not in "\x1c\x1d\x1e\x1f"}
    for piece in proto.pieces:
        if SPACE in piece.piece[1:]:  # no word has it
            piece.type = _PIECE.UNUSED
    proto.normalizer_spec.precompiled_charsmap = compiled_charsmap(table | dict(replaced))
    proto.normalizer_spec.add_dummy_prefix = before[-1].get("prepend_scheme", "always") != "never"
    return _AS_IN_TABLE


def _composed(steps: list[Step], path: Path) -> list[str]:
    """A letter with its mark, in either case: tokenizers looks up only what is shorter than six bytes."""
    if any(step["type"] == "StripAccents" for step in steps):
        return []
    tables = [_charsmap(step, path) for step in steps if step["type"] == "Precompiled"]
    keys = [
        key
        for table in tables
        for key in charsmap_keys(table)
        if 1 < len(key) and len(key.encode()) < _LONGEST_WHOLE
    ]
    return list(dict.fromkeys(keys + [upper for key in keys if len(upper := key.upper()) == len(key)]))


def _replaced(text: str, charsmap: bytes, path: Path) -> str:
    """The parts of a text, each replaced as tokenizers does it: as a whole or character by character."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.pieces.add(piece="<unk>", type=_PIECE.UNKNOWN)
    proto.pieces.add(piece="a", type=_PIECE.NORMAL)
    spec = proto.normalizer_spec
    spec.precompiled_charsmap, spec.add_dummy_prefix, spec.remove_extra_whitespaces = charsmap, False, False
    spec.escape_whitespaces = False
    try:
        model = load_sentencepiece(proto.SerializeToString())
    except RuntimeError:
        raise InputError(f"{path}: `precompiled_charsmap` is not a table of SentencePiece.") from None
    parts = text.split(SEPARATOR)
    different = sorted(set(text) - {SEPARATOR})
    replaced = model.normalize(SEPARATOR.join(different)).split(SEPARATOR)
    each = {ord(c): found for c, found in zip(different, replaced, strict=True)}
    whole = {key for key in charsmap_keys(charsmap) if len(key.encode()) < _LONGEST_WHOLE}
    return SEPARATOR.join(model.normalize(part) if part in whole else part.translate(each) for part in parts)


def _charsmap(step: Step, path: Path) -> bytes:
    try:
        return base64.b64decode(step["precompiled_charsmap"], validate=True)
    except binascii.Error:
        raise InputError(f"{path}: `precompiled_charsmap` must be base64. It is not.") from None


def _wordpiece(values: dict[str, Any], path: Path) -> Vocabulary:
    model, normalizer = values["model"], values["normalizer"]
    rules = (
        normalizer["type"],
        normalizer["clean_text"],
        normalizer["handle_chinese_chars"],
        values["pre_tokenizer"]["type"],
        model["continuing_subword_prefix"],
    )
    if rules != ("BertNormalizer", True, True, "BertPreTokenizer", "##"):
        raise InputError(f"{path}: WordPiece must have BERT's rules for words. Received {rules}.")
    ids = model["vocab"]
    ordered = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in ordered] != list(range(len(ids))):
        raise InputError(f"{path}: the ids of the pieces must be 0, 1, 2, ... Received gaps or repetitions.")
    pieces = [piece for piece, _ in _with_added([(piece, 0.0) for piece in ordered], values, path)]
    if any(piece != piece.strip() or "\n" in piece for piece in pieces):
        raise InputError(f"{path}: a piece of WordPiece must not have white space at its ends.")
    normalization = wordpiece_normalization(
        normalizer["lowercase"], normalizer.get("strip_accents"), str(path)
    )
    return Vocabulary("wordpiece", ("\n".join(pieces) + "\n").encode(), normalization, str(path))


def _with_added(
    pieces: list[tuple[str, float]], values: dict[str, Any], path: Path
) -> list[tuple[str, float]]:
    """The pieces, followed by the added tokens that are not among them."""
    pieces = list(pieces)
    for token in sorted(values["added_tokens"], key=lambda token: token["id"]):
        if token["id"] == len(pieces):
            pieces.append((token["content"], 0.0))
        if not 0 <= token["id"] < len(pieces) or pieces[token["id"]][0] != token["content"]:
            raise InputError(
                f"{path}: an added token must be the piece of its id. Received {token['content']!r} for "
                f"{token['id']}."
            )
    return pieces


def _steps(values: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """The members of a sequence, or a single step."""
    if values is None:
        return []
    return values[name] if values["type"] == "Sequence" else [values]
