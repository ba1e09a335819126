# %% [markdown]
# # Pretrain on your own language
#
# At the end you have a small ALBERT that was trained on nothing but a folder of text files: its vocabulary, its
# learning curve, and a SavedModel that fills in masked words. It takes about five minutes on two CPU cores.
#
# Put plain text files (UTF-8, a blank line between paragraphs) into a folder `texts`. The outputs on this page are
# of two German novels, less than a megabyte; for another language, change the parameters.

# %%
import json
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's operations

import albert_tf

# %% tags=["parameters"]
TEXTS = "texts"  # a folder of .txt files
LANGUAGE = "de"  # decides how text is split into sentences
ACCENTS = "--keep_accents"  # "" where accents do not matter, as in English
VOCABULARY = 4000  # pieces
SIZES = {"embedding_size": 128, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
STEPS = {32: 2000, 128: 1000}  # tokens in a sequence -> training steps
WARMUP = 300  # steps
SENTENCE = "Der Schmetterling flog am Nachmittag durch den Gartenzaun."
MASKED = [
    "Sie ging langsam in den [MASK].",
    "Er sah sie [MASK] und sagte nichts.",
    "Das war ein schöner [MASK].",
]

# %% [markdown]
# ## Hold out a part
#
# The last twentieth of each file is for evaluation: what a model knows shows on text that it has not read.

# %%
for file in sorted(Path(TEXTS).glob("*.txt")):
    paragraphs = [text for text in file.read_text(encoding="utf-8").split("\n\n") if text.strip()]
    cut = len(paragraphs) * 19 // 20
    for part, kept in (("train", paragraphs[:cut]), ("heldout", paragraphs[cut:])):
        Path(part).mkdir(exist_ok=True)
        Path(part, file.name).write_text("\n\n".join(kept), encoding="utf-8")
    print(f"{file.name}: {sum(map(len, paragraphs)):,} characters in {len(paragraphs):,} paragraphs")

# %% [markdown]
# ## A vocabulary
#
# `albert` is the command of this library. Here it runs from Python; in a terminal, type what follows the `$`.


# %%
def albert(command):
    """Runs a command as in a terminal, and shows what it prints."""
    print("$ albert", command)
    done = subprocess.run(f"albert {command}", shell=True, stdout=PIPE, stderr=STDOUT, text=True)
    print(done.stdout)
    done.check_returncode()


prose = f"--input_format=prose --language={LANGUAGE}"
albert(
    f"vocab {prose} {ACCENTS} --input_file='train/*.txt' --output_prefix=vocab/spm --vocab_size={VOCABULARY}"
)

# %% [markdown]
# Frequent words are one piece; others are put together from several. `▁` stands for the space before a word.

# %%
tokenizer = albert_tf.Vocabulary.read("vocab/spm.model").tokenizer()
print(" ".join(tokenizer.pieces[id_] for id_ in tokenizer.encode(SENTENCE)))

# %% [markdown]
# ## Examples
#
# From the training text, `--masking=dynamic` stores only sentences; training draws new pairs and masks in every
# pass, since a small text would otherwise be memorized. The held-out examples are fixed.

# %%
for length in STEPS:
    common = f"{prose} --spm_model_file=vocab/spm.model --max_seq_length={length}"
    train, heldout = f"examples{length}/train/train.tfrecord", f"examples{length}/heldout/heldout.tfrecord"
    albert(f"prepare {common} --input_file='train/*.txt' --output_file={train} --masking=dynamic")
    albert(f"prepare {common} --input_file='heldout/*.txt' --output_file={heldout} --dupe_factor=5")

# %% [markdown]
# ## Train
#
# A small model first learns from short sequences, which is much faster, and then from longer ones: one `--phase`
# each. Every step has about the same number of tokens.

# %%
config = albert_tf.AlbertConfig(
    **SIZES,
    vocab_size=VOCABULARY,
    intermediate_size=4 * SIZES["hidden_size"],
    max_position_embeddings=max(STEPS),
    initializer_range=0.05,  # narrow layers need larger initial weights than 0.02
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
config.to_json_file("albert_config.json")
phases = " ".join(
    f"--phase='input_file=examples{length}/train/train.tfrecord "
    f"eval_file=examples{length}/heldout/heldout.tfrecord "
    f"num_train_steps={steps} train_batch_size={2048 // length}'"
    for length, steps in STEPS.items()
)
steps = sum(STEPS.values())
albert(
    f"pretrain --do_train --do_eval {phases} --albert_config_file=albert_config.json --output_dir=runs/mine "
    f"--optimizer=adamw --learning_rate=0.002 --poly_power=0.5 --num_warmup_steps={WARMUP} "
    f"--log_steps={max(1, steps // 30)} --save_checkpoints_steps={max(1, steps // 10)} --max_eval_steps=1000"
)

# %% [markdown]
# ## What has it learned?
#
# Two tasks: to fill in masked words, and to tell whether two pieces of text are in order. A model that always
# answers with the most frequent piece gives the lower line on the left; guessing gives the line on the right.

# %%
examples = albert_tf.ExampleFiles.read([f"examples{max(STEPS)}/heldout/heldout.tfrecord"])
counts = np.zeros(VOCABULARY)
for batch in albert_tf.pretraining_dataset(examples, batch_size=64, repeat=False):
    np.add.at(counts, batch["masked_lm_ids"].numpy(), batch["masked_lm_weights"].numpy())

lines = [json.loads(line) for line in Path("runs/mine/metrics.jsonl").read_text().splitlines()]
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for panel, task, baseline in zip(
    panels, ("masked_lm", "sentence_order"), (counts.max() / counts.sum(), 0.5), strict=True
):
    for prefix, label, style in (("", "training", "-"), ("eval_", "held out", "o")):
        name = f"{prefix}{task}_accuracy"
        known = [line for line in lines if name in line]
        panel.plot([line["step"] for line in known], [line[name] for line in known], style, label=label)
    panel.axhline(baseline, color="gray", ls=":")
    panel.axvline(next(iter(STEPS.values())), color="gray", ls="--", lw=0.8, label="longer sequences")
    panel.set(title=f"{task.replace('_', ' ')}: accuracy", xlabel="step")
panels[0].legend(frameon=False)
plt.show()

last = [line for line in lines if "eval_masked_lm_accuracy" in line][-1]
frequent = counts.max() / counts.sum()
print(f"masked words: {last['eval_masked_lm_accuracy']:.3f}; always the most frequent piece: {frequent:.3f}")
print(f"sentence order: {last['eval_sentence_order_accuracy']:.3f}; chance: 0.5")

# %% [markdown]
# The order of sentences takes more text, and more time, than this ([recipes](../recipes.md)).
#
# ## Fill in words

# %%
albert("export --kind=fill-mask --model_dir=runs/mine --output=fill_mask")
outputs = tf.saved_model.load("fill_mask")(tf.constant(MASKED))
for sentence, pieces, probabilities in zip(
    MASKED, outputs["pieces"].numpy()[:, 0], outputs["probabilities"].numpy()[:, 0], strict=True
):
    guesses = (f"{p.decode().lstrip('▁')} {q:.0%}" for p, q in zip(pieces, probabilities, strict=True))
    print(f"{sentence}\n    {', '.join(guesses)}")

# %% [markdown]
# How sensible the words are depends on the amount of text more than on anything else. Two novels are 250,000
# tokens: enough to learn which words are frequent and how they follow each other, and the right plot shows that
# the order of so few sentences is soon memorized. The demo, on ten megabytes, ends at twice this accuracy
# ([the demo](../demo.md)).
#
# ## Look inside
#
# The model has a vector for each position in a sequence. Nobody told it that 5 comes after 4: it learned that
# neighbours are alike. The picture shows the cosine of each pair of the first positions.

# %%
loaded = albert_tf.load_pretrained("runs/mine")
positions = keras.ops.convert_to_numpy(loaded.encoder.embeddings.position_embeddings)[: min(STEPS)]
positions = positions / np.linalg.norm(positions, axis=1, keepdims=True)
figure, panel = plt.subplots(figsize=(4.4, 3.6), layout="constrained")
picture = panel.imshow(positions @ positions.T, cmap="RdBu_r", vmin=-1, vmax=1)
figure.colorbar(picture, label="cosine")
panel.set(title="position vectors", xlabel="position", ylabel="position")
plt.show()

# %% [markdown]
# ## Where to go next
#
# [Recipes](../recipes.md) say what to set for hours and days of training, [pretrain](../pretrain.md) has the
# paper's run, [devices](../devices.md) GPUs, TPUs and clusters, [other languages](../languages.md) when to keep
# accents. `runs/mine` is a pretrained model. To [classify texts](classifier.ipynb) of this language, set
# `MODEL = "runs/mine"` there, and start in the same folder with a CSV file of your own.
