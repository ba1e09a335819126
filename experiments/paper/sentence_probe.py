"""What a pretrained encoder knows about pairs of sentences: fresh heads trained on the frozen encoder.

A head has the shape of ALBERT's pooler and sentence-order head, a tanh layer and a linear layer, on the encoder's
[CLS] vector. The model's own pooler and head are not used, so that all models are measured alike.

`python -m experiments.paper.sentence_probe ARGUMENTS` calls `main`; ARGUMENTS are its arguments as JSON.
"""

import json
import sys
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from data_prep.errors import needs_extra
from data_prep.files import write_json

_BATCH = 64
_PASSES = 100  # the most passes over the training vectors
_FEW = 5000  # with fewer examples, none are set aside for early stopping


def main(
    checkpoint: str,
    output: str,
    examples: Mapping[str, Sequence[str]],
    train_examples: int,
    test_examples: int,
    seed: int,
) -> None:
    """Writes {objective: {"accuracy", "chance", "train_examples", "test_examples"}}.

    Args:
      checkpoint: the pretrained model.
      output: the JSON file to write.
      examples: objective -> globs of the training and the test examples.
      train_examples: the most examples to train on.
      test_examples: the most examples to test on.
      seed: for the heads' weights and the order of the examples.
    """
    from albert_tf import load_pretrained

    encoder = load_pretrained(checkpoint).encoder
    results = {}
    for objective, (train, test) in examples.items():
        train_vectors = cls_vectors(encoder, train, train_examples, shuffle_seed=seed)
        test_vectors = cls_vectors(encoder, test, test_examples)
        results[objective] = probe(train_vectors, test_vectors, seed)
    write_json(output, results)


def probe(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], seed: int
) -> dict[str, float]:
    """Trains a head on vectors (n, H) and labels (n,), and tests it.

    Returns:
      `accuracy`; `chance`, the share of the more frequent label; `train_examples` and `test_examples`, the counts.
    """
    with needs_extra("The probe of sentence order", "scikit-learn", "metrics"):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

    examples, width = train[0].shape
    head = MLPClassifier(
        (width,),
        activation="tanh",
        batch_size=min(examples, 32) if examples < _FEW else 200,
        early_stopping=examples >= _FEW,
        max_iter=_PASSES,
        random_state=seed,
    )
    model = make_pipeline(StandardScaler(), head)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*train)
    ones = float(np.mean(test[1]))
    return {
        "accuracy": float(model.score(*test)),
        "chance": max(ones, 1 - ones),
        "train_examples": len(train[1]),
        "test_examples": len(test[1]),
    }


def cls_vectors(
    encoder, files: str, examples: int, shuffle_seed: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The encoder's [CLS] vectors, float32 (n, H), and the labels (n,) of the first examples in files."""
    import tensorflow as tf

    from data_prep.reading.dataset import pretraining_dataset
    from data_prep.reading.example_files import ExampleFiles
    from data_prep.text.sources import expand_files

    batches = pretraining_dataset(
        ExampleFiles.read(expand_files(files)), batch_size=_BATCH, shuffle_seed=shuffle_seed, repeat=False
    )

    @tf.function(autograph=False)
    def vectors_of(batch):
        first = tf.zeros_like(batch["input_ids"][:, :1])  # of the last layer only [CLS] is needed
        return encoder(batch, training=False, positions=first)["sequence_output"][:, 0]

    vectors, labels = [], []
    for batch in batches.take(-(-examples // _BATCH)):
        vectors.append(tf.cast(vectors_of(batch), tf.float32).numpy())
        labels.append(batch["sentence_order"].numpy())
    return np.concatenate(vectors)[:examples], np.concatenate(labels)[:examples]


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
