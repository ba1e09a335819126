# %% [markdown]
# # Serve a model, with and without TensorFlow
#
# At the end you have the folder that TensorFlow Serving expects, a program that loads it without this library, a
# program that answers without TensorFlow, and a picture of what each costs. It takes about a minute on two CPU
# cores.

# %%
import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's operations

# %% tags=["parameters"]
MODEL = "albert_small_en"  # comes with the package; `albert models` lists others, and a path also works
TEXTS = ["The captain opened the [MASK].", "She did not [MASK] a word.", "A [MASK] letter, a [MASK] day."]
REQUESTS = 50  # to measure the time of one

# %% [markdown]
# ## TensorFlow Serving: the folder
#
# `albert` is the command of this library. Here it runs from Python; in a terminal, type what follows the `$`.
# Serving looks for a folder for each version inside the model's folder, so this is version 1 of the model
# `albert`.


# %%
def albert(command):
    """Runs a command as in a terminal, and shows what it prints."""
    print("$ albert", command)
    done = subprocess.run(f"albert {command}", shell=True, stdout=PIPE, stderr=STDOUT, text=True)
    print(done.stdout)
    done.check_returncode()


def show(folder):
    """Lists the files of a folder, and returns their size in megabytes."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    for path in files:
        print(f"{path.stat().st_size / 1e3:10,.1f} kB  {path}")
    return sum(path.stat().st_size for path in files) / 1e6


albert(f"export --kind=fill-mask --model_dir={MODEL} --output=models/albert/1")
sizes = {"SavedModel": show("models")}

# %% [markdown]
# The tokenizer is in the graph: requests contain text. `assets.extra` holds requests with which Serving warms up.
# Start it in a container, and ask:
#
#     docker run --rm -p 8501:8501 -e MODEL_NAME=albert \
#         --mount type=bind,source="$PWD/models/albert",target=/models/albert tensorflow/serving
#     curl localhost:8501/v1/models/albert:predict -d '{"instances": ["The captain opened the [MASK]."]}'
#
# There is no container on this page, but Serving does no more than this: it turns the body of the request into a
# tensor, calls the signature `serving_default`, and returns a row of each output for each text.

# %%
body = json.dumps({"instances": TEXTS[:1]})
signature = tf.saved_model.load("models/albert/1").signatures["serving_default"]
outputs = signature(text=tf.constant(json.loads(body)["instances"]))
prediction = {
    "pieces": [[piece.decode() for piece in pieces] for pieces in outputs["pieces"].numpy()[0]],
    "probabilities": outputs["probabilities"].numpy()[0].round(4).tolist(),
}
print("request ", body)
print("response", json.dumps({"predictions": [prediction]}, ensure_ascii=False))

# %% [markdown]
# ## A program with TensorFlow alone
#
# An application needs `tensorflow` and `tensorflow_text`, but not this library. The last lines measure: how long
# it takes from the start to the first answer, and one request after that.

# %%
MEASURE = f"""
texts = {TEXTS!r}
answers = ask(texts)
started = time.perf_counter()
for _ in range({REQUESTS}):
    ask(texts[:1])
request = (time.perf_counter() - started) / {REQUESTS}
used = [name for name in ("albert_tf", "tensorflow") if name in sys.modules]
print(json.dumps({{"used": used, "start": started - began, "request": request, **answers}}))
"""

WITH_TENSORFLOW = """
import json, sys, time
began = time.perf_counter()

import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

fill_mask = tf.saved_model.load("models/albert/1")

def ask(texts):
    outputs = fill_mask(tf.constant(texts))
    pieces = [[[piece.decode() for piece in best] for best in of_text] for of_text in outputs["pieces"].numpy()]
    return {"pieces": pieces, "probabilities": outputs["probabilities"].numpy().tolist()}
"""


def answers_of(program):
    """What a program prints, in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-c", program + MEASURE], check=True, capture_output=True, text=True
    )
    return json.loads(result.stdout)


programs = {"SavedModel": answers_of(WITH_TENSORFLOW)}
print("modules:", programs["SavedModel"]["used"])

# %% [markdown]
# ## A program without TensorFlow
#
# `--format=onnx` writes a portable model. `load_portable` needs NumPy, sentencepiece and an engine, ONNX Runtime
# or OpenVINO.

# %%
albert(f"export --format=onnx --kind=fill-mask --model_dir={MODEL} --output=portable")
sizes["portable"] = show("portable")

WITHOUT_TENSORFLOW = """
import json, sys, time
began = time.perf_counter()

from albert_tf import load_portable

fill_mask = load_portable("portable", engine="onnxruntime")

def ask(texts):
    outputs = fill_mask(texts)
    return {"pieces": outputs["pieces"].tolist(), "probabilities": outputs["probabilities"].tolist()}
"""

programs["portable"] = answers_of(WITHOUT_TENSORFLOW)
print("modules:", programs["portable"]["used"])

# %% [markdown]
# ## The same answers

# %%
probabilities = {name: np.array(answers["probabilities"]) for name, answers in programs.items()}
difference = np.abs(probabilities["SavedModel"] - probabilities["portable"]).max()
print(f"largest difference of a probability: {difference:.1e}")
for text, masks in zip(TEXTS, programs["portable"]["pieces"], strict=True):
    guesses = [", ".join(piece.lstrip("▁") for piece in best if piece) for best in masks]
    print(text, *filter(None, guesses), sep="\n    ")

# %% [markdown]
# ## What each costs

# %%
measured = {
    "files, MB": sizes,
    "first answer, s": {name: answers["start"] for name, answers in programs.items()},
    "one request, ms": {name: 1000 * answers["request"] for name, answers in programs.items()},
}
figure, panels = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
for panel, (title, values) in zip(panels, measured.items(), strict=True):
    bars = panel.bar(list(values), list(values.values()), color=["tab:orange", "tab:blue"])
    panel.bar_label(bars, fmt="%.2g")
    panel.set_title(title)
    panel.margins(y=0.15)
    panel.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## Where to go next
#
# [Export](../export.md) describes all kinds (classifiers, answers to questions, embeddings), int8, and files for
# phones. [Serving an export](../../examples/serve/README.md) has REST and gRPC clients, a load test, OpenVINO
# Model Server and a program in C.
