import io
import json
import subprocess
import sys

import pytest

from albert_cli.cli import main
from data_prep.errors import InputError
from data_prep.tokenizers.token_stream import tokenize_stream
from tests.data_prep.nasty import LINES


@pytest.fixture
def albert(standard_input, capsysbinary):
    """Runs the command on a standard input; returns its status, standard output and message."""

    def run(*arguments, stdin=b""):
        standard_input(stdin)
        status = main(["tokenize", *arguments])
        captured = capsysbinary.readouterr()
        return status, captured.out.decode(), captured.err.decode()

    return run


@pytest.mark.slow
def test_ids_pieces_and_offsets(albert, model_file, tokenizer):
    text = "Apples, 300\n\n  café"
    status, out, _ = albert(f"--spm_model_file={model_file}", stdin=text.encode())
    ids = [json.loads(line) for line in out.splitlines()]
    assert (status, ids) == (0, [tokenizer.encode(line) for line in text.split("\n")])
    assert ids[1] == []
    pieces = albert(f"--spm_model_file={model_file}", "--pieces", stdin=text.encode())[1]
    assert json.loads(pieces.splitlines()[0]) == [tokenizer.pieces[i] for i in ids[0]]
    offsets = albert(f"--spm_model_file={model_file}", "--offsets", stdin=text.encode())[1]
    last = json.loads(offsets.splitlines()[2])
    assert last == tokenizer.encode_with_offsets("  café").offsets.tolist()
    assert (last[0][0], last[-1][1]) == (2, 6)
    cased = albert(f"--spm_model_file={model_file}", "--nodo_lower_case", stdin=text.encode())[1]
    assert tokenizer.unk_id in json.loads(cased.splitlines()[0])


def test_every_input_line_has_an_output_line(albert, model_file, tokenizer):
    stdin = "".join(line + "\n" for line in LINES).encode()
    status, out, _ = albert(f"--spm_model_file={model_file}", stdin=stdin)
    assert status == 0
    ids = [json.loads(line) for line in out.removesuffix("\n").split("\n")]
    assert ids == list(map(tokenizer.encode, LINES))
    assert albert(f"--spm_model_file={model_file}", stdin=b"")[1] == ""


def test_bad_input(albert, model_file, tmp_path):
    status, out, err = albert(f"--spm_model_file={model_file}", stdin=b"one\ntwo\nth\xffee\nfour\n")
    assert (status, len(out.splitlines())) == (2, 2)
    assert "Line 3 has the byte 0xff at its position 2" in err
    for arguments, message in [
        ([], "Received neither"),
        ([f"--spm_model_file={model_file}", "--pieces", "--offsets"], "exclude each other"),
        ([f"--spm_model_file={tmp_path / 'none'}"], "must exist and be readable"),
        ([f"--spm_model_file={model_file}", "--ofsets"], "ofsets"),
    ]:
        status, out, err = albert(*arguments, stdin=b"one\n")
        assert (status, out) == (2, "")
        assert message in " ".join(err.split())


class Trickle(io.RawIOBase):
    """Returns a few bytes at a time, as a pipe does."""

    def __init__(self, data: bytes, sink: io.BytesIO):
        self.data, self.sink, self.seen = data, sink, []

    def read1(self, size):
        self.seen.append(self.sink.getvalue().count(b"\n"))
        piece, self.data = self.data[:7], self.data[7:]
        return piece


def test_each_line_is_encoded_before_the_next_arrives(tokenizer):
    sink = io.BytesIO()
    source = Trickle("the café owner\n300 apples\nlast".encode(), sink)
    tokenize_stream(tokenizer, source, sink)
    lines = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert lines == [tokenizer.encode(line) for line in ("the café owner", "300 apples", "last")]
    assert source.seen == [0, 0, 0, 1, 2, 2]
    with pytest.raises(InputError, match="Line 2"):
        tokenize_stream(tokenizer, Trickle(b"good\nb\xe2\x82", sink), sink)


@pytest.mark.slow
def test_a_closed_output_is_not_an_error(model_file):
    command = [sys.executable, "-m", "albert_cli.cli", "tokenize", f"--spm_model_file={model_file}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        process.stdin.write(b"the captain\n" * 10_000)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
