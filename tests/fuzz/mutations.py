"""Changes to the content of a file, drawn from a seed: of any bytes, of JSON values, and inside containers.

A container's own checksums and lengths are made right again, so that the readers behind them are reached.
"""

import gzip
import io
import json
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from data_prep.tfrecord.records import framed, read_payloads

_EXTREMES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        1.5,
        -0.0,
        1e308,
        10**9,
        2**31,
        2**63,
        2**64,
        -(2**63),
        10**30,
        10**400,
    ),
    *(
        "",
        "a",
        "0",
        "-1",
        "nan",
        "../x",
        "/etc/passwd",
        "a\0b",
        "\ud800",
        "\u2028",
        "x" * 5000,
        "gelu",
        "1e999",
    ),
    *([], {}, [[]], [{}], ["x"], {"x": 1}, [1, "a", None], [0] * 300, {"": {"": {}}}),
    *(float("nan"), float("inf"), float("-inf")),
)
_NUMBERS = (b"0", b"-1", b"99999999999999999999", b"1e999", b"NaN", b"null", b'""', b"[]", b"{}", b"true")


def mutate(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Changes the content of a file once or several times.

    Args:
      content: the bytes.
      others: the content of other files, from which pieces come.
      rng: draws.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = _mutate_once(content, others, rng)
    return content


def _mutate_once(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    inside = _container(content)
    if inside and rng.random() < 0.7:
        return inside(content, lambda part: _mutate_once(part, others, rng), rng)
    if content.lstrip(b"\xef\xbb\xbf")[:1] in (b"{", b"[") and rng.random() < 0.7:
        changed = _mutate_json_text(content, rng)
        if changed is not None:
            return changed
    return rng.choice(_OF_BYTES)(content, others, rng)


def _flip(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 30))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    begin, size = rng.randrange(len(content) + 1), rng.choice((1, 4, 8, 64))
    new = rng.choice((b"\0" * size, b"\xff" * size, rng.randbytes(size)))
    return content[:begin] + new + content[begin + size :]


def _truncate(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    return content[: rng.choice((0, 1, rng.randrange(len(content) + 1), max(0, len(content) - 1)))]


def _delete(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    begin, size = rng.randrange(len(content) + 1), rng.choice((1, 2, 16, 1000))
    return content[:begin] + content[begin + size :]


def _duplicate(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    begin = rng.randrange(len(content) + 1)
    part = content[begin : begin + rng.choice((1, 8, 200, len(content)))]
    return content[:begin] + part * rng.choice((2, 3, 50)) + content[begin:]


def _splice(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others or [b"\0"])
    end = rng.randrange(len(other) + 1)
    return content[: rng.randrange(len(content) + 1)] + other[end : end + 20_000]


def _replace_token(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Replaces a word of a text by a number or an empty value."""
    words = content.split(rng.choice((b"\t", b" ", b",", b"\n")))
    separator = content[len(words[0]) : len(words[0]) + 1] or b" "
    words[rng.randrange(len(words))] = rng.choice(_NUMBERS)
    return separator.join(words)


def _mark(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b" ", b"\n")) + content


def _deep(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    depth = rng.choice((50, 900, 5_000, 100_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return opening * depth + content[:100] + closing * depth


_OF_BYTES = (_flip, _flip, _overwrite, _truncate, _delete, _duplicate, _splice, _replace_token, _mark, _deep)


def _mutate_json_text(content: bytes, rng: random.Random) -> bytes | None:
    """Changes values of a JSON text, or of one line of JSON lines; None if it is neither."""
    try:
        return json.dumps(_mutate_json(json.loads(content), rng)).encode()
    except (ValueError, RecursionError):
        lines = content.split(b"\n")
        number = rng.randrange(len(lines))
        try:
            lines[number] = json.dumps(_mutate_json(json.loads(lines[number]), rng)).encode()
        except (ValueError, RecursionError):
            return None
        return b"\n".join(lines)


def _mutate_json(value: Any, rng: random.Random) -> Any:
    """Replaces, removes, renames or nests a value at some depth."""
    places: list[tuple[Any, Any]] = []
    _collect(value, places)
    if not places:
        return rng.choice(_EXTREMES)
    # The first levels hold what readers look at; the last, thousands of numbers or pieces.
    container, key = places[min(rng.randrange(len(places)), rng.randrange(len(places)))]
    kind = rng.random()
    if isinstance(container[key], str) and container[key][:1] in ("{", "[", '"') and kind < 0.6:
        container[key] = _mutate_text(container[key], rng)
    elif kind < 0.6:
        container[key] = rng.choice(_EXTREMES)
    elif kind < 0.75:
        del container[key]
    elif kind < 0.85:
        container[key] = rng.choice(([container[key]], {"x": container[key]}, str(container[key])))
    elif kind < 0.93:
        other, place = rng.choice(places)
        container[key] = json.loads(json.dumps(other.get(place) if isinstance(other, dict) else None))
    else:
        nested: Any = 0
        for _ in range(rng.choice((50, 400))):
            nested = [nested]
        container[key] = nested
    return value


def _mutate_text(text: str, rng: random.Random) -> str:
    """Changes a string that holds JSON itself."""
    try:
        return json.dumps(_mutate_json(json.loads(text), rng))
    except (ValueError, RecursionError):
        return text[1:]


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        places.append((value, key))
        _collect(value[key], places)


Change = Callable[[bytes], bytes]


def _container(content: bytes) -> Callable[[bytes, Change, random.Random], bytes] | None:
    """What changes the inside of a container; None for other files."""
    if content[:4] == b"PK\3\4":
        return _inside_zip
    if content[:6] == b"\x93NUMPY":
        return _inside_npy
    if content[:2] == b"\x1f\x8b":
        return _inside_gzip
    if content[257:262] == b"ustar":
        return _inside_tar
    if content[8:9] == b"{" and int.from_bytes(content[:8], "little") < len(content):
        return _inside_safetensors
    try:
        records = list(read_payloads(io.BytesIO(content).read, "records"))
    except ValueError:
        records = []
    if records:
        return _inside_records
    return _inside_protobuf if _message(content) else None


def _inside_zip(content: bytes, change: Change, rng: random.Random) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # damaged by an earlier change
        return content[:-1]
    name = rng.choice(list(parts))
    parts[name] = change(parts[name])
    if rng.random() < 0.05:
        del parts[name]
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for each, part in parts.items():
            archive.writestr(each, part)
    return output.getvalue()


def _inside_gzip(content: bytes, change: Change, rng: random.Random) -> bytes:
    try:
        return gzip.compress(change(gzip.decompress(content)), 1)
    except Exception:  # damaged by an earlier change
        return content[:-1]


def _inside_tar(content: bytes, change: Change, rng: random.Random) -> bytes:
    output = io.BytesIO()
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(content)) as source,
            tarfile.open(fileobj=output, mode="w") as tar,
        ):
            members = [member for member in source if member.isfile()]
            chosen = rng.randrange(len(members))
            for number, member in enumerate(members):
                file = source.extractfile(member)
                assert file
                part = change(file.read()) if number == chosen else file.read()
                if number == chosen and rng.random() < 0.2:
                    member.name = rng.choice(("../x", "/tmp/x", "a" * 300, "config.json", ".", "a/b/c"))
                member.size = len(part)
                tar.addfile(member, io.BytesIO(part))
    except Exception:  # damaged by an earlier change
        return content[:-1]
    return output.getvalue()


def _inside_safetensors(content: bytes, change: Change, rng: random.Random) -> bytes:
    end = 8 + int.from_bytes(content[:8], "little")
    if rng.random() < 0.4:
        return content[:end] + _flip(content[end:], (), rng)
    header = change(content[8:end])
    return struct.pack("<Q", len(header)) + header + content[end:]


def _inside_records(content: bytes, change: Change, rng: random.Random) -> bytes:
    records = list(read_payloads(io.BytesIO(content).read, "records"))
    number = rng.randrange(min(8, len(records)))
    records[number] = change(records[number])
    return b"".join(map(framed, records))


def _inside_npy(content: bytes, change: Change, rng: random.Random) -> bytes:
    """Changes values, or the description: another type or shape, whose size need not be that of the values."""
    end = 10 + int.from_bytes(content[8:10], "little")
    if content[6:7] != b"\1" or rng.random() < 0.5:
        return content[:end] + _flip(content[end:], (), rng)
    description = {"descr": "<i4", "fortran_order": False, "shape": (len(content[end:]) // 4,)}
    name = rng.choice(list(description))
    description[name] = rng.choice(_DESCRIPTIONS[name])
    header = repr(description).encode() + b"\n"
    return content[:8] + struct.pack("<H", len(header)) + header + content[end:]


_DESCRIPTIONS: dict[str, tuple[Any, ...]] = {
    "descr": ("<f4", "<i8", "<f8", "|b1", "|O", "<U9", "|V4", [("a", "<i4")], "nonsense", None),
    "fortran_order": (True, None, "x"),
    "shape": ((), (0,), (1,), (2, 2), (-1,), (10**9,), (2**40,), (2**63,), 7, ("a",), (1.5,)),
}


def _inside_protobuf(content: bytes, change: Change, rng: random.Random) -> bytes:
    """Changes, removes, repeats or moves a field of a message at some depth; all lengths stay right."""
    fields = _message(content) or []
    number = rng.randrange(len(fields))
    key, value = fields[number]
    kind = rng.random()
    if kind < 0.06:
        del fields[number]
    elif kind < 0.12:
        fields.insert(rng.randrange(len(fields)), (key, value))
    elif key & 7 == _VARINT:
        fields[number] = (
            key,
            _as_varint(rng.choice((0, 1, 2, 6, 7, 10, 1 << 31, (1 << 63) - 1, (1 << 64) - 1))),
        )
    elif key & 7 == _BYTES and _message(value) and rng.random() < 0.9:
        fields[number] = (key, _inside_protobuf(value, change, rng))
    elif rng.random() < 0.5:  # for instance the name of another operation or tensor
        fields[number] = (key, rng.choice([other for name, other in fields if name == key]))
    elif key & 7 == _BYTES:
        fields[number] = (key, change(value))
    else:
        fields[number] = (key, rng.choice((b"\0", b"\xff")) * len(value))
    return b"".join(
        _as_varint(key) + (_as_varint(len(value)) if key & 7 == _BYTES else b"") + value
        for key, value in fields
    )


_VARINT, _BYTES, _SIZES = 0, 2, {1: 8, 5: 4}  # kinds of fields


def _message(content: bytes) -> list[tuple[int, bytes]] | None:
    """The keys and values of a protobuf message; None if it is none."""
    fields, place = [], 0
    try:
        while place < len(content):
            key, place = _varint(content, place)
            if key & 7 == _BYTES:
                size, place = _varint(content, place)
            elif key & 7 == _VARINT:
                size = _varint(content, place)[1] - place
            else:
                size = _SIZES[key & 7]
            if not key >> 3 or place + size > len(content):
                return None
            fields.append((key, content[place : place + size]))
            place += size
    except (IndexError, KeyError):
        return None
    return fields


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number, and the place after it."""
    value = shift = 0
    while content[place] & 128:
        value, shift, place = value | (content[place] & 127) << shift, shift + 7, place + 1
    return value | content[place] << shift, place + 1


def _as_varint(value: int) -> bytes:
    parts = []
    while value > 127:
        value, part = value >> 7, value & 127 | 128
        parts.append(part)
    return bytes([*parts, value])
