"""Fine-tunes a classifier as the documentation of transformers or of KerasHub begins: all settings are defaults.

The number of steps follows from the processor time that is given, which the seeds share, and texts have
`max_length` tokens at most. Run by `experiments.collapsed_runs` in a Python that has the library:

    python -m experiments.library_defaults '{"library": "transformers", "model": "hf", ...}'
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_FOR_TRAINING = 0.9  # the share of the processor time; the rest is for evaluation
_UNTIMED_STEPS, _TIMED_STEPS = 10, 20  # the first ones are slower
_TEXTS = ("text_a", "text_b")


class Settings(NamedTuple):
    """The model's folder, the longest text in tokens, the seeds, and the processor time of each."""

    model: str
    max_length: int
    seeds: list[int]
    seconds: float


def main(library: str, output: str, train: str, dev: str, **settings: Any) -> None:
    """Trains with each seed and writes the predicted labels of the dev set's rows as JSON, a list a seed."""
    rows = {
        name: [json.loads(line) for line in Path(file).read_text().splitlines()]
        for name, file in (("train", train), ("dev", dev))
    }
    labels = sorted({row["label"] for row in rows["train"]})
    predict = {"transformers": _transformers, "keras_hub": _keras_hub}[library]
    found = [
        [labels[number] for number in predicted]
        for predicted in predict(rows["train"], rows["dev"], labels, Settings(**settings))
    ]
    Path(output).write_text(json.dumps({"predictions": found}))


def _share(settings: Settings) -> float:
    """The processor time that each seed has for training after what was needed so far."""
    return _FOR_TRAINING * settings.seconds - time.process_time() / len(settings.seeds)


def _transformers(
    train: list[dict], dev: list[dict], labels: list[str], settings: Settings
) -> Iterator[list[int]]:
    """With the Trainer's defaults: batches of 8, AdamW at 5e-5 without weight decay, linear decay, norm of 1."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(settings.model)

    def inputs(examples: list[dict]):
        columns = [[row[name] for row in examples] for name in _TEXTS if name in examples[0]]
        return tokenizer(
            *columns, truncation=True, max_length=settings.max_length, padding=True, return_tensors="pt"
        )

    def train_for(steps: int, seed: int):
        transformers.set_seed(seed)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            settings.model, num_labels=len(labels)
        )
        optimizer = torch.optim.AdamW(network.parameters(), 5e-5, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
        epochs = range(8 * steps // len(train) + 1)
        order = [n for _ in epochs for n in torch.randperm(len(train)).tolist()][: 8 * steps]
        network.train()
        for first in range(0, len(order), 8):
            rows = [train[number] for number in order[first : first + 8]]
            numbers = torch.tensor([labels.index(row["label"]) for row in rows])
            network(**inputs(rows), labels=numbers).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        return network.eval()

    train_for(_UNTIMED_STEPS, settings.seeds[0])
    began = time.process_time()
    train_for(_TIMED_STEPS, settings.seeds[0])
    each = (time.process_time() - began) / _TIMED_STEPS
    share = _share(settings)
    for seed in settings.seeds:
        network = train_for(max(1, int(share / each)), seed)
        with torch.inference_mode():
            batches = [inputs(dev[first : first + 32]) for first in range(0, len(dev), 32)]
            yield [number for batch in batches for number in network(**batch).logits.argmax(-1).tolist()]


def _keras_hub(
    train: list[dict], dev: list[dict], labels: list[str], settings: Settings
) -> Iterator[list[int]]:
    """With `fit`: Adam, 5e-5 without a schedule, batches of 32, its own tokenizer."""
    import keras
    import keras_hub

    class StopAt(keras.callbacks.Callback):
        def __init__(self, end: float):
            super().__init__()
            self._end = end

        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = time.process_time() > self._end

    def texts(examples: list[dict]):
        columns = [[row[name] for row in examples] for name in _TEXTS if name in examples[0]]
        return tuple(columns) if len(columns) > 1 else columns[0]

    numbers = [labels.index(row["label"]) for row in train]
    share = _share(settings)
    for seed in settings.seeds:
        end = time.process_time() + share
        keras.utils.set_random_seed(seed)
        network = keras_hub.models.AlbertTextClassifier.from_preset(settings.model, num_classes=len(labels))
        network.preprocessor.sequence_length = settings.max_length
        network.fit(texts(train), numbers, epochs=1000, verbose=0, callbacks=[StopAt(end)])
        yield network.predict(texts(dev), verbose=0).argmax(-1).tolist()
        keras.backend.clear_session()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
