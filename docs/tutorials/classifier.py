# %% [markdown]
# # Classify the texts of a CSV file
#
# At the end you have a classifier, trained on a CSV file, that names the class of a text; a picture of how it
# learned and one of what it confuses; and a file, `model.keras`, that an application loads. It takes about two
# minutes on two CPU cores.
#
# The example tells from a sentence which library its author was documenting. The sentences come from the
# docstrings of installed packages, so nothing is downloaded. To use a file of your own, leave the first section
# out.

# %%
import ast
import csv
import importlib.util
import random
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np

from albert_tf import AdamW, TextClassifier

# %% tags=["parameters"]
MODEL = "albert_small_en"  # comes with the package; `albert models` lists others, and a path also works
PACKAGES = ("keras", "matplotlib", "numpy")  # the classes
SENTENCES = 1200  # of each class
EPOCHS = 4

# %% [markdown]
# ## A CSV file
#
# The first sentence of a docstring says what a function or class is for. `ast` finds it without running the code.


# %%
def first_sentences(package):
    """The first paragraph of every docstring of an installed package."""
    folder = Path(importlib.util.find_spec(package).origin).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                yield " ".join(text.split("\n\n")[0].split())


random.seed(0)
rows = []
for package in PACKAGES:
    sentences = {text for text in first_sentences(package) if 5 <= len(text.split()) <= 40}
    rows += [(text, package) for text in random.sample(sorted(sentences), min(SENTENCES, len(sentences)))]
random.shuffle(rows)

with Path("sentences.csv").open("w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([("text", "label"), *rows])
print(Path("sentences.csv").read_text(encoding="utf-8")[:500])

# %% [markdown]
# ## Read it, and hold out a fifth
#
# What the classifier is worth shows only on texts that it was not trained on.

# %%
with Path("sentences.csv").open(newline="", encoding="utf-8") as file:
    table = list(csv.DictReader(file))
texts, labels = [row["text"] for row in table], [row["label"] for row in table]
classes = sorted(set(labels))
held_out = len(texts) // 5
dev_texts, dev_labels = texts[:held_out], labels[:held_out]
train_texts, train_labels = texts[held_out:], labels[held_out:]
print(f"{len(train_texts)} texts to train on, {held_out} held out, classes: {', '.join(classes)}")

# %% [markdown]
# ## Train
#
# A `TextClassifier` is a Keras model that takes strings. Its encoder is pretrained; the log line says that its
# head, one output for each class, is new.

# %%
model = TextClassifier.from_pretrained(MODEL, labels=classes, max_seq_length=64, seed=0)
model.compile(AdamW(2e-4), metrics=["accuracy"])
history = model.fit(
    train_texts, train_labels, validation_data=(dev_texts, dev_labels), epochs=EPOCHS, verbose=2
).history

# %%
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for panel, metric in zip(panels, ("loss", "accuracy"), strict=True):
    epochs = range(1, EPOCHS + 1)
    panel.plot(epochs, history[metric], marker="o", label="training")
    panel.plot(epochs, history[f"val_{metric}"], marker="o", label="held out")
    panel.set(title=metric, xlabel="epoch", xticks=epochs)
    panel.legend(frameon=False)
plt.show()

# %% [markdown]
# If the held-out loss rises while the training loss still falls, the model begins to memorize: fewer epochs, or
# more texts, are then better.
#
# ## What does it confuse?
#
# A row of the matrix holds the held-out texts of one class, a column what the model called them.

# %%
probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(model.predict(dev_texts, verbose=0)))
truth = np.array([classes.index(label) for label in dev_labels])
found = probabilities.argmax(axis=1)
confusion = np.zeros((len(classes), len(classes)), int)
np.add.at(confusion, (truth, found), 1)

figure, panel = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
panel.imshow(confusion, cmap="Blues")
for row, column in np.ndindex(confusion.shape):
    shade = "white" if confusion[row, column] > confusion.max() / 2 else "black"
    panel.text(column, row, confusion[row, column], ha="center", va="center", color=shade)
panel.set(xlabel="what the model says", ylabel="what is right")
panel.set_xticks(range(len(classes)), classes)
panel.set_yticks(range(len(classes)), classes)
plt.show()

most_frequent = max(dev_labels.count(label) for label in classes) / held_out
print(
    f"accuracy {np.mean(truth == found):.3f}; always the most frequent class would reach {most_frequent:.3f}"
)

# %% [markdown]
# The mistakes of which it is surest are worth reading: some labels are wrong, and some texts could be of any
# class.

# %%
mistakes = np.flatnonzero(truth != found)
for number in mistakes[np.argsort(-probabilities[mistakes].max(axis=1))][:5]:
    print(f"{classes[found[number]]} {probabilities[number].max():.0%}, but it is {dev_labels[number]}:")
    print(f"    {dev_texts[number][:100]}")

# %% [markdown]
# ## Use it
#
# `model.keras` contains the vocabulary, so it takes strings, too.

# %%
model.save("model.keras")

loaded = keras.saving.load_model("model.keras")
questions = [
    "Draws a line between two points.",
    "Trains the layer on a batch.",
    "Returns the sum of an array.",
]
for text, logits in zip(questions, loaded.predict(questions, verbose=0), strict=True):
    print(f"{loaded.labels[logits.argmax()]:12} {text}")

# %% [markdown]
# ## The same without Python
#
# `albert finetune` reads such files itself, keeps the weights of the best evaluation, and resumes if it is
# interrupted. Here `train.csv` and `dev.csv` are two parts of your own file, with its first line in both, and
# `texts.txt` has a text in each line:
#
#     albert finetune --task=classification --train_file=train.csv --dev_file=dev.csv \
#         --init_checkpoint=albert_small_en --output_dir=runs/mine --do_train --do_eval --learning_rate=2e-4
#     albert plot runs/mine
#     albert predict --model_dir=runs/mine < texts.txt
#
# ## Where to go next
#
# [Fine-tune](../finetune.md) has the other tasks: several labels per text, numbers, ordered and rare classes. For
# an application, `albert export --model_dir=model.keras --output=saved_model` writes the classifier with text in
# and classes out ([export](../export.md#text-in-answers-out)). [Serve a model](serving.ipynb) shows the steps for
# a model that fills in words, with and without TensorFlow.
