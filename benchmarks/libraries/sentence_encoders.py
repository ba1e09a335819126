"""Sentence encoders trained on pairs, which encode texts in turns: ours, and that of sentence-transformers.

A turn takes training steps, or encodes all texts and writes their vectors, float32 (N, D), to a .npy file.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WARMUP = 0.1  # of the steps


def ours(
    model: str, data: str, vectors: str, total: int, B: int, length: int, rate: float, temperature: float
) -> Callable[..., dict[str, Any]]:
    """Batches of `albert finetune`, of similar lengths, and its steps.

    Args:
      model: folder of the pretrained model.
      data: JSON with "pairs" and "texts".
      vectors: the file to write.
      total: all training steps.
      B: pairs per batch.
      length: of the longest text, in tokens.
      rate: the highest learning rate.
      temperature: divides cosines.
    """
    from albert_tf import AdamW, SentenceEncoder, WarmupPolynomialDecay
    from albert_tf.tasks.objective import TaskObjective
    from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
    from albert_tf.training.tensorflow_devices import TensorFlowDevices

    given = json.loads(Path(data).read_text())
    encoder = SentenceEncoder.from_pretrained(
        model, max_seq_length=length, temperature=temperature, hidden_dropout=0.0, seed=0
    )
    optimizer = AdamW(WarmupPolynomialDecay(rate, total, int(WARMUP * total)))
    optimizer.build(encoder.trainable_variables)
    step = TensorFlowDevices().optimizer_step(TaskObjective(encoder), optimizer)
    features = encoder.preprocessor.features(tuple(map(list, zip(*given["pairs"], strict=True))))
    batches = iter(bucketed_batches(features, B, BatchOrder(0, num_epochs=None), fill_remainder=True))

    def turn(steps: int = 0) -> dict[str, Any]:
        if steps:
            sums = step(batches, steps, step.zero_sums())
            return {"loss": float(sums["loss"] / sums["loss_weight"])}
        np.save(vectors, encoder.encode(given["texts"], batch_size=64))
        return {}

    return turn


def sentence_transformers(
    model: str, data: str, vectors: str, total: int, B: int, length: int, rate: float, temperature: float
) -> Callable[..., dict[str, Any]]:
    """Its encoder and its loss with the same optimizer; random batches. Arguments as for `ours`."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    torch.manual_seed(0)
    given, rng = json.loads(Path(data).read_text()), np.random.default_rng(0)
    encoder = SentenceTransformer(
        model, device="cpu"
    )  # with the mean over tokens, as for any model of transformers
    encoder.max_seq_length = length
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss = MultipleNegativesRankingLoss(encoder, scale=1 / temperature)
    groups: dict[bool, list] = {True: [], False: []}
    for name, parameter in encoder.named_parameters():
        groups["bias" not in name and "norm" not in name.lower()].append(parameter)
    decays = [{"params": groups[True], "weight_decay": 0.01}, {"params": groups[False], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(decays, lr=rate, eps=1e-6)
    warmup = int(WARMUP * total)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / warmup if step < warmup else 1 - step / total
    )
    order: list[int] = []

    def turn(steps: int = 0) -> dict[str, Any]:
        if not steps:
            np.save(vectors, encoder.encode(given["texts"], batch_size=64, show_progress_bar=False))
            return {}
        encoder.train()
        for _ in range(steps):
            if len(order) < B:
                order[:] = rng.permutation(len(given["pairs"])).tolist()
            rows = [given["pairs"][order.pop()] for _ in range(B)]
            columns = [encoder.preprocess(list(column)) for column in zip(*rows, strict=True)]
            value = loss(columns, None)
            value.backward()
            torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        encoder.eval()
        return {"loss": value.item()}

    return turn
