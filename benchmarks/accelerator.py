"""Training steps and inference of ALBERT on a GPU or TPU, beside Hugging Face's in PyTorch.

    pip install 'jax[cuda12]' keras torch transformers numpy h5py ml_dtypes msgspec cyclopts rich
    python -m benchmarks.accelerator --output=benchmarks/results/accelerator.json

This library runs on JAX and needs no TensorFlow; unless XLA_FLAGS is set, cuBLAS multiplies. Each library runs
in its own process, which is stopped (SIGSTOP) except during its turns of a few steps each. A training step is
forward, backward, clipping and AdamW for both heads: ours is that of `albert pretrain --backend=jax`, `keras_fit`
that of Keras `fit` for our model. Inference is the encoder.
"""

import itertools
import sys
from dataclasses import dataclass
from typing import Any, Literal

from albert_cli import program
from albert_tf.config import AlbertConfig, Remat
from albert_tf.flops import gpu_peak, inference_flops, training_flops
from benchmarks.peers import Library, PeerSettings
from benchmarks.report import OURS, compare, markdown_table
from data_prep.errors import InputError, check_among, check_at_least

_TINY = {"vocab_size": 100, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 2}
_TINY |= {"num_attention_heads": 2, "intermediate_size": 32}
_SIZES = ("base", "large", "xlarge", "xxlarge")
MODELS = {
    **{size: AlbertConfig.from_preset(f"albert_{size}_v2") for size in _SIZES},
    "tiny": AlbertConfig(**_TINY),  # to try the program
}
# Tokens in a batch, so that a training step of several libraries fits into 80 GB.
TOKENS = {"base": 32_768, "large": 16_384, "xlarge": 4_096, "xxlarge": 4_096, "tiny": 256}
_FUNCTIONS = {"training": "training", "inference": "forward"}  # in benchmarks/libraries
PEERS = (OURS, "keras_fit", "hugging_face", "hugging_face_compiled")


@dataclass(frozen=True)
class AcceleratorSettings(PeerSettings):
    """What is measured.

    Attributes:
      models: base, large, xlarge, xxlarge, and tiny to try the program.
      kinds: training, inference or both.
      lengths: T of the rows, which have no padding.
      batch_size: rows in a batch. Default: 32,768 tokens for base, 16,384 for large, 4,096 for the others.
      remat: what our backward pass recomputes: =activations or =layers.
      turns: number of turns of each library.
      steps: number of steps in a turn, which are started without waiting for each other.
      peak_tflops: the device's peak in the dtype. Default: that of known GPUs, in bfloat16.
    """

    peers: tuple[str, ...] = (OURS, "keras_fit", "hugging_face_compiled")
    dtypes: tuple[Literal["bfloat16", "float32"], ...] = ("bfloat16",)
    models: tuple[str, ...] = _SIZES
    kinds: tuple[Literal["training", "inference"], ...] = ("training", "inference")
    lengths: tuple[int, ...] = (128, 512)
    batch_size: int | None = None
    remat: Remat = False
    turns: int = 5
    steps: int = 10
    peak_tflops: float | None = None

    def __post_init__(self):
        self.check_peers(PEERS)
        check_at_least(1, self, "turns", "steps", "batch_size")
        check_among(MODELS, "models", self.models)
        for T in self.lengths:
            if not 8 <= T <= 512:
                raise InputError(f"--lengths must be from 8 to 512, the models' positions. Received {T}.")


def main(settings: AcceleratorSettings) -> None:
    """Measures every kind, model and length, and prints its table."""
    report = settings.report()
    cells = itertools.product(settings.dtypes, settings.kinds, settings.models, settings.lengths)
    for dtype, kind, model, T in cells:
        B = settings.batch_size or max(1, TOKENS[model] // T)
        rows = measure(MODELS[model], kind, dtype, B, T, settings)
        report["runs"].append({"model": model, "kind": kind, "dtype": dtype, "B": B, "T": T, "peers": rows})
        print(f"{model}, {kind}, {dtype}, B={B}, T={T}\n\n{table(rows)}\n", flush=True)
        settings.write(report)


def measure(
    config: AlbertConfig, kind: str, dtype: str, B: int, T: int, settings: AcceleratorSettings
) -> dict[str, dict[str, Any]]:
    """Measures all libraries in turns."""
    function, P = _FUNCTIONS[kind], round(0.15 * T)
    remat = {"remat": settings.remat} if kind == "training" else {}
    known = {
        OURS: Library(f"ours_on_jax:{function}", remat),
        "keras_fit": Library("ours_on_jax:keras_fit", remat),
        "hugging_face": Library(f"hugging_face:{function}", is_other=True),
        "hugging_face_compiled": Library(f"hugging_face:{function}", {"compiled": True}, is_other=True),
    }
    names = [name for name in settings.peers if kind == "training" or name != "keras_fit"]
    libraries = {name: known[name] for name in names}
    cell = {"config": config.to_dict(), "dtype": dtype, "B": B, "T": T, "P": P}
    turn = {"steps": settings.steps}
    # The second turn may still compile.
    peers = settings.measure(libraries, cell, warm_up=[{"steps": 1}, turn], turns=[turn] * settings.turns)
    others = [name for name, library in libraries.items() if library.is_other]
    rows = compare(peers, lambda peer: [B * T * reply["steps"] for reply in peer.replies], others)
    flops = training_flops(config, T, P) if kind == "training" else inference_flops(config, T)
    for peer in peers:
        row, last = rows[peer.name], peer.replies[-1]
        peak = settings.peak_tflops * 1e12 if settings.peak_tflops else gpu_peak(last["device"])
        row["share_of_peak"] = row["per_second"] * flops / T / peak if peak else None
        row["step_milliseconds"] = 1e3 * B * T / row["per_second"]
        row |= {"device": last["device"], "versions": last["versions"]}
    return rows


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The figures in Markdown."""
    header = ("", "ms", "tokens/s", "of peak", "times best peer", "MB", "first step")
    return markdown_table(
        header,
        [
            (
                name,
                f"{row['step_milliseconds']:.2f}",
                f"{row['per_second']:,.0f}",
                f"{row['share_of_peak']:.1%}" if row["share_of_peak"] else "-",
                f"{row.get('of_best_peer_by_seconds', 1.0):.2f}",
                f"{row['peak_megabytes']:,.0f}",
                f"{row['first_turn_seconds']:.0f} s",
            )
            for name, row in rows.items()
        ],
    )


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, AcceleratorSettings, __doc__))
