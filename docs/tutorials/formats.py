# %% [markdown]
# # Move a model between TF1, Hugging Face and KerasHub
#
# At the end you have one model in three formats, proof that they compute the same, and a classifier that Hugging
# Face's transformers can read. It takes about a minute on two CPU cores.

# %%
import shutil
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from safetensors import safe_open

import albert_tf

# %% tags=["parameters"]
MODEL = (
    "albert_small_en"  # comes with the package; also a run, a checkpoint of Google's, "hf://OWNER/NAME", ...
)
SENTENCE = "The captain opened the [MASK] and went out."

# %% [markdown]
# ## Convert
#
# `albert` is the command of this library. Here it runs from Python; in a terminal, type what follows the `$`. The
# source may be in any of the formats, and need not be named: it is recognized. Each result is read back and
# compared with the source before it is moved into place. If transformers or keras-hub is installed, it computes
# the comparison. KerasHub has no place for the head that predicts the order of sentences, so this part is left out
# there, as a note says.


# %%
def albert(command):
    """Runs a command as in a terminal, and shows what it prints."""
    print("$ albert", command)
    done = subprocess.run(f"albert {command}", shell=True, stdout=PIPE, stderr=STDOUT, text=True)
    print(done.stdout)
    done.check_returncode()


FORMATS = {"tf1": "TF1, as google-research/albert", "huggingface": "Hugging Face", "kerashub": "KerasHub"}
shutil.rmtree("converted", ignore_errors=True)  # what this page wrote before: a result needs a new folder
for format_ in FORMATS:
    albert(f"convert {MODEL} converted/{format_} --to={format_}")

# %%
for format_, name in FORMATS.items():
    print(f"{name}: converted/{format_}")
    for path in sorted(Path("converted", format_).rglob("*")):
        if path.is_file():
            print(f"    {path.stat().st_size / 1e3:9,.1f} kB  {path.relative_to(f'converted/{format_}')}")

# %% [markdown]
# ## The same matrix under its names
#
# The formats differ in the names, and some matrices are transposed. Here are a few parameters as TF1 and Hugging
# Face store them.

# %%
(checkpoint,) = Path("converted/tf1").glob("*.index")
tf1 = tf.train.load_checkpoint(str(checkpoint.with_suffix("")))
block = "bert/encoder/transformer/group_0/inner_group_0"
layer = "albert.encoder.albert_layer_groups.0.albert_layers.0"
names = {
    "bert/embeddings/word_embeddings": "albert.embeddings.word_embeddings.weight",
    f"{block}/attention_1/self/query/kernel": f"{layer}.attention.query.weight",
    f"{block}/ffn_1/intermediate/dense/kernel": f"{layer}.ffn.weight",
    "cls/predictions/transform/dense/kernel": "predictions.dense.weight",
}
with safe_open("converted/huggingface/model.safetensors", "numpy") as huggingface:
    for tf1_name, huggingface_name in names.items():
        theirs, ours = huggingface.get_tensor(huggingface_name), tf1.get_tensor(tf1_name)
        transposed = not tf1_name.endswith("embeddings")
        same = np.array_equal(ours, theirs.T if transposed else theirs)
        print(f"{tf1_name} {ours.shape}\n{huggingface_name} {theirs.shape}")
        print(f"    {'equal after transposing' if transposed else 'equal'}: {same}\n")

# %% [markdown]
# ## The same answers
#
# `load_pretrained` reads each folder. Every format gives the same probabilities for the masked word, to the last
# bit. The part that KerasHub lacks has new, random weights.

# %%
before, _, after = SENTENCE.partition("[MASK]")
answers = {}
for source in (MODEL, *(f"converted/{format_}" for format_ in FORMATS)):
    loaded = albert_tf.load_pretrained(source)
    tokenizer = loaded.tokenizer
    left = [tokenizer.cls_id, *tokenizer.encode(before)]
    ids = [*left, tokenizer.mask_id, *tokenizer.encode(after), tokenizer.sep_id]
    inputs = {"input_ids": np.array([ids]), "masked_lm_positions": np.array([[len(left)]])}
    logits = loaded.model(inputs)["masked_lm_logits"][0, 0]
    answers[source] = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    difference = np.abs(answers[source] - answers[MODEL]).max()
    print(f"{source:21} largest difference {difference}, missing parts: {loaded.missing or 'none'}")

# %%
best = np.argsort(-answers[MODEL])[:6]
figure, panel = plt.subplots(figsize=(8, 3.2), layout="constrained")
for number, (source, probabilities) in enumerate(answers.items()):
    panel.bar(np.arange(len(best)) + 0.2 * (number - 1.5), probabilities[best], 0.18, label=source)
panel.set_xticks(range(len(best)), [tokenizer.pieces[id_].replace("▁", "") for id_ in best])
panel.set(title=SENTENCE, ylabel="probability")
panel.legend(frameon=False)
plt.show()

# %% [markdown]
# ## A fine-tuned model
#
# Heads and the names of classes move, too. This classifier is not trained, so its answers mean nothing; what
# counts is that both files give the same ones. `albert convert` takes a run of `albert finetune` in the same way.

# %%
classifier = albert_tf.TextClassifier.from_pretrained("converted/tf1", labels=("bad", "good"), seed=0)
classifier.save("classifier.keras")
albert("convert classifier.keras converted/classifier --to=huggingface")

moved = albert_tf.TextClassifier.from_pretrained("converted/classifier")
texts = ["What a film!", "Two hours wasted."]
print(moved.labels, np.abs(moved.predict(texts, verbose=0) - classifier.predict(texts, verbose=0)).max())

# %% [markdown]
# In transformers, `pipeline("text-classification", "converted/classifier")` now answers with these classes.
#
# ## Where to go next
#
# [Load and convert](../convert.md) lists what every format can hold, models by name and address, and how to
# publish one. [Serve a model](serving.ipynb) writes formats for applications: SavedModels and ONNX.
