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
from tests.albert_tf.checkpoints.processes import run_python

COMMANDS = (
    *("vocab", "prepare", "tokenize", "inspect", "pretrain", "finetune", "predict", "embed", "evaluate"),
    *("ensemble", "submission", "convert", "models", "export", "publish", "params", "doctor"),
)


def run(capfd, *arguments) -> tuple[int, str, str]:
    status = cli.main(list(arguments))
    return status, *capfd.readouterr()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(capfd, command):
    status, out, _ = run(capfd, command, "--help")
    assert status == 0
    assert "example:" in out
    assert f"albert {command}" in out


@pytest.mark.slow
def test_help_is_quick_because_nothing_heavy_is_imported():
    code = """
        import sys
        from albert_cli import cli
        for command in ([], *([name] for name in sys.argv[1:])):
            cli.main([*command, "--help"])
        print(*sys.modules)
    """
    modules = set(run_python(code, Path.cwd(), *COMMANDS).splitlines()[-1].split())
    assert "albert_cli.cli" in modules
    assert not modules & {"tensorflow", "keras", "numpy", "sentencepiece", "h5py", "huggingface_hub", "scipy"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pretrane", 'Did you mean "pretrain"?'),
        ("params --jsn", "Did you mean --json?"),
        ("export --model_dir=x --outptu=y", "Unknown option: --outptu. Did you mean --output?"),
        ("export --output=y", "--model_dir"),
        ("export --model_dir=nowhere --output=y", "There is no checkpoint at nowhere"),
        ("prepare --max_seq_lenght=3", "Did you mean --max_seq_length?"),
        ("vocab --input_file=nowhere.txt --output_prefix=v", "There is no input file nowhere.txt"),
        ("convert run nowhere://bucket/model --to=tf1", "cannot be used: Protocol not known: nowhere."),
        ("export --model_dir=run --output=memory://bucket/model", "There is no checkpoint at run"),
        ("convert a b", "--to is required: tf1, huggingface, keras, kerashub."),
        ("convert a b --to", "--to needs a value: tf1, huggingface, keras, kerashub."),
        ("convert a --to=keras", "DESTINATION is required, after the command and before the flags."),
        ("export --model_dir --output=x", "--model_dir needs a value, as in --model_dir=VALUE."),
        ("ensemble runs/a --task", "--task needs a value, as in --task=VALUE."),
        ("prepare --spm_model=x --n=3", "Unknown option: --spm_model. Did you mean --spm_model_file?"),
        ("prepare --zzz=3", "Unknown option: --zzz. `albert prepare --help` lists the flags."),
        ("pretrain --train_batch_size=a --bogus=1", "--bogus. `albert pretrain --help` lists the flags."),
        (
            "pretrain --use_tpu",
            "--use_tpu is a flag of google-research/albert. Here, leave it out: a TPU is used",
        ),
        ("predict --model_dir=x --output=y", "Unknown option: --output. Did you mean --output_file?"),
        ("vocab --input_file=a b c --output_prefix=x --vocab_size=9", "belong to no flag: b, c."),
        *((f"export --model_dir=~{rest} --output=y", f"HOME{rest}") for rest in ("/run", "")),
    ],
)
def test_mistakes_are_reported_in_one_line(
    capfd, tmp_path, tmp_path_factory, monkeypatch, arguments, message
):
    """Shells expand ~ in `--model_dir ~/run`, but not behind "="."""
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    status, out, error = run(capfd, *arguments.split())
    assert (status, out) == (2, "")
    assert error.startswith("albert: ")
    assert message in error.replace(home, "HOME")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture
def params(monkeypatch, capfd):
    """Runs `albert params` with a function in place of what it computes."""

    def call(function) -> tuple[int, str, str]:
        monkeypatch.setattr("albert_tf.parameter_tables.counted_models", function)
        return run(capfd, "params")

    return call


def raising(error: BaseException):
    def fail():
        raise error

    return fail


def test_our_own_defects_keep_their_traceback(params):
    with pytest.raises(ZeroDivisionError):
        params(raising(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("function", "status", "message"),
    [
        (raising(KeyboardInterrupt()), 130, "interrupted"),
        (raising(InputError("The rule. Received [this].")), 2, "The rule. Received [this]."),
        (
            lambda: Path("/dev/full").write_text("every write to this device fails"),
            2,
            "The operating system refused an operation: No space left on device.",
        ),
    ],
)
def test_other_ends_are_one_line(params, function, status, message):
    assert params(function) == (status, "", f"albert: {message}\n")


STOPS = pytest.mark.parametrize(
    ("number", "status", "message"),
    [(signal.SIGTERM, 143, "albert: received SIGTERM\n"), (signal.SIGINT, 130, "albert: interrupted\n")],
)


def send(number: signal.Signals, seconds: float = 60) -> None:
    os.kill(os.getpid(), number)
    time.sleep(seconds)


def test_sigterm_lets_commands_clean_up(params, tmp_path):
    def terminated():
        with replaced_folder(tmp_path / "result"):
            send(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    assert params(terminated) == (143, "", "albert: received SIGTERM\n")
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


class _Finalized:
    def __init__(self, number: signal.Signals):
        self.number = number

    def __del__(self):
        send(self.number, 0)  # Python raises here, and ignores what is raised here


@STOPS
def test_a_signal_that_arrives_in_a_finalizer_is_not_lost(number, status, message, params):
    def finalize():
        _Finalized(number)
        time.sleep(60)

    before = sys.unraisablehook
    # Shells start background processes with SIGINT ignored.
    with signal_handler(signal.default_int_handler, signal.SIGINT):
        assert params(finalize) == (status, "", message)
    assert sys.unraisablehook is before


@STOPS
@pytest.mark.parametrize("error", [RuntimeError("MISMATCH of exception types"), InputError("a damaged file")])
def test_a_signal_whose_exception_is_replaced_is_not_lost(number, status, message, error, params):
    """TensorFlow's C++ code replaces it if it interrupts the construction of another exception."""

    def replace():
        try:
            send(number)
        except BaseException:
            raise error from None

    with signal_handler(signal.default_int_handler, signal.SIGINT):
        assert params(replace) == (status, "", message)


def test_an_ignored_signal_stays_ignored(params):
    """As SIGINT is in the background processes of a shell."""
    with signal_handler(signal.SIG_IGN, signal.SIGINT):
        assert params(lambda: send(signal.SIGINT, 0) or [])[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_exceptions_in_finalizers_are_reported_as_ever(params, monkeypatch):
    class Faulty:
        def __del__(self):
            raise ZeroDivisionError("in a finalizer")

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))
    params(lambda: Faulty() and [])
    assert reported == [ZeroDivisionError]


@pytest.mark.slow
def test_a_closed_output_is_not_an_error():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "albert_cli.cli", "params", "--json"], **pipes) as process:
        process.stdout.close()  # as `head` does
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


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


@pytest.mark.very_slow
def test_commands_run_on_tensorflow_whatever_the_backend_of_keras():
    code = (
        "from albert_cli import entry; entry.main(['models']); import keras; print(keras.backend.backend())"
    )
    assert run_python(code, Path.cwd(), KERAS_BACKEND="jax").split()[-1] == "tensorflow"


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
