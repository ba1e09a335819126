"""The clients against a loopback server that speaks Serving's protocols; the C program."""

import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.runtime.pretrained import load_pretrained
from examples.serve import load_test, rest_client
from tests.albert_tf.checkpoints.processes import serving
from tests.export.conftest import exported, source

pytestmark = pytest.mark.slow

__all__ = ["exported", "source"]

SERVE = Path(__file__).parents[2] / "examples" / "serve"
TEXTS = ["The captain [MASK] past.", "A [MASK] letter, a [MASK]."]


def three_pieces(texts: list[str]) -> dict[str, tf.Tensor]:
    """What a fill-mask export returns for texts with up to two masks."""
    pieces = np.array([[["the", "a", "é"], ["past", "of", "▁"]]] * len(texts))
    probabilities = np.full(pieces.shape, 0.25, "float32")
    for row, text in enumerate(texts):
        pieces[row, text.count("[MASK]") :] = ""
        probabilities[row, text.count("[MASK]") :] = 0.0
    return {"pieces": tf.constant(pieces), "probabilities": tf.constant(probabilities)}


@pytest.fixture(params=["pieces", pytest.param("export", marks=pytest.mark.very_slow)])
def signature(request):
    """A real export, or what takes its place."""
    if request.param == "pieces":
        return three_pieces
    loaded = tf.saved_model.load(request.getfixturevalue("exported")("fill-mask", top_k=3))
    return lambda texts: loaded.signatures["serving_default"](text=tf.constant(texts))


def answering(answer):
    """A server whose `answer` gives the status and the body for the texts of a request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/models/albert:predict"
            content = self.rfile.read(int(self.headers["Content-Length"]))
            status, body = answer(json.loads(content)["instances"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def url(signature):
    """TensorFlow Serving's REST row format, as its documentation has it."""

    def answer(texts):
        outputs = {name: array.numpy() for name, array in signature(texts).items()}
        outputs["pieces"] = np.char.decode(outputs["pieces"].astype(bytes), "utf-8")
        rows = [{name: array[i].tolist() for name, array in outputs.items()} for i in range(len(texts))]
        return 200, json.dumps({"predictions": rows}).encode()

    server = answering(answer)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}/v1/models/albert"


def test_rest_client(url, signature, monkeypatch, capsys):
    expected = signature(TEXTS)
    predictions = rest_client.predict(url, TEXTS)
    for i, outputs in enumerate(predictions):
        np.testing.assert_allclose(outputs["probabilities"], expected["probabilities"][i], atol=1e-6)
        assert outputs["pieces"][0] == [piece.decode() for piece in expected["pieces"][i, 0].numpy()]
    monkeypatch.setattr("sys.argv", ["rest_client", f"--url={url}", *TEXTS])
    rest_client.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6  # the texts, and a line for each mask and for the place that is left in the first
    assert re.fullmatch(r"    (\S+ 0\.\d{3}(  )?){3}", lines[1])


def test_load_test(url, monkeypatch, capsys):
    result = load_test.load(url, TEXTS, clients=3, requests=7)
    assert len(result.latencies) == 7
    assert max(result.latencies) <= result.seconds
    monkeypatch.setattr("sys.argv", ["load_test", f"--url={url}", "--clients=2", "--requests=4"])
    load_test.main()
    assert re.fullmatch(
        r"[\d.]+ requests/s; latency \d+ ms \(median\), \d+ ms \(90%\), \d+ ms \(99%\)\n",
        capsys.readouterr().out,
    )
    assert load_test.Load(2.0, (0.1,) * 10).sentence.startswith("5.0 requests/s; latency 100 ms (median)")


@pytest.fixture
def refusing():
    """A server that answers every request with status 400."""
    server = answering(lambda texts: (400, b'{"error": "no such signature"}'))
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}/v1/models/albert"


@pytest.mark.parametrize(("client", "argument"), [(rest_client, "A [MASK]."), (load_test, "--requests=1")])
def test_requests_that_fail_are_one_sentence(client, argument, refusing, monkeypatch, capsys):
    for url, message in (
        (refusing, 'answers with status 400: {"error": "no such signature"}'),
        ("http://localhost:1/v1", "must be the address of a model on a server that runs. Received: [Errno"),
        ("localhost:8501", "Received: unknown url type: localhost."),
    ):
        monkeypatch.setattr("sys.argv", ["client", f"--url={url}", argument])
        with pytest.raises(SystemExit, match="2"):
            client.main()
        assert message in capsys.readouterr().err


def test_grpc_client(signature):
    pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    from examples.serve import grpc_client

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802 - gRPC's name
            assert (request.model_spec.name, request.model_spec.signature_name) == (
                "albert",
                "serving_default",
            )
            outputs = signature(tf.make_ndarray(request.inputs["text"]))
            response = predict_pb2.PredictResponse()
            for name, array in outputs.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(array.numpy()))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        outputs = grpc_client.predict(channel, "albert", TEXTS)
    server.stop(None).wait()
    for name, array in signature(TEXTS).items():
        np.testing.assert_array_equal(outputs[name], array)


@pytest.mark.very_slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_c_program_runs_the_encoder(source, exported, tmp_path):
    tensorflow = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
    if not Path(tensorflow, "libtensorflow_cc.so.2").exists():
        pytest.skip("this TensorFlow's library has another name")
    libraries = [f"-L{tensorflow}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    compiled = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-isystem", f"{tensorflow}/include"]
    compiled += [SERVE / "encode.c", "-o", tmp_path / "encode", *libraries, f"-Wl,-rpath,{tensorflow}"]
    subprocess.run(compiled, check=True)
    command = [tmp_path / "encode", exported("encoder"), "2", "13", "1", "9", "3"]
    for_tpus = {name: value for name, value in os.environ.items() if "TPU" in name}  # with tensorflow-tpu
    done = subprocess.run(command, env=for_tpus, capture_output=True, text=True, check=True)
    expected = load_pretrained(source).encoder({"input_ids": np.array([[2, 13, 1, 9, 3]])})["pooled_output"]
    np.testing.assert_allclose([float(number) for number in done.stdout.split()], expected[0, :8], atol=1e-5)
    failed = subprocess.run([tmp_path / "encode", tmp_path, "2"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "loading: " in failed.stderr
