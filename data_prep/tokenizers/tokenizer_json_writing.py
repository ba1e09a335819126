"""Hugging Face's tokenizer.json of a SentencePiece vocabulary, written only if it gives the same ids."""

import base64
import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from data_prep.files import write_json
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer, load_sentencepiece
from data_prep.tokenizers.charsmap import SEPARATOR, all_characters, charsmap_keys, compiled_charsmap
from data_prep.tokenizers.digit_comma import SPACE, is_split
from data_prep.tokenizers.normalization import SIGMA, Normalization, normalize
from data_prep.tokenizers.vocabulary import Vocabulary

Step = dict[str, Any]
_MODEL = sentencepiece_model_pb2.ModelProto
_PIECE = _MODEL.SentencePiece
_TRAINER = sentencepiece_model_pb2.TrainerSpec
NEVER = " "  # begins the names of pieces that no text has: a space in a text becomes ▁
_BREAK, _STOP = "\ufffe", "\uffff"  # not characters, so no text has them
_MOST_MARKS = 3  # of one composed character: ᾂ
# Characters that may combine with the one before them, in Unicode's sense.
BEFORE_MARKS = r"(?<=\S)(?=[^\p{L}\p{N}\p{P}\p{S}\s]|[\x{e33}\x{eb3}\x{ff9e}\x{ff9f}\x{1f3fb}-\x{1f3ff}])"
# Python's rule for Σ at the end of a word; tokenizers' Lowercase knows only σ.
_CASED, _IGNORED = r"[\p{Cased}&&[^\p{Case_Ignorable}]]", r"\p{Case_Ignorable}*"
_FINAL_SIGMA = rf"{_CASED}{_IGNORED}\K[%s](?!{_IGNORED}{_CASED})"
FINAL_SIGMA = "ς"
_SIGMAS = SIGMA + "Ϲ𝚺𝛴𝜮𝝨𝞢"  # what becomes Σ if accents are dropped
_NUMBER = re.compile(r"\d,")


def _replace(pattern: str, content: str) -> Step:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _replace_string(text: str, content: str) -> Step:
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def _precompiled(charsmap: bytes) -> Step:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")}


# Steps that record what a file was written from: the rules of Normalization and of the model.
REMOVE_STOP = _replace_string(_STOP, "")  # keep_accents
REMOVE_SPACE = [_replace(" {2,}", " "), _replace(r"\A | \z", "")]
REMOVE_EXTRA_SPACES = [_replace("  +", " "), _replace(rf"\A |[ {SPACE}]+\z", "")]  # remove_extra_whitespaces
PREFIX, SUFFIX = {"type": "Prepend", "prepend": SPACE}, _replace(r"(?!\A)\z", SPACE)  # add_dummy_prefix
# Texts that tokenizers treats, or once treated, differently from SentencePiece.
_LINES = (
    "The captain sailed past 300 apples, in 1987.",
    "PEOPLE and Café №5, ﬁre, ½ … ﷺ Ⅷ cafe\u0301s \u0301a\u0315\u0300\u05ae\u0300b e\u0301\u0302 q\u0301\u0323",
    "항구는 아침 \u1112\u1161\u11bc\u1100\u116e\u1102\u1173\u11ab ㅎㅏㄴ ﾊﾝ ｶﾞ が か\u3099 \u1112\u1161\u1161",
    "छोटा हिन्दी ผู้หญิงทำน้ำ ক\u09c7\u09be \u09c7\u09be\u0bc6\u0bbe \u0958 ක\u0dd9\u0dcf",
    "5\ufe0f\u20e3 a\ufe0f b\u20e3 ☝🏽 👨\u200d👩\u200d👧 🇩🇪 😀 ☂ ☂☂ 𠀀 \U000e0041",
    "①\u0301 ﬁ\u0301 Ａ\u0301 \ufffd\u07a6",
    "ΟΔΟΣ ΟΔΟΣ. Σ ΑΣ'Α ΑΣ' ΣΑΣ ΑΣ\u00adΑ Α\u0345Σ ᾺΣ 𝚺 A𝚺 ΑΣ\u0301 İstanbul DİYARBAKIR ıI ẞß ŉ ǰ",
    "  two  spaces,\tand a tab\u00a0and more \u2003 \u2028line\u2029x\x0b\x0c\r\x1d\x1e\x1f end \u3000 a\x1cb",
    "zero\u200bwidth\u200d join\u200c, soft\u00adhyphen, \ufeffbom, control \x7f \x85 x\x01",
    "\x02 ´ ¨a \u200b \u200b",
    "▁already ▁marked▁ a▁▁b", "▁", " ", "", "\u0301", "▁ a ▁", "\u200b", "\ufffd a", "☂", "a ☂ ☂ b",
    "''quotes'' ``and`` “these” <0x41> <0xE2> ##ing mend-nets (a) a.b a-b - . \"", "a" * 300,
)  # fmt: skip


def write_tokenizer_json(vocabulary: Vocabulary, path: Path) -> str:
    """Writes a SentencePiece vocabulary as a tokenizer.json, if transformers computes the same ids from it.

    The content is tried first: on all characters, on the vocabulary's pieces and on texts that libraries treat
    differently. Two segmentations of equal score count as the same. transformers' own conversion of spiece.model
    makes "-", "." and other symbols added tokens, which end a word and swallow the space before them; here they
    are pieces like all others. A piece such as "300,", which ALBERT always splits, gets a name that no text has.

    Returns:
      What transformers computes differently, in a sentence without a full stop; usually nothing.
    """
    from tokenizers import Tokenizer  # imported here, since nothing else needs it

    tokenizer = vocabulary.tokenizer()
    assert isinstance(tokenizer, AlbertTokenizer)
    proto = _MODEL.FromString(tokenizer.serialized_model)
    if proto.trainer_spec.model_type == _TRAINER.WORD:
        return _not_written("any unknown words in a row", "WORD")
    values = _values(proto, tokenizer)
    theirs = Tokenizer.from_str(json.dumps(values))

    scores = [piece.score for piece in proto.pieces]

    def differing(lines: list[str]) -> Iterator[str]:
        others = (encoding.ids for encoding in theirs.encode_batch(lines, add_special_tokens=False))
        for line, ours, other in zip(lines, tokenizer.encode_batch(lines), others, strict=True):
            if ours.tolist() != other and not is_tie(tokenizer, scores, ours.tolist(), other):
                yield line

    def has_number(line: str) -> bool:
        return bool(_NUMBER.search("".join(tokenizer.pieces[i] for i in tokenizer.encode(line))))

    for line in differing(list(_trial_lines(proto, tokenizer.normalization))):
        if not has_number(line):
            word = next(differing(line.split()), line)
            return _not_written(repr(word), proto.trainer_spec.ModelType.Name(proto.trainer_spec.model_type))
    write_json(path, values)
    number = next(differing(list(_numbers(tokenizer.pieces))), None)
    return f"transformers gives other ids for some numbers with a comma, such as {number!r}" if number else ""


def _not_written(example: str, kind: str) -> str:
    type_is = "" if kind == "UNIGRAM" else f", though its type is {kind},"
    return (
        f"no tokenizer.json, because transformers would compute other ids from it, such as for {example}; from "
        f"spiece.model, which it reads as a Unigram model{type_is} with rules of its own, many ids are others, too"
    )


def write_plain_tokenizer_json(vocabulary: Vocabulary, path: Path) -> None:
    """Writes a tokenizer.json of plain steps, all of which Transformers.js computes.

    It reads neither the tables of Precompiled, in whose place it has NFKC, nor patterns with \\K. Only texts with
    control characters, tags and the like have other ids than the tokenizer's.
    """
    tokenizer = vocabulary.tokenizer()
    assert isinstance(tokenizer, AlbertTokenizer)
    write_json(path, _values(_MODEL.FromString(tokenizer.serialized_model), tokenizer, plain=True))


def is_tie(tokenizer: AlbertTokenizer, scores: Sequence[float], ours: list[int], theirs: list[int]) -> bool:
    """Whether two segmentations have the same score, except for rounding, which then decides."""
    texts = ["".join(tokenizer.pieces[i] for i in ids) for ids in (ours, theirs)]
    sums = [sum(scores[i] for i in ids) for ids in (ours, theirs)]
    return texts[0] == texts[1] and math.isclose(*sums, rel_tol=1e-6)


def _trial_lines(proto: Any, rules: Normalization) -> Iterator[str]:
    """Texts on which another tokenizer must give the same ids."""
    yield from _LINES
    texts = [piece.piece.replace(SPACE, " ").strip() for piece in proto.pieces if piece.type in _TEXTS]
    texts = [text for text in texts if not _NUMBER.search(text)]
    yield from _in_lines(texts)
    yield from _in_lines(unicodedata.normalize("NFD", text.upper()) for text in texts)
    # Only the first plane: in others, tokenizers does not compose what is new in Unicode.
    keys = charsmap_keys(proto.normalizer_spec.precompiled_charsmap)
    # Of 200,000 Korean syllables in three letters a fiftieth.
    keys = [key for i, key in enumerate(keys) if i % 50 == 0 or not _is_syllable_of_three(key)]
    yield from _in_lines(f"a{key}b" for key in keys if max(key) < "\U00010000")
    # Beside the keys, what the rules change and what may belong to the character before it; not syllables.
    yield from _in_lines(
        f"A{character}b {character}"
        for character in all_characters()
        if unicodedata.category(character)[0] in "MZ"
        or unicodedata.category(character) in ("Cc", "Cf")
        or (normalize(character, rules) != character and not "가" <= character <= "힣")
    )


def _is_syllable_of_three(key: str) -> bool:
    return len(key) == 3 and "가" <= unicodedata.normalize("NFKC", key) <= "힣"


_TEXTS = (_PIECE.NORMAL, _PIECE.USER_DEFINED)


def _numbers(pieces: Sequence[str]) -> Iterator[str]:
    """Texts with pieces that the digit-comma rule splits."""
    for piece in filter(is_split, pieces):
        text = piece.replace(SPACE, " ").strip()
        yield from (f"{before}{text}{after}" for before in ("", "1", "12") for after in ("", "000", "5", "b"))


def _in_lines(words: Iterable[str]) -> Iterator[str]:
    words = list(words)
    for first in range(0, len(words), 16):
        yield " ".join(words[first : first + 16])


def _values(proto: Any, tokenizer: AlbertTokenizer, *, plain: bool = False) -> dict[str, Any]:
    """The content of the file; with `plain` steps, of that for Transformers.js."""
    specials = {"<pad>": tokenizer.pad_id, "<unk>": tokenizer.unk_id, "[CLS]": tokenizer.cls_id}
    specials |= {"[SEP]": tokenizer.sep_id, "[MASK]": tokenizer.mask_id}
    names = _names(proto, tokenizer)
    byte_fallback = any(piece.type == _PIECE.BYTE for piece in proto.pieces)
    make_model = _bpe if proto.trainer_spec.model_type == _TRAINER.BPE else _unigram
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    normalizers, pre_tokenizers = _text_steps(proto, tokenizer.normalization, plain)
    if byte_fallback:  # a text "<0x41>" is not the byte
        split = {"type": "Split", "pattern": {"Regex": "<(?=0x[0-9A-F]{2}>)"}, "invert": False}
        pre_tokenizers.append({**split, "behavior": "MergedWithPrevious"})
    decoders = [{"type": "ByteFallback"}] * byte_fallback + [metaspace]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": name, **flags, "special": True}
            for name, i in sorted(specials.items(), key=lambda item: item[1])
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizers},
        "post_processor": _post_processor(specials),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {**make_model(proto, names), "byte_fallback": byte_fallback},
    }


def _text_steps(proto: Any, rules: Normalization, plain: bool) -> tuple[list[Step], list[Step]]:
    """Normalizers and pre-tokenizers: texts to words that begin with ▁, or one text if pieces cross words."""
    spec = proto.normalizer_spec
    model = load_sentencepiece(proto.SerializeToString())
    marks = f"[{_ranges([i for i in range(sys.maxunicode + 1) if unicodedata.combining(chr(i))])}]"
    make = _plain_steps if plain else _exact_steps
    steps = make(model, spec, rules, marks)
    crosses = any(SPACE in piece.piece[1:] for piece in proto.pieces)
    if not crosses and rules.remove_space and model.normalize(f"a{SPACE} b") == f"{SPACE}a{SPACE}b":
        metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
        return steps, [{"type": "WhitespaceSplit"}, metaspace]
    if rules.remove_space:
        steps += REMOVE_SPACE
    if spec.remove_extra_whitespaces:
        steps += REMOVE_EXTRA_SPACES
    if spec.escape_whitespaces:
        steps.append(_replace_string(" ", SPACE))
    if spec.add_dummy_prefix:
        steps.append(SUFFIX if proto.trainer_spec.treat_whitespace_as_suffix else PREFIX)
    split = {"type": "Split", "pattern": {"String": SPACE}, "behavior": "MergedWithNext", "invert": False}
    return steps, [] if crosses else [split]


def _composes(model: SentencePieceProcessor) -> bool:
    """Whether the model's normalization composes characters, as NFKC does; Precompiled replaces no sequences."""
    return model.normalize("\u1112\u1161").strip(SPACE) == "하"


def _plain_steps(model: SentencePieceProcessor, spec: Any, rules: Normalization, marks: str) -> list[Step]:
    """The normalization of characters by Unicode's own rules."""
    steps = [] if rules.keep_accents else [{"type": "NFKD"}, _replace(marks, "")]
    if rules.do_lower_case:
        steps.append({"type": "Lowercase"})
    if spec.precompiled_charsmap:
        steps.append(_precompiled(spec.precompiled_charsmap))
    return steps + [{"type": "NFC"}] * _composes(model)


def _exact_steps(model: SentencePieceProcessor, spec: Any, rules: Normalization, marks: str) -> list[Step]:
    """The normalization of characters by a table of all of them."""
    remove_break = _replace_string(_BREAK, "")
    sigmas = SIGMA if rules.keep_accents else _SIGMAS
    steps = [_replace(_FINAL_SIGMA % sigmas, FINAL_SIGMA)] if rules.do_lower_case else []
    # Precompiled replaces a character with its marks as a whole, if it replaces the character.
    steps += [
        _replace(BEFORE_MARKS, _BREAK),
        _precompiled(_table_of_characters(model, rules)),
    ]
    if spec.precompiled_charsmap:
        steps.append(_precompiled(spec.precompiled_charsmap))  # without effect here, but a reader needs it
    steps.append(remove_break)
    if _composes(model):
        if rules.keep_accents:
            # SentencePiece composes a character with the next mark, and neither sorts nor skips marks.
            steps += [
                _replace(f"(?<={marks})(?={marks})", _BREAK),
                {"type": "NFC"},
                remove_break,
            ] * _MOST_MARKS
        else:
            steps.append({"type": "NFC"})
    if rules.keep_accents:
        steps.append(REMOVE_STOP)
    return steps


def _table_of_characters(model: SentencePieceProcessor, rules: Normalization) -> bytes:
    """The rules and the model's own normalization of one character as a table for Precompiled."""
    characters = all_characters()
    in_place = replace(rules, remove_space=False)
    plain = [
        " " if rules.remove_space and character.isspace() else normalize(character, in_place)
        for character in characters
    ]
    escaped = model.normalize(SEPARATOR + SEPARATOR.join(plain) + SEPARATOR)
    keeps_sign = model.normalize(f"a{SPACE} b").count(SPACE * 2) > 0
    table = dict(
        zip(characters, escaped.strip(SPACE)[1:-1].replace(SPACE, " ").split(SEPARATOR), strict=True)
    )
    if keeps_sign:
        del table[SPACE]
    if rules.keep_accents:  # several characters are not composed with their neighbours
        table = {c: _STOP + found + _STOP if len(found) > 1 else found for c, found in table.items()}
    return compiled_charsmap(table)


def _ranges(codes: Iterable[int]) -> str:
    """The inside of a character class."""
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)


def _names(proto: Any, tokenizer: AlbertTokenizer) -> list[str]:
    """The pieces; those that the model does not find in texts get names that occur in no text."""
    are_split = np.diff(tokenizer.digit_comma.splits) > 1
    specials = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    return [
        f"{NEVER}{piece.piece}"
        if split or (piece.type in (_PIECE.CONTROL, _PIECE.UNUSED) and i not in specials)
        else piece.piece
        for i, (piece, split) in enumerate(zip(proto.pieces, are_split, strict=True))
    ]


def _unigram(proto: Any, names: list[str]) -> dict[str, Any]:
    # SentencePiece's score of user-defined pieces, whose `best` is never below 0.
    best = max(0.0, *(piece.score for piece in proto.pieces if piece.type == _PIECE.NORMAL))
    scores = [
        best * len(piece.piece) - 0.1 if piece.type == _PIECE.USER_DEFINED else piece.score
        for piece in proto.pieces
    ]
    return {
        "type": "Unigram",
        "unk_id": proto.trainer_spec.unk_id,
        "vocab": list(zip(names, scores, strict=True)),
    }


def _bpe(proto: Any, names: list[str]) -> dict[str, Any]:
    vocab = {name: i for i, name in enumerate(names)}
    merged = [
        (piece.piece, name)
        for piece, name in sorted(zip(proto.pieces, names, strict=True), key=lambda pair: -pair[0].score)
        if piece.type == _PIECE.NORMAL
    ]
    merges = [
        (name[:i], name[i:])
        for _, name in merged
        for i in range(1, len(name))
        if name[:i] in vocab and name[i:] in vocab
    ]
    return {
        "type": "BPE",
        "unk_token": proto.trainer_spec.unk_piece,
        "fuse_unk": True,
        "vocab": vocab,
        "merges": merges,
    }


def _post_processor(specials: dict[str, int]) -> dict[str, Any]:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP]."""
    first, second = (
        [{"Sequence": {"id": name, "type_id": i}}, {"SpecialToken": {"id": "[SEP]", "type_id": i}}]
        for i, name in enumerate("AB")
    )
    cls = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    names = {name: {"id": name, "ids": [specials[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    return {
        "type": "TemplateProcessing",
        "single": [cls, *first],
        "pair": [cls, *first, *second],
        "special_tokens": names,
    }
