"""Fine-tunes a classifier as the documentation of transformers or of KerasHub begins: all settings are defaults.

Only the number of steps follows from the processor time that is given. Run by `experiments.collapsed_runs` in a
Python that has the library:

    python -m experiments.library_defaults '{"library": "transformers", "model": "hf", ...}'
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

_FOR_EVALUATION = 0.9  # the share of the processor time that is for training
_TIMED_STEPS = 5


def main(library: str, output: str, train: str, dev: str, **settings: Any) -> None:
    """Trains and writes the predicted label of each row of the dev set as JSON."""
    rows = {
        name: [json.loads(line) for line in Path(file).read_text().splitlines()]
        for name, file in (("train", train), ("dev", dev))
    }
    labels = sorted({row["label"] for row in rows["train"]})
    predict = {"transformers": _transformers, "keras_hub": _keras_hub}[library]
    predicted = predict(rows["train"], rows["dev"], labels, **settings)
    found = {
        "predictions": [labels[number] for number in predicted],
        "processor_seconds": time.process_time(),
    }
    Path(output).write_text(json.dumps(found))


def _transformers(
    train: list[dict], dev: list[dict], labels: list[str], model: str, seed: int, seconds: float, folder: str
) -> list[int]:
    """With the Trainer: AdamW, 5e-5, linear decay, batches of 8."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)

    def rows(examples: list[dict]) -> list[dict]:
        pairs = [[row["text_a"], row["text_b"]] if row["text_b"] else [row["text_a"]] for row in examples]
        encoded = [dict(tokenizer(*pair, truncation=True, max_length=128)) for pair in pairs]
        return [
            {**one, "labels": labels.index(row["label"])} for one, row in zip(encoded, examples, strict=True)
        ]

    def trainer(steps: int):
        transformers.set_seed(seed)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            model, num_labels=len(labels)
        )
        arguments = transformers.TrainingArguments(
            folder, max_steps=steps, seed=seed, report_to="none", save_strategy="no", disable_tqdm=True
        )
        collate = transformers.DataCollatorWithPadding(tokenizer)
        return transformers.Trainer(
            network, arguments, train_dataset=rows(train), data_collator=collate, processing_class=tokenizer
        )

    timed = trainer(_TIMED_STEPS)
    began = time.process_time()
    timed.train()
    each = (time.process_time() - began) / _TIMED_STEPS
    final = trainer(max(1, int((_FOR_EVALUATION * seconds - time.process_time()) / each)))
    final.train()
    return final.predict(rows(dev)).predictions.argmax(-1).tolist()


def _keras_hub(
    train: list[dict], dev: list[dict], labels: list[str], model: str, seed: int, seconds: float, folder: str
) -> list[int]:
    """With `fit`: Adam, 5e-5 without a schedule, batches of 32, its own tokenizer."""
    import keras
    import keras_hub

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = time.process_time() > _FOR_EVALUATION * seconds

    def texts(examples: list[dict]):
        columns = [[row[name] for row in examples] for name in ("text_a", "text_b")]
        return tuple(columns) if examples[0]["text_b"] else columns[0]

    keras.utils.set_random_seed(seed)
    network = keras_hub.models.AlbertTextClassifier.from_preset(model, num_classes=len(labels))
    network.preprocessor.sequence_length = 128
    numbers = [labels.index(row["label"]) for row in train]
    network.fit(texts(train), numbers, epochs=1000, verbose=0, callbacks=[Stop()])
    return network.predict(texts(dev), verbose=0).argmax(-1).tolist()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
