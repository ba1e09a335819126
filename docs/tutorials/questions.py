# %% [markdown]
# # Answer questions about your documents
#
# At the end you have a model that answers a question with a span of the text that you give it; its exact match and
# F1 on documents that it has not seen; and pictures of how it learned and where it looks. It takes about seven
# minutes on two CPU cores.
#
# The documents are docstrings of Keras, which every reader has. A question asks what an argument is, or what a
# function returns, and the answer is the first sentence of that section. This is a small task that shows the
# steps: its questions are all alike. For questions as people ask them, train on SQuAD in the same way.

# %%
import ast
import importlib.util
import json
import random
import re
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import matplotlib.pyplot as plt
import numpy as np

from albert_tf import QuestionAnswering

# %% tags=["parameters"]
MODEL = "albert_small_en"  # comes with the package; `albert models` lists others, and a path also works
PACKAGE = "keras"
TRAINING_FLAGS = (
    "--num_train_epochs=8 --train_batch_size=24 --learning_rate=3e-4 --max_seq_length=192 "
    "--max_query_length=24 --doc_stride=96 --save_checkpoints_steps=68"
)

# %% [markdown]
# ## Questions in SQuAD's format
#
# SQuAD's files are JSON: articles hold paragraphs, a paragraph is a context with questions, and an answer is a
# text with its position in the context, counted in characters.

# %%
ENTRY = re.compile(r"^(?: +(\w+):|(Returns):)\s+(.+(?:\n(?! +\w+:).+)*)", re.MULTILINE)


def docstrings(package):
    """The name and docstring of everything in an installed package that describes its arguments."""
    folder = Path(importlib.util.find_spec(package).origin).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                text = ast.get_docstring(node) or ""
                if "Args:" in text and len(text) < 800:
                    yield node.name, text


def paragraph(number, name, docstring):
    """A docstring and its questions, each with an id of its own, as SQuAD writes them."""
    context = " ".join(docstring.split())
    questions = []
    for argument, section, text in ENTRY.findall(docstring):
        answer = " ".join(text.split()).split(". ")[0].rstrip(".")
        start = context.find(f"{argument or section}: {answer}") + len(argument or section) + 2
        if answer and context[start:].startswith(answer):
            asked = f"What is {argument}?" if argument else f"What does {name} return?"
            id_ = f"{number}.{len(questions)}"
            questions.append(
                {"id": id_, "question": asked, "answers": [{"text": answer, "answer_start": start}]}
            )
    return {"context": context, "qas": questions}


random.seed(0)
found = {docstring: name for name, docstring in docstrings(PACKAGE)}  # each docstring once
paragraphs = [paragraph(number, name, text) for number, (text, name) in enumerate(found.items())]
random.shuffle(paragraphs)
held_out = len(paragraphs) // 6
Path("squad").mkdir(exist_ok=True)
for split, part in (("dev", paragraphs[:held_out]), ("train", paragraphs[held_out:])):
    content = {"version": "1.1", "data": [{"title": PACKAGE, "paragraphs": part}]}
    Path(f"squad/{split}-v1.1.json").write_text(json.dumps(content), encoding="utf-8")
    print(f"{split}: {len(part)} contexts, {sum(len(one['qas']) for one in part)} questions")
print(json.dumps(next(one for one in paragraphs if len(one["qas"]) == 2), indent=2))

# %% [markdown]
# ## Train and evaluate
#
# `albert` is the command of this library. Here it runs from Python; in a terminal, type what follows the `$`.
# `--task=squad1.1` evaluates as SQuAD's own program does: exact match, and the F1 of the words that an answer has
# in common with the right one. A context that is too long for the model is read in overlapping windows.


# %%
def albert(command):
    """Runs a command as in a terminal, and shows what it prints."""
    print("$ albert", command)
    done = subprocess.run(f"albert {command}", shell=True, stdout=PIPE, stderr=STDOUT, text=True)
    print(done.stdout)
    done.check_returncode()


albert(
    f"finetune --task=squad1.1 --data_dir=squad --init_checkpoint={MODEL} --output_dir=runs/questions "
    f"--do_train --do_eval {TRAINING_FLAGS}"
)

# %% [markdown]
# Every line of `metrics.jsonl` is a JSON object: of the training every few steps, and of each evaluation. `albert
# plot runs/questions` draws all of it.

# %%
lines = [json.loads(line) for line in Path("runs/questions/seed_0/metrics.jsonl").read_text().splitlines()]
training = [line for line in lines if "loss" in line]
evaluations = [line for line in lines if "eval_f1" in line]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot([line["step"] for line in training], [line["loss"] for line in training])
left.set(title="loss in training", xlabel="step", ylabel="nats")
for metric, name in (("eval_f1", "F1"), ("eval_exact_match", "exact match")):
    right.plot(
        [line["step"] for line in evaluations], [line[metric] for line in evaluations], marker="o", label=name
    )
right.set(title="held-out questions", xlabel="step", ylabel="per cent", ylim=(0, 100))
right.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Ask
#
# The run's folder is a model: `from_pretrained` loads it with its vocabulary and head.

# %%
model = QuestionAnswering.from_pretrained("runs/questions")
context = (
    "Computes the error of a forecast. Args: y_true: A tensor of the temperatures that were measured. "
    "y_pred: A tensor of the temperatures that were forecast. sample_weight: Optional weights of the days. "
    "Returns: The mean error in degrees."
)
questions = ["What is y_pred?", "What is sample_weight?", "What does forecast_error return?"]
for question, answer in zip(questions, model.answer(questions, [context] * len(questions)), strict=True):
    print(f"{question}\n    {answer.text}")

# %% [markdown]
# ## Where does it look?
#
# For each token of the context, the model says how probable it is that the answer starts there. The picture has
# one row for each question about the same context.
# In this run the model is sure of what the function returns, and hesitates between the two arguments: to find the
# mention of a name is hard for so small a model, and so is the end of an answer.

# %%
tokenizer = model.preprocessor.tokenizer
context_ids = tokenizer.encode(context)
starts = np.zeros((len(questions), len(context_ids)))
for row, question in zip(starts, questions, strict=True):
    question_ids = [tokenizer.cls_id, *tokenizer.encode(question), tokenizer.sep_id]
    ids = np.array([[*question_ids, *context_ids, tokenizer.sep_id]])
    types = np.array([[0] * len(question_ids) + [1] * (len(context_ids) + 1)])
    logits = np.array(model({"input_ids": ids, "token_type_ids": types})["start_logits"])[0]
    probabilities = np.exp(logits - logits.max())
    row[:] = (probabilities / probabilities.sum())[len(question_ids) : -1]

figure, panel = plt.subplots(figsize=(11, 2.4), layout="constrained")
panel.imshow(starts, aspect="auto", cmap="Blues", vmin=0, vmax=1)
pieces = [tokenizer.pieces[id_].replace("▁", " ") for id_ in context_ids]
panel.set_xticks(range(len(pieces)), pieces, rotation=90, fontsize=7)
panel.set_yticks(range(len(questions)), questions)
panel.set_title("probability that the answer starts at a token")
plt.show()

# %% [markdown]
# ## Where to go next
#
# [Fine-tune](../finetune.md#answer-questions-about-your-documents): questions as JSON lines, questions without an
# answer, and SQuAD itself. For an application, `albert export --model_dir=runs/questions --output=answers` writes
# the model with questions and contexts in and answers out ([export](../export.md#text-in-answers-out)).
# [Serve a model](serving.ipynb) shows the steps for a model that fills in words.
