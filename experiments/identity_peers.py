"""Runs a folder with transformers, sentence-transformers or KerasHub, which `experiments.identity` starts.

    python -P experiments/identity_peers.py transformers FOLDER ROWS.json OUTPUTS.npz

Imports nothing from this library, so that each computes with its own code only. A row is one text or two. The
outputs are the versions, ids and token types, a row after the other, the lengths of rows, and the mean of the
vectors of the tokens of each row.
"""

import json
import pathlib
import sys

import numpy as np

LENGTH, BATCH = 128, 32


def transformers(folder, rows):
    """AutoTokenizer and AutoModel."""
    import torch
    import transformers as library

    library.utils.logging.set_verbosity_error()
    tokenizer = library.AutoTokenizer.from_pretrained(folder)
    # A folder for Transformers.js holds weights too, if `albert convert` wrote it.
    model = library.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    for batch in batches(rows):
        inputs = tokenizer(
            *columns(batch), padding=True, truncation=True, max_length=LENGTH, return_tensors="pt"
        )
        with torch.no_grad():
            tokens = model(**inputs).last_hidden_state.numpy()
        arrays = {name: array.numpy() for name, array in inputs.items()}
        yield arrays["input_ids"], arrays["token_type_ids"], arrays["attention_mask"], tokens
    yield f"transformers {library.__version__}, {type(tokenizer).__name__}"


def sentence_transformers(folder, rows):
    """SentenceTransformer, whose folder has the mean as its only pooling."""
    import sentence_transformers as library

    model = library.SentenceTransformer(folder, device="cpu")
    for batch in batches(rows):
        (texts,) = columns(batch)
        inputs = {
            name: np.asarray(array)
            for name, array in model.tokenize(texts).items()
            if hasattr(array, "shape")
        }
        vectors = model.encode(texts, batch_size=BATCH)
        yield inputs["input_ids"], inputs["token_type_ids"], inputs["attention_mask"], vectors
    yield f"sentence-transformers {library.__version__}"


def keras_hub(folder, rows):
    """AlbertTextClassifierPreprocessor and AlbertBackbone."""
    import keras_hub as library

    models = library.models
    tokenizer = models.AlbertTokenizer.from_preset(folder)
    preprocess = models.AlbertTextClassifierPreprocessor(tokenizer, sequence_length=LENGTH)
    model = models.AlbertBackbone.from_preset(folder)
    for batch in batches(rows):
        inputs = preprocess(tuple(columns(batch)), y=None)  # two columns alone would be texts and labels
        tokens = np.asarray(model.predict_on_batch(inputs)["sequence_output"])
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        yield arrays["token_ids"], arrays["segment_ids"], arrays["padding_mask"].astype(int), tokens
    yield f"keras-hub {library.__version__}"


def batches(rows):
    """Batches of rows of one text, and of rows of two."""
    for length in (1, 2):
        chosen = [row for row in rows if len(row) == length]
        for first in range(0, len(chosen), BATCH):
            yield chosen[first : first + BATCH]


def columns(batch):
    """The first texts, and the second ones if there are any."""
    return [list(column) for column in zip(*batch, strict=True)]


def main(library, folder, rows_file, outputs_file):
    """Runs a library and writes its outputs."""
    rows = json.loads(pathlib.Path(rows_file).read_text(encoding="utf-8"))
    ids, types, lengths, vectors = [], [], [], []
    *outputs, version = globals()[library](folder, rows)
    for batch_ids, batch_types, mask, tokens in outputs:
        is_token = mask > 0
        ids.append(batch_ids[is_token])
        types.append(batch_types[is_token])
        lengths.append(is_token.sum(axis=1))
        weights = is_token[..., None] / is_token.sum(axis=1)[:, None, None]
        vectors.append(tokens if tokens.ndim == 2 else (tokens * weights).sum(axis=1))
    names = ("ids", "types", "lengths", "vectors")
    arrays = dict(zip(names, map(np.concatenate, (ids, types, lengths, vectors)), strict=True))
    np.savez(outputs_file, version=version, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
