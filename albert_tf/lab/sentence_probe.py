"""What a pretrained model knows of sentences that it was not trained for: fresh heads on its frozen encoder.

Each head is what ALBERT's pooler and sentence-order head are, a tanh layer and a linear one, trained on the
encoder's vector of [CLS]; the model's own pooler and head are not used, so that all models are asked alike.

As a program (`python -m albert_tf.lab.sentence_probe REQUEST`) it writes a JSON file; REQUEST is the JSON of
`ProbeRequest`.
"""

import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data_prep.files import write_text

_BATCH = 64
_PASSES = 100  # at most, through the training vectors; a tenth of them says when to stop
_FEW = 5000


@dataclass(frozen=True)
class ProbeRequest:
    """Which model, and what to ask it.

    Attributes:
      run: the pretraining run.
      output: the JSON file to write.
      examples: objective -> globs of examples to train on and to test on.
      train_examples: at most so many to train on.
      test_examples: at most so many to test on.
      seed: of the heads' weights and of the order of examples.
    """

    run: str
    output: str
    examples: Mapping[str, tuple[str, str]]
    train_examples: int
    test_examples: int
    seed: int


def main(request: ProbeRequest) -> None:
    """Writes {objective: {"accuracy", "chance", "train_examples", "test_examples"}}."""
    from albert_tf.pretrained.loading import load_pretrained

    encoder = load_pretrained(request.run).encoder
    results = {}
    for objective, (train, test) in request.examples.items():
        train_vectors = cls_vectors(encoder, train, request.train_examples, shuffle_seed=request.seed)
        test_vectors = cls_vectors(encoder, test, request.test_examples)
        results[objective] = probe(train_vectors, test_vectors, request.seed)
    write_text(request.output, json.dumps(results, indent=2) + "\n")


def probe(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], seed: int
) -> dict[str, float]:
    """Trains a head on vectors (n, H) and labels (n,), and tests it.

    Returns:
      `accuracy`; `chance`, the share of the more frequent label; how many examples there were.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    examples, width = train[0].shape
    head = MLPClassifier(
        (width,),
        activation="tanh",
        batch_size=min(examples, 32) if examples < _FEW else 200,
        early_stopping=examples >= _FEW,  # fewer leave too little to stop by
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
    """The encoder's last vector of [CLS] and the label of the first examples of files.

    Returns:
      float32 (n, H) and integers (n,).
    """
    import tensorflow as tf

    from data_prep.reading.dataset import pretraining_dataset
    from data_prep.reading.example_files import ExampleFiles
    from data_prep.text.documents import expand_files

    batches = pretraining_dataset(
        ExampleFiles.read(expand_files(files)), batch_size=_BATCH, shuffle_seed=shuffle_seed, repeat=False
    )

    @tf.function
    def vectors_of(batch):
        first = tf.zeros_like(batch["input_ids"][:, :1])  # [CLS] alone is wanted of the last layer
        return encoder(batch, training=False, positions=first)["sequence_output"][:, 0]

    vectors, labels = [], []
    for batch in batches.take(-(-examples // _BATCH)):
        vectors.append(tf.cast(vectors_of(batch), tf.float32).numpy())
        labels.append(batch["sentence_order"].numpy())
    return np.concatenate(vectors)[:examples], np.concatenate(labels)[:examples]


if __name__ == "__main__":
    main(ProbeRequest(**json.loads(sys.argv[1])))
