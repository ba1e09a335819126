"""The folder of a portable model: its commands, what its import brings in, and damaged ones."""

import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from albert_cli import cli
from albert_tf import load_portable
from albert_tf.runtime import engines
from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.engines import Engine, open_engine
from albert_tf.runtime.portable_folder import ONNX_FILE, PortableFolder
from albert_tf.runtime.portable_loading import model_class
from data_prep.errors import InputError
from examples.serve import kserve_client
from examples.serve.kserve_client import KServeEngine
from tests.albert_tf.checkpoints.hub import Hub
from tests.albert_tf.checkpoints.processes import run_python, serving
from tests.albert_tf.runtime.portable_files import change_facts, list_file
from tests.albert_tf.tasks.task_models import CASES
from tests.commands import refused

_ALONE = """
import sys
sys.argv = ["albert"]
{code}
heavy = {{"tensorflow", "keras", "torch", "jax", "transformers"}}
found = heavy & {{name.split(".")[0] for name in sys.modules}}
assert not found, found
"""


@pytest.fixture(scope="module")
def folders(portable):
    """The .keras file of a classifier, and its portable folder."""
    return portable("text", exported=False), portable("text")


def run_alone(code: str) -> str:
    """Runs Python in a process, which must not import TensorFlow, Keras or PyTorch; returns what it printed."""
    process = [sys.executable, "-c", _ALONE.format(code=code)]
    return subprocess.run(process, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.slow
def test_is_no_model_to_convert(folders, tmp_path, capsys):
    assert cli.main(["convert", str(folders[1]), str(tmp_path / "there"), "--to=keras"]) == 2
    assert "is a portable model, which `albert_tf.load_portable`" in capsys.readouterr().err


@pytest.mark.slow
def test_needs_no_tensorflow(folders):
    """Nor scipy and scikit-learn, which metrics need."""
    code = f"""
from albert_tf import load_portable
from albert_tf.runtime.engines import Engine, open_engine
from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.portable_folder import ONNX_FILE, PortableFolder
from albert_tf.runtime.portable_loading import model_class
model = load_portable({str(folders[1])!r}, engine="onnxruntime")
print(model(["a quiet neighbour"])["label"][0], model.pair(["a"], ["b"])["label"][0])
assert not {{"scipy", "sklearn", "pandas"}} & {{name.split(".")[0] for name in sys.modules}}
"""
    assert run_alone(code).split()[0] in ("small", "big")


@pytest.mark.very_slow
def test_commands_take_the_folder(folders, tmp_path, standard_input, capsys):
    """`albert predict` and `albert evaluate` answer as with the .keras file, without TensorFlow."""
    file, folder = folders
    lines = "\n".join(CASES["text"].x)
    rows = [f"{text}\t{label}" for text, label in zip(CASES["text"].x, CASES["text"].y, strict=True)]
    (tmp_path / "dev.tsv").write_text("\n".join(["text_a\tlabel", *rows]), encoding="utf-8")
    evaluate = ["evaluate", f"--gold={tmp_path / 'dev.tsv'}"]
    answers, metrics = {}, {}
    for name, model in (("keras", file), ("portable", folder)):
        standard_input(lines.encode())
        assert cli.main(["predict", f"--model_dir={model}", "--batch_tokens=30"]) == 0
        answers[name] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert cli.main([*evaluate, f"--model_dir={model}"]) == 0
        metrics[name] = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in answers["keras"]] == [one["label"] for one in answers["portable"]]
    assert [one["probability"] for one in answers["keras"]] == pytest.approx(
        [one["probability"] for one in answers["portable"]], abs=1e-4
    )
    assert metrics["portable"] == {
        name: pytest.approx(value, abs=1e-6) for name, value in metrics["keras"].items() if name != "loss"
    }
    arguments = [*evaluate, f"--model_dir={folder}", "--requests=2"]
    run_alone(f"from albert_cli import cli\nassert cli.main({arguments!r}) == 0")


@pytest.mark.slow
def test_addresses(folders, tmp_path):
    """hf://, without TensorFlow, in a repository that holds another format too."""
    code = """
import io, json
from albert_cli import cli
from albert_tf import load_portable
print(json.dumps(load_portable("hf://owner/tiny")(["a quiet neighbour"])["label"].tolist()), flush=True)
sys.stdin = io.TextIOWrapper(io.BytesIO(b"a quiet neighbour"))
assert cli.main(["predict", "--model_dir=hf://owner/tiny"]) == 0
assert cli.main(["predict", "--model_dir=hf://owner/tony"]) == 2
"""
    shutil.copytree(folders[1], tmp_path / "repository")
    (tmp_path / "repository" / "model.safetensors").write_bytes(b"weights")
    server = Hub(tmp_path / "repository")
    with serving(server):
        printed = run_python(_ALONE.format(code=code), tmp_path, **server.environment(tmp_path))
    (label,), predicted = map(json.loads, printed.splitlines())
    assert label == predicted["label"] == load_portable(folders[1])(["a quiet neighbour"])["label"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), " must exist and be readable"),
        (lambda folder: (folder / "spm.model").write_bytes(b"other"), "must be the file that was exported"),
        (lambda folder: (folder / "portable.json").unlink(), "is a folder with portable.json"),
        (lambda folder: (folder / "portable.json").write_text("[]"), "must hold one JSON object"),
        (lambda folder: (folder / "portable.json").write_text("{}"), "json: Object missing required"),
        (lambda folder: list_file(folder, "../portable.json"), "portable.json: Invalid enum value"),
        (lambda folder: change_facts(folder, kind="song"), "the kind is song and the task 'classification'"),
    ],
)
def test_damaged_folders_are_refused(change, message, folders, tmp_path, capfd):
    copy = shutil.copytree(folders[1], tmp_path / "copy")
    change(copy)
    with pytest.raises(InputError, match=re.escape(message)):
        load_portable(copy)
    if (copy / "portable.json").exists():
        assert message in refused(capfd, "predict", f"--model_dir={copy}")


def test_flags_that_do_not_fit(folders, monkeypatch, capfd):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *args: None if name == "openvino" else found(name, *args)
    )
    file, folder = folders
    for model, flag, message in (
        (folder, "--engine=openvino", "Not installed; run `pip install '.[openvino]'`"),
        (folder, "--precision=bfloat16", "A portable model needs openvino. Not installed"),
        (folder, "--requests=0", "--requests must be at least 1. Received 0."),
        (folder, "--labels=a,b", "--vocab_file and --labels are not for portable models"),
        (folder, "--task=regression", "--task=regression must match the model"),
        (file, "--requests=2", "--engine, --precision, --requests and --cache_dir need a portable model"),
        (file, "--batch_tokens=0", "--batch_tokens and --max_answer_length must be at least 1."),
    ):
        assert message in refused(capfd, "predict", f"--model_dir={model}", flag)


def test_a_size_is_a_batch_size(folders):
    with pytest.raises(InputError, match=r"`size` must be a BatchSize .*\(rows=8\). Received 8"):
        load_portable(folders[1], size=8)


def test_other_names_need_another_export(folders, tmp_path, capfd):
    """`albert evaluate` refuses --labels with a portable model."""
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na\t0\n")
    flags = ["--task=sst-2", f"--gold={tmp_path / 'dev.tsv'}", f"--model_dir={folders[1]}"]
    message = "has small, big; export the model again with --labels, which names them in the order"
    assert message in refused(capfd, "evaluate", *flags)


class _KServe(http.server.BaseHTTPRequestHandler):
    """Answers as a model server does."""

    engine: Engine

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        arrays = {
            each["name"]: np.array(each["data"], np.int32).reshape(each["shape"])
            for each in request["inputs"]
        }
        outputs = [
            {"name": name, "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}
            for name, array in self.engine(arrays).items()
        ]
        body = json.dumps({"model_name": "albert", "outputs": outputs}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(("error", "raised"), [(NameError, NameError), (RuntimeError, InputError)])
def test_only_an_engines_own_errors_are_the_users(error, raised, monkeypatch, tmp_path):
    def broken(file, settings):
        raise error

    monkeypatch.setitem(engines._ENGINES, "onnxruntime", broken)
    (tmp_path / ONNX_FILE).write_bytes(b"\x08")
    with pytest.raises(raised):
        open_engine(tmp_path / ONNX_FILE, EngineSettings("onnxruntime"))


def test_onnx_runtime_loads_where_a_process_may_use_all_cores(folders, monkeypatch):
    """As on macOS and Windows, where Python has no sched_getaffinity."""
    monkeypatch.delattr("os.sched_getaffinity")
    assert load_portable(folders[1], engine="onnxruntime")(["a"])["label"].shape == (1,)


def test_a_server_may_run_the_model(folders):
    """The client in examples/serve answers from text, over the REST form of KServe."""
    folder = PortableFolder(folders[1])
    _KServe.engine = open_engine(folder.path / ONNX_FILE, EngineSettings("onnxruntime"))
    with http.server.HTTPServer(("localhost", 0), _KServe) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        engine = KServeEngine(f"http://localhost:{server.server_port}/v2/models/albert")
        found = model_class(folder.facts)(folder, engine)(CASES["text"].x)
        server.shutdown()
    expected = load_portable(folder.path, engine="onnxruntime")(CASES["text"].x)
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "task_kind", "options", "lengths"),
    [
        (
            "question-answering",
            "question_answering",
            {"max_answer_length": 30},
            {"max_seq_length": 40, "max_query_length": 10, "doc_stride": 5},
        ),
        ("encoder", "", {}, {}),
    ],
)
def test_the_clients_command_is_for_single_texts(
    kind, task_kind, options, lengths, folders, tmp_path, monkeypatch, capsys
):
    copy = shutil.copytree(folders[1], tmp_path / "copy")
    change_facts(copy, kind=kind, task_kind=task_kind, options=options, lengths=lengths, labels=[])
    monkeypatch.setattr("sys.argv", ["kserve_client", str(tmp_path / "copy"), "ab"])
    with pytest.raises(SystemExit, match="2"):
        kserve_client.main()
    assert f"a model of single texts. Received --kind={kind}." in capsys.readouterr().err
