import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cyclopts import App

from albert_cli import cli, entry, program
from albert_cli.commands.terminal import print_next
from albert_tf.checkpoints.output_folder import replaced_folder
from data_prep.console import NO_SUGGESTIONS
from data_prep.errors import InputError
from data_prep.signals import signal_handler

COMMANDS = (
    "vocab",
    "prepare",
    "pretrain",
    "convert",
    "models",
    "export",
    "evaluate",
    "ensemble",
    "submission",
    "params",
)


def run(capfd, *arguments) -> tuple[int, str, str]:
    status = cli.main(list(arguments))
    return status, *capfd.readouterr()


def test_help_lists_the_commands(capfd):
    status, out, _ = run(capfd, "--help")
    assert status == 0
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(capfd, command):
    status, out, _ = run(capfd, command, "--help")
    assert status == 0
    assert "For example:" in out
    assert f"albert {command}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pretrane",), 'Did you mean "pretrain"?'),
        (("params", "--jsn"), "Did you mean --json?"),
        (("export", "--model_dir=x", "--outptu=y"), "Unknown option: --outptu. Did you mean --output?"),
        (("export", "--output=y"), "--model_dir"),
        (("export", "--model_dir=nowhere", "--output=y"), "There is no checkpoint at nowhere"),
        (("prepare", "--max_seq_lenght=3"), "Did you mean --max_seq_length?"),
        (("vocab", "--input_file=nowhere.txt", "--output_prefix=v"), "There is no input file nowhere.txt"),
        (
            ("convert", "run", "s3://bucket/model", "--to=tf1"),
            "Files must be on this machine. Received s3://",
        ),
        (
            ("export", "--model_dir=run", "--output=gs://bucket/model"),
            "Received gs://bucket/model; use a local",
        ),
    ],
)
def test_mistakes_are_reported_in_one_line(capfd, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, _, error = run(capfd, *arguments)
    assert status == 2
    assert error.startswith("albert: ")
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_our_own_defects_keep_their_traceback(monkeypatch):
    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main(["params"])


def test_interrupted(monkeypatch, capfd):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", interrupted)
    status, _, error = run(capfd, "params")
    assert (status, error) == (130, "albert: interrupted\n")


def test_sigterm_lets_commands_clean_up(monkeypatch, capfd, tmp_path):
    def terminated():
        with replaced_folder(tmp_path / "result"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", terminated)
    before = signal.getsignal(signal.SIGTERM)
    assert run(capfd, "params") == (143, "", "albert: received SIGTERM\n")
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


class _Finalized:
    def __init__(self, number: signal.Signals):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        time.sleep(0)  # Python raises here, and ignores what is raised here


STOPS = pytest.mark.parametrize(
    ("number", "status", "message"),
    [(signal.SIGTERM, 143, "albert: received SIGTERM\n"), (signal.SIGINT, 130, "albert: interrupted\n")],
)


@STOPS
def test_a_signal_that_arrives_in_a_finalizer_is_not_lost(number, status, message, monkeypatch, capfd):
    def finalize():
        _Finalized(number)
        time.sleep(60)

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", finalize)
    before = sys.unraisablehook
    # Shells start background processes with SIGINT ignored.
    with signal_handler(signal.default_int_handler, signal.SIGINT):
        assert run(capfd, "params") == (status, "", message)
    assert sys.unraisablehook is before


@STOPS
@pytest.mark.parametrize("error", [RuntimeError("MISMATCH of exception types"), InputError("a damaged file")])
def test_a_signal_whose_exception_is_replaced_is_not_lost(number, status, message, error, monkeypatch, capfd):
    """TensorFlow's C++ code replaces it if it interrupts the construction of another exception."""

    def replace():
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        except BaseException:
            raise error from None

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", replace)
    with signal_handler(signal.default_int_handler, signal.SIGINT):
        assert run(capfd, "params") == (status, "", message)


def test_an_ignored_signal_stays_ignored(monkeypatch, capfd):
    """As SIGINT is in the background processes of a shell."""
    monkeypatch.setattr(
        "albert_tf.parameter_tables.counted_models", lambda: os.kill(os.getpid(), signal.SIGINT) or []
    )
    with signal_handler(signal.SIG_IGN, signal.SIGINT):
        assert run(capfd, "params")[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_exceptions_in_finalizers_are_reported_as_ever(monkeypatch, capfd):
    class Faulty:
        def __del__(self):
            raise ZeroDivisionError("in a finalizer")

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))
    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", lambda: Faulty() and [])
    run(capfd, "params")
    assert reported == [ZeroDivisionError]


def test_a_full_disk_is_reported_in_one_line(monkeypatch, capfd):
    def write():
        Path("/dev/full").write_text("every write to this device fails")

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", write)
    status, _, error = run(capfd, "params")
    assert status == 2
    assert error == "albert: The operating system refused an operation: No space left on device.\n"


@pytest.mark.slow
def test_a_closed_output_is_not_an_error():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "albert_cli.cli", "params", "--json"], **pipes) as process:
        process.stdout.close()  # as `head` does
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_input_errors_from_the_library_are_mistakes(monkeypatch, capfd):
    def refuse():
        raise InputError("The rule. Received [this].")

    monkeypatch.setattr("albert_tf.parameter_tables.counted_models", refuse)
    assert run(capfd, "params") == (2, "", "albert: The rule. Received [this].\n")


def test_params(capfd):
    status, out, _ = run(capfd, "params", "--json")
    rows = json.loads(out)
    assert status == 0
    assert [set(row) for row in rows] == [{"table", "name", "parameters", "with_heads"}] * len(rows)
    assert {row["table"] for row in rows} == {1, 3, 4}
    base = next(row for row in rows if row["name"] == "ALBERT base")
    assert (base["parameters"], base["with_heads"]) == (11_683_584, 11_813_810)
    status, out, _ = run(capfd, "params")
    assert "11,683,584" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["", *COMMANDS, "tokenize", "inspect", "finetune", "predict", "embed", "publish"]
)
def test_help_is_quick_because_nothing_heavy_is_imported(command):
    code = "import sys; from albert_cli import cli; cli.main([*sys.argv[1:], '--help']); print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code, *command.split()], check=True, capture_output=True, text=True
    )
    modules = set(told.stdout.split("\n")[-2].split())
    assert "albert_cli.cli" in modules
    assert not modules & {"tensorflow", "keras", "numpy", "sentencepiece", "h5py", "huggingface_hub", "scipy"}


@pytest.mark.slow
def test_commands_run_on_tensorflow_whatever_the_backend_of_keras():
    code = (
        "from albert_cli import entry; entry.main(['models']); import keras; print(keras.backend.backend())"
    )
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert told.stdout.split()[-1] == "tensorflow"


def test_long_help_has_groups(capfd):
    status, out, _ = run(capfd, "finetune", "--help")
    titles = [line.split()[1] for line in out.splitlines() if line.startswith("╭")]
    assert status == 0
    assert titles == ["Common", "Data", "Model", "Optimization", "Evaluation", "Devices", "Logging"]
    assert "[default: False]" not in out


def test_suggestions_are_for_terminals(monkeypatch, capfd):
    print_next("albert params")
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    print_next("albert params")
    assert capfd.readouterr() == ("", "next: albert params\n")
    monkeypatch.setenv(NO_SUGGESTIONS, "1")
    print_next("albert params")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_vocab_suggests_to_prepare_what_it_has_read(monkeypatch, capfd, tmp_path):
    """Rows are prose whatever --input_format is, so that the language matters."""
    rows = [json.dumps({"body": f"Das ist Satz {i}. Er kam am {i}. Mai."}) for i in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    flags = (f"--input_file={tmp_path}/a.jsonl", "--language=de", "--text_field=body", "--vocab_size=34")
    status, _, err = run(capfd, "vocab", *flags, f"--output_prefix={tmp_path}/v")
    assert status == 0, err
    expected = f"next: albert prepare --input_file='{tmp_path}/a.jsonl' --language=de --text_field=body --spm"
    assert expected in err


@pytest.mark.very_slow
@pytest.mark.parametrize("seconds", [0.1, 0.7, 2.5])
def test_ctrl_c_during_imports(seconds, tmp_path):
    words = ["convert", "nothing", str(tmp_path / "out"), "--to=tf1"]
    code = f"import sys; print('started', flush=True); from albert_cli.entry import main; sys.exit(main({words}))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert "Traceback" not in error
    assert process.returncode in {-signal.SIGINT, 130, 2}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("module", "status"), [("cyclopts", 2), ("albert_tf.gone", None)])
def test_a_package_that_is_missing(module, status, monkeypatch, capsys):
    """As where only portable models are installed; cyclopts wraps the error of a command's module."""

    def main(arguments):
        raise ImportError("Cannot import module") from ModuleNotFoundError(name=module)

    monkeypatch.setattr(cli, "main", main)
    if status is None:  # a defect
        with pytest.raises(ImportError):
            entry.main([])
        return
    assert entry.main([]) == status
    assert "needs the package cyclopts, which is not installed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_closed_streams():
    """Like the null device, which is not a defect to report with a traceback."""
    command = [sys.executable, "-m", "albert_cli.cli", "params"]
    closed = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_characters_that_an_encoding_lacks(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    app = App(default_parameter=program.FLAGS)
    app.default(lambda: print("é"))
    assert program.run(app, []) == 0
    assert stream.buffer.getvalue() == b"\\xe9\n"


@pytest.mark.parametrize("name", ["x" * 5000, "loop"])
def test_paths_that_the_system_cannot_follow(tmp_path, name, capfd):
    (tmp_path / "loop").symlink_to("loop")
    text = tmp_path / "text"
    text.write_text("the captain")
    assert cli.main(["tokenize", f"--spm_model_file={tmp_path / name}"]) == 2
    assert cli.main(["vocab", f"--input_file={text}", f"--output_prefix={tmp_path / name / 'v'}"]) == 2
    assert "Traceback" not in capfd.readouterr().err
