"""Coverage-guided fuzzing, with atheris, of what parses bytes: any bytes must give a result or an InputError.

    python -m tests.fuzz.coverage --target=archive --seconds=720 --corpus=found

Starts from a valid file. Inputs that reach new code are kept in a folder of `--corpus`, from which the next run
starts. A finding ends the run with its traceback and exit status 77; its input is kept there as crash-*. Needs
`pip install '.[fuzz]'`.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import atheris

with atheris.instrument_imports(include=["albert_tf", "data_prep"]):
    from data_prep.errors import InputError
    from data_prep.tfrecord.records import count_examples, framed, read_records
    from tests.fuzz.readers import BY_NAME

_LONGEST = 30  # seconds of a case
_MOST_MEMORY = 2048 + 1024  # MB: what a case may take, and what TensorFlow has before the first


@dataclass(frozen=True)
class Target:
    """A file that is replaced by the fuzzer's bytes.

    Attributes:
      reader: the name of a reader in `tests.fuzz.readers`, which writes the valid files.
      file: the file to replace.
      read: reads it, given the folder; None: as the reader does.
      encode: makes the file's content from the fuzzer's bytes.
    """

    reader: str
    file: str
    read: Callable[[Path], object] | None = None
    encode: Callable[[bytes], bytes] = bytes


def _read_records(folder: Path) -> None:
    count_examples([folder / "e.tfrecord"])
    for _ in read_records(folder / "e.tfrecord"):
        pass


TARGETS = {
    "archive": Target("archive", "model.tar.gz"),
    "config": Target("config", "albert_config.json"),
    "examples": Target("examples", "e.tfrecord", encode=framed),
    "records": Target("examples", "e.tfrecord", _read_records),
    "safetensors": Target("Hugging Face", "model.safetensors"),
    "sentencepiece": Target("spm.model", "spm.model"),
}


def main() -> None:
    """Fuzzes one target until its time is over or something is found; then the process ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.coverage", description="Coverage-guided fuzzing."
    )
    parser.add_argument("--target", choices=list(TARGETS), required=True)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument(
        "--corpus", type=Path, required=True, help="where inputs are kept, a folder per target"
    )
    flags = parser.parse_args()
    target = TARGETS[flags.target]
    reader = BY_NAME[target.reader]
    corpus = flags.corpus / flags.target
    corpus.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    reader.write(folder)
    path = folder / target.file
    valid = path.read_bytes()
    read = target.read or reader.read
    read(folder)
    seed = next(iter(read_records(path))) if target.encode is framed else valid
    (corpus / "valid").write_bytes(seed)

    def case(content: bytes) -> None:
        path.write_bytes(target.encode(content))
        with contextlib.suppress(InputError):
            read(folder)

    options = {
        "max_total_time": flags.seconds,
        "timeout": _LONGEST,
        "rss_limit_mb": _MOST_MEMORY,
        "max_len": 4 * len(seed),
        "artifact_prefix": f"{corpus}/",
    }
    atheris.Setup([sys.argv[0], str(corpus), *(f"-{name}={value}" for name, value in options.items())], case)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
