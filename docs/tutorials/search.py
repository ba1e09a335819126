# %% [markdown]
# # Search by meaning: sentence embeddings
#
# At the end you have a model that turns a text into a vector, so that texts about the same matter have similar
# vectors; a search with it; a picture of the vectors; and a SavedModel that computes them. It takes about three
# minutes on two CPU cores.
#
# The texts are docstrings of installed packages. The task: given the first sentence of a docstring, find the
# docstring that it was taken from, among several hundred.

# %%
import ast
import importlib.util
import random
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import albert_tf

# %% tags=["parameters"]
MODEL = "albert_small_en"  # comes with the package; `albert models` lists others, and a path also works
PACKAGES = ("keras", "matplotlib", "numpy")
PAIRS = 3500  # docstrings, of all packages together
LENGTH = 48  # tokens; longer texts are cut
EPOCHS = 3
BATCH = 64
LEARNING_RATE = 3e-4

# %% [markdown]
# ## Pairs of texts
#
# The first sentence of a docstring and the paragraph after it are about the same thing, mostly in other words.


# %%
def pairs_of(package):
    """(first sentence, the text after it) of every longer docstring of an installed package."""
    folder = Path(importlib.util.find_spec(package).origin).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                first, _, rest = (" ".join(part.split()) for part in text.partition("\n\n"))
                if len(first.split()) >= 4 and len(rest.split()) >= 8:
                    yield first, rest


random.seed(0)
pairs = {first: (rest, package) for package in PACKAGES for first, rest in pairs_of(package)}
chosen = random.sample(sorted(pairs), min(PAIRS, len(pairs)))
firsts, rests, packages = chosen, [pairs[one][0] for one in chosen], [pairs[one][1] for one in chosen]
held_out = min(500, len(chosen) // 5)
print(f"{len(chosen) - held_out} pairs to train on, {held_out} held out. The first:")
print(f"    {firsts[0][:100]}\n    {rests[0][:100]}")

# %% [markdown]
# ## The mean of the token vectors
#
# The encoder gives each token a vector. Their mean, scaled to length 1, is the simplest embedding of a text: the
# product of two embeddings is then the cosine of their angle, 1 for the same direction.

# %%
loaded = albert_tf.load_pretrained(MODEL)
tokenizer = loaded.tokenizer


def ids_of(texts):
    """Token ids (N, LENGTH), with [CLS] before and [SEP] after each text, and 0 for padding."""
    rows = [[tokenizer.cls_id, *ids[: LENGTH - 2], tokenizer.sep_id] for ids in tokenizer.encode_batch(texts)]
    return keras.utils.pad_sequences(rows, LENGTH, padding="post")


class Embedder(keras.Model):
    """Token ids (N, T) to vectors (N, H) of length 1."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def call(self, ids, training=False):
        mask = keras.ops.cast(ids != 0, "int32")
        tokens = self.encoder({"input_ids": ids, "input_mask": mask}, training=training)["sequence_output"]
        weights = keras.ops.expand_dims(keras.ops.cast(mask, tokens.dtype), -1)
        return keras.ops.normalize(keras.ops.sum(tokens * weights, axis=1))


loaded.encoder.pooler.trainable = False  # its output is not used
embedder = Embedder(loaded.encoder)

# %% [markdown]
# How good is the search? For each held-out first sentence, all held-out texts are sorted by the cosine. Recall at
# 10 is the share of sentences whose own text is among the first ten.

# %%
recalls = {}


def measure(name, queries, documents):
    """Recall at 1 and at 10, for vectors whose rows belong together."""
    scores = queries @ documents.T
    ranks = (scores > np.diag(scores)[:, None]).sum(axis=1)
    recalls[name] = [np.mean(ranks < 1), np.mean(ranks < 10)]
    print(f"{name:38} recall at 1: {recalls[name][0]:.3f}, at 10: {recalls[name][1]:.3f}")


queries, documents = ids_of(firsts[:held_out]), ids_of(rests[:held_out])
by_chance = np.random.default_rng(0).normal(size=(2, held_out, 8))
measure("chance", *by_chance)
measure(
    "mean of the pretrained vectors",
    embedder.predict(queries, verbose=0),
    embedder.predict(documents, verbose=0),
)
words = TfidfVectorizer(sublinear_tf=True).fit(rests)
measure(
    "common words (tf-idf)",
    words.transform(firsts[:held_out]).toarray(),
    words.transform(rests[:held_out]).toarray(),
)

# %% [markdown]
# Pretraining does not ask for vectors that can be compared, so common words are the better search so far.
#
# ## Train the embedding
#
# In a batch of pairs, each first sentence has to find its own text among those of the whole batch: the cosines are
# the logits of a classifier whose classes are the texts of the batch. No labels are needed, only pairs.


# %%
class PairScores(keras.Model):
    """The cosine of each first text with each second text of a batch, times 20: logits (B, B)."""

    def __init__(self, embedder):
        super().__init__()
        self.embedder = embedder

    def call(self, pairs, training=False):
        first, second = self.embedder(pairs[0], training=training), self.embedder(pairs[1], training=training)
        return 20 * keras.ops.matmul(first, keras.ops.transpose(second))


train_first, train_second = ids_of(firsts[held_out:]), ids_of(rests[held_out:])
steps = len(train_first) // BATCH * EPOCHS
scorer = PairScores(embedder)
scorer.compile(
    albert_tf.AdamW(albert_tf.WarmupPolynomialDecay(LEARNING_RATE, steps, steps // 10)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
rng = np.random.default_rng(0)


def batches():
    """Endless batches of pairs; the right class of a row is its own number."""
    while True:
        order = rng.permutation(len(train_first))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            yield (train_first[rows], train_second[rows]), np.arange(BATCH)


history = scorer.fit(batches(), steps_per_epoch=steps // EPOCHS, epochs=EPOCHS, shuffle=False, verbose=2)

# %%
query_vectors, document_vectors = (embedder.predict(ids, verbose=0) for ids in (queries, documents))
measure("trained on pairs", query_vectors, document_vectors)

figure, panel = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
places = np.arange(len(recalls))
panel.barh(places + 0.2, [at_10 for _, at_10 in recalls.values()], 0.4, label="recall at 10")
panel.barh(places - 0.2, [at_1 for at_1, _ in recalls.values()], 0.4, label="recall at 1")
panel.set_yticks(places, recalls)
panel.set(xlim=(0, 1), title=f"search among {held_out} held-out texts")
panel.legend(frameon=False)
plt.show()

# %% [markdown]
# Training has more than tripled the vectors' recall at 1. Common words are still the better search for these
# texts: a docstring repeats the words of its first sentence, and the model is small and has seen few pairs.
# Vectors are worth their cost where question and text share few words; applications often add the two scores.
#
# ## Search
#
# A question in words of your own, and the three nearest held-out texts:

# %%
for question in (
    "make a picture lighter or darker",
    "how wrong are the predictions",
    "put two arrays together",
):
    vector = embedder.predict(ids_of([question]), verbose=0)[0]
    print(question)
    for best in np.argsort(-(document_vectors @ vector))[:3]:
        print(f"    {document_vectors[best] @ vector:.2f}  {packages[best]}: {firsts[best][:80]}")

# %% [markdown]
# ## A picture of the vectors
#
# The two directions in which the vectors differ most (principal components), a dot for each text:

# %%
centred = document_vectors - document_vectors.mean(axis=0)
flat = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T

figure, panel = plt.subplots(figsize=(6, 4.5), layout="constrained")
for package in PACKAGES:
    members = [number for number in range(held_out) if packages[number] == package]
    panel.scatter(*flat[members].T, s=14, alpha=0.7, label=package)
panel.set(title="held-out texts", xticks=[], yticks=[])
panel.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Give it to an application
#
# `albert export --kind=embedding` writes a SavedModel from text to vectors, with the tokenizer inside. Training
# has changed the encoder in place, so `loaded.model` is the model to save. A loaded export gives the vectors
# before they are scaled to length 1.

# %%
loaded.model.save("embedder.keras")
vocabulary = loaded.vocabulary.save(".")
command = (
    f"albert export --kind=embedding --model_dir=embedder.keras --vocab_file={vocabulary} --output=embedding"
)
print("$", command)
print(subprocess.run(command, shell=True, check=True, stdout=PIPE, stderr=STDOUT, text=True).stdout)

# %% [markdown]
# ## Where to go next
#
# [Serve a model](serving.ipynb) loads such a folder, also without TensorFlow (`--format=onnx`).
# [Export](../export.md#text-in-answers-out) describes the other kinds; `TextClassifier` and its relatives compare
# [pairs of texts](../finetune.md#in-python) that carry labels.
