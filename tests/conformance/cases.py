"""One tiny case of every layer, head, model and optimizer, for the checks in test_conformance.py.

What has kernels is in the list twice: with them and, as "..., without kernels", as if `albert_tf/kernels/` were
not there.

Run as a program for what needs a process of its own, it writes the results of all cases to a file:

    python -m tests.conformance.cases mirrored OUT.npz                   # two replicas, half a batch each
    KERAS_BACKEND=jax python -m tests.conformance.cases one OUT.npz
"""

import contextlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import ops

from albert_tf import (
    AdamW,
    AlbertEncoder,
    AlbertPretrainer,
    Lamb,
    MultiLabelClassifier,
    MultipleChoice,
    OrdinalClassifier,
    QuestionAnswering,
    TextClassifier,
    TextRegressor,
    TokenClassifier,
    WarmupPolynomialDecay,
)
from albert_tf.config import AlbertConfig
from albert_tf.model.heads import MaskedLMHead, SentenceOrderHead
from albert_tf.model.layers import (
    MASKED_SCORE,
    Embeddings,
    FeedForward,
    SelfAttention,
    layer_norm,
    make_kernels,
)
from albert_tf.tasks.heads import LinearHead
from albert_tf.tasks.spans.heads import ConditionalSpanHead, SpanHead

B, T, P, C = 4, 8, 3, 2  # B divides evenly between two replicas; C options
SHAPE = {
    "vocab_size": 50,
    "embedding_size": 10,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 16,
}
H, V, E = SHAPE["hidden_size"], SHAPE["vocab_size"], SHAPE["embedding_size"]
CONFIG = AlbertConfig(**SHAPE)


@dataclass(frozen=True)
class Case:
    """A layer or a model with an input.

    Attributes:
      make: builds it in a dtype policy, given by name.
      inputs: arrays whose first axis is the batch: arguments of a layer, the dict of a model.
      constants: further arguments.
      has_fixed_shapes: whether shapes inside do not depend on values, as XLA needs it.
      has_kernels: whether it is made with kernels.
    """

    make: Callable[[str], Any]
    inputs: dict[str, np.ndarray]
    constants: dict[str, Any] = field(default_factory=dict)
    has_fixed_shapes: bool = True
    has_kernels: bool = True

    def build(self, dtype: str = "float32"):
        """Builds it with random weights that are the same on every backend."""
        with contextlib.nullcontext() if self.has_kernels else without_kernels():
            layer = self.make(dtype)
        if not layer.built:
            layer.build((None, H))
        rng = np.random.default_rng(1)
        for weight in layer.trainable_variables:
            weight.assign(rng.normal(float("gamma" in weight.path), 0.3, weight.shape))
        return layer

    def arguments(self, layer, inputs: dict, training: bool) -> tuple[tuple, dict]:
        """The arguments of a call."""
        has_training = "training" in inspect.signature(layer.call).parameters
        keywords = {**self.constants, **({"training": training} if has_training else {})}
        return ((inputs,), keywords) if isinstance(layer, keras.Model) else ((), {**inputs, **keywords})

    def outputs(self, layer, inputs: dict | None = None) -> list:
        """Its outputs outside training, as a flat list."""
        args, keywords = self.arguments(layer, self.inputs if inputs is None else inputs, False)
        return keras.tree.flatten(layer(*args, **keywords))

    def results(self, layer, inputs: dict | None = None) -> tuple[list, list]:
        """Its outputs outside training, and the gradients of `loss_of` in training by all weights."""
        inputs = self.inputs if inputs is None else inputs
        args, keywords = self.arguments(layer, inputs, True)
        if keras.backend.backend() == "jax":
            import jax

            def loss_function(trainable, others):
                return loss_of(layer.stateless_call(trainable, others, *args, **keywords)[0])

            def outputs(trainable, others):
                args, keywords = self.arguments(layer, inputs, False)
                return keras.tree.flatten(layer.stateless_call(trainable, others, *args, **keywords)[0])

            variables = (layer.trainable_variables, layer.non_trainable_variables)
            values = [[variable.value for variable in kind] for kind in variables]
            # Compiled, because JAX otherwise compiles every operation by itself.
            compiled = jax.jit(outputs) if self.has_fixed_shapes else outputs
            return compiled(*values), jax.jit(jax.grad(loss_function))(*values)
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = loss_of(layer(*args, **keywords))
        weights = [variable.value for variable in layer.trainable_variables]
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        return self.outputs(layer, inputs), [tf.convert_to_tensor(gradient) for gradient in gradients]


def without_kernels():
    """A context in which models are made as if the folder `albert_tf/kernels/` were not there."""
    return mock.patch.dict(sys.modules, {"albert_tf.kernels": None})


def loss_of(outputs):
    """A sum over all outputs that are not masked, with a gradient that differs from place to place."""
    total = 0.0
    for output in keras.tree.flatten(outputs):
        wide = ops.cast(output, "float32")
        total = total + ops.sum(ops.sin(3.0 * ops.where(ops.abs(wide) < 1e9, wide, 0.0)))
    return total


def is_float(array) -> bool:
    """Whether an output has gradients and rounding errors."""
    return keras.backend.is_float_dtype(keras.backend.standardize_dtype(array.dtype))


def _config(**changes) -> AlbertConfig:
    return AlbertConfig(**{**SHAPE, **changes})


def _encoder(dtype: str, changes: dict | None = None, **options) -> AlbertEncoder:
    return AlbertEncoder(_config(**(changes or {})), seed=3, dtype=dtype, **options)


def _layer(layer_class, *args, dtype: str, **options):
    return layer_class(*args, CONFIG, keras.random.SeedGenerator(3), dtype=dtype, **options)


def _of(layer_class, *args, **options) -> Callable[[str], Any]:
    """Builds a layer or head of `CONFIG`."""
    return lambda dtype: _layer(layer_class, *args, dtype=dtype, **options)


def _with_kernels(layer_class) -> Callable[[str], Any]:
    return lambda dtype: _layer(layer_class, dtype=dtype, kernels=make_kernels())


def _on_encoder(model_class, *args, **options) -> Callable[[str], Any]:
    """Builds a task model."""
    return lambda dtype: model_class(_encoder(dtype), *args, seed=4, **options)


_RNG = np.random.default_rng(0)
_TOKENS = _RNG.normal(size=(B, T, H)).astype("float32")
_FLAT, _POOLED = _TOKENS.reshape(-1, H), _TOKENS[:, 0]
_MASK = (np.arange(T) < np.array([T, T - 3, 2, T])[:, None]).astype("int32")
_MASK_SCORES = ((1.0 - _MASK) * MASKED_SCORE).astype("float32").reshape(B, 1, 1, T)
_TABLE = _RNG.normal(size=(V, E)).astype("float32")
_POSITIONS = _RNG.integers(0, T, (B, P)).astype("int32")
_IDS = {
    "input_ids": _RNG.integers(0, V, (B, T)).astype("int32"),
    "token_type_ids": _RNG.integers(0, 2, (B, T)).astype("int32"),
}
_INPUTS = {**_IDS, "input_mask": _MASK}
_CHOICES = {name: np.repeat(array[:, None], C, axis=1) for name, array in _INPUTS.items()}
_STARTS = np.array([1, 2, 0, 3], "int32")
_CANNOT_ANSWER = 1 - _MASK
_ALL_OPTIONS = {"remat": "activations", "scan_layers": True}
_PRETRAINING = {**_INPUTS, "masked_lm_positions": _POSITIONS}

LAYERS = {
    "LayerNorm": Case(lambda dtype: layer_norm(CONFIG, make_kernels(), dtype=dtype), {"x": _FLAT}),
    "Embeddings": Case(_with_kernels(Embeddings), _IDS),
    "SelfAttention": Case(_with_kernels(SelfAttention), {"x": _FLAT, "mask_scores": _MASK_SCORES}),
    "FeedForward": Case(_with_kernels(FeedForward), {"x": _FLAT}),
    "MaskedLMHead": Case(
        _with_kernels(MaskedLMHead),
        {"sequence_output": _TOKENS, "masked_lm_positions": _POSITIONS},
        {"word_embeddings": _TABLE},
    ),
    "SentenceOrderHead": Case(_of(SentenceOrderHead), {"pooled_output": _POOLED}),
    "LinearHead": Case(_of(LinearHead, 5), {"vectors": _POOLED}),
    "SpanHead": Case(_of(SpanHead), {"sequence_output": _TOKENS, "cannot_answer": _CANNOT_ANSWER}),
    "ConditionalSpanHead": Case(
        _of(ConditionalSpanHead, dropout_rate=0.0),
        {"sequence_output": _TOKENS, "cannot_answer": _CANNOT_ANSWER, "start_positions": _STARTS},
    ),
}
MODELS = {
    "AlbertEncoder": Case(_encoder, _INPUTS),
    "AlbertEncoder, nothing shared": Case(
        partial(_encoder, changes={"parameter_sharing": "none"}, remat="layers"), _INPUTS
    ),
    "AlbertEncoder, groups": Case(
        partial(_encoder, changes={"num_hidden_groups": 2, "inner_group_num": 2}, **_ALL_OPTIONS), _INPUTS
    ),
    "AlbertEncoder, plain": Case(partial(_encoder, plain=True), _INPUTS),
    "AlbertEncoder, unpad": Case(partial(_encoder, unpad=True), _INPUTS, has_fixed_shapes=False),
    "AlbertPretrainer": Case(lambda dtype: AlbertPretrainer(CONFIG, seed=3, dtype=dtype), _PRETRAINING),
    "AlbertPretrainer, all options": Case(
        lambda dtype: AlbertPretrainer(CONFIG, seed=3, dtype=dtype, name="other", **_ALL_OPTIONS),
        _PRETRAINING,
    ),
    "TextClassifier": Case(_on_encoder(TextClassifier, ("a", "b"), classifier_dropout=0.0), _INPUTS),
    "OrdinalClassifier": Case(
        _on_encoder(OrdinalClassifier, ("1", "2", "4"), classifier_dropout=0.0), _INPUTS
    ),
    "MultiLabelClassifier": Case(
        _on_encoder(MultiLabelClassifier, ("a", "b"), thresholds=(0.25, 0.75), classifier_dropout=0.0),
        _INPUTS,
    ),
    "TextRegressor": Case(_on_encoder(TextRegressor, classifier_dropout=0.0), _INPUTS),
    "TokenClassifier": Case(_on_encoder(TokenClassifier, ("a", "b"), classifier_dropout=0.0), _INPUTS),
    "MultipleChoice": Case(_on_encoder(MultipleChoice, classifier_dropout=0.0), _CHOICES),
    "QuestionAnswering": Case(_on_encoder(QuestionAnswering, classifier_dropout=0.0), _INPUTS),
    "QuestionAnswering, answerable": Case(
        _on_encoder(QuestionAnswering, answerable=True, beam=2, classifier_dropout=0.0),
        {**_INPUTS, "start_positions": _STARTS},
    ),
}
_ALWAYS_PLAIN = ("AlbertEncoder, plain", "SentenceOrderHead", "LinearHead", "SpanHead")
TWINS = {
    f"{name}, without kernels": replace(case, has_kernels=False, has_fixed_shapes=True)
    for name, case in (LAYERS | MODELS).items()
    if name not in _ALWAYS_PLAIN and name != "AlbertEncoder, unpad"  # which gives 0 for padding
}
# Task models are trained on two devices by tests/albert_tf/tasks, which compares losses and weights.
ON_REPLICAS = [name for name in MODELS if name.startswith("Albert")]
OWN = {**LAYERS, **MODELS}
CASES = {**OWN, **TWINS}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    kind.__name__: partial(
        kind,
        WarmupPolynomialDecay(0.5, 10, 2, 1.5, 1),
        beta_1=0.8,
        beta_2=0.99,
        epsilon=1e-5,
        exclude="bias",
        weight_decay_rate=0.3,
        global_clipnorm=1.0,
    )
    for kind in (AdamW, Lamb)
}
# The sum over replicas is clipped, not the share of each.
OPTIMIZERS |= {f"AdamW, {clip}": partial(AdamW, 0.5, **{clip: 0.1}) for clip in ("clipnorm", "clipvalue")}


def make_variables() -> list[keras.Variable]:
    """A matrix and a bias for an optimizer."""
    rng = np.random.default_rng(2)
    shapes = {"kernel": (5, 3), "bias": (3,)}
    return [keras.Variable(rng.normal(size=shape), name=name) for name, shape in shapes.items()]


def optimizer_steps(optimizer, variables, replicas: int = 1) -> None:
    """Takes three steps with gradients that the replicas share evenly."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        gradients = [rng.normal(size=variable.shape).astype("float32") for variable in variables]
        optimizer.apply([ops.convert_to_tensor(gradient / replicas) for gradient in gradients], variables)


def all_results(cases: dict[str, Case] = OWN) -> dict[str, np.ndarray]:
    """Outputs and gradients of all cases and the weights after an optimizer's steps, by name."""
    found = {}
    for name, case in cases.items():
        found |= named_results(name, *case.results(case.build()))
    for name, make in OPTIMIZERS.items():
        variables = make_variables()
        optimizer_steps(make(), variables)
        found |= named_weights(name, variables)
    return found


def results_on_two_replicas() -> dict[str, np.ndarray]:
    """The same of `ON_REPLICAS`, each computing half of each batch: outputs put together, gradients added."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    found = {}
    for name in ON_REPLICAS:
        found |= named_results(name, *_case_on_replicas(MODELS[name], strategy))
    for name, make in OPTIMIZERS.items():
        found |= named_weights(name, _steps_on_replicas(make, strategy))
    return found


def _case_on_replicas(case: Case, strategy) -> tuple[list, list]:
    import tensorflow as tf

    with strategy.scope():
        layer = case.build()

    def half(context):
        number = context.replica_id_in_sync_group
        return {key: tf.constant(np.split(array, 2)[number]) for key, array in case.inputs.items()}

    @tf.function
    def step(inputs):
        return strategy.run(lambda half: case.results(layer, half), (inputs,))

    def values(distributed):
        return [np.asarray(value) for value in strategy.experimental_local_results(distributed)]

    outputs, gradients = step(strategy.experimental_distribute_values_from_function(half))
    return [np.concatenate(values(output)) for output in outputs], [sum(values(g)) for g in gradients]


def _steps_on_replicas(make: Callable, strategy) -> list[keras.Variable]:
    import tensorflow as tf

    with strategy.scope():
        variables, optimizer = make_variables(), make()
        optimizer.build(variables)
    tf.function(lambda: strategy.run(lambda: optimizer_steps(optimizer, variables, 2)))()
    return variables


def named_results(name: str, outputs, gradients) -> dict[str, np.ndarray]:
    """A case's results by name."""
    return _named(name, "output", outputs) | _named(name, "gradient", gradients)


def named_weights(name: str, variables) -> dict[str, np.ndarray]:
    """The weights after an optimizer's steps by name."""
    return _named(name, "weight", variables)


def _named(name: str, kind: str, arrays) -> dict[str, np.ndarray]:
    return {f"{name}/{kind} {i}": np.asarray(ops.convert_to_numpy(array)) for i, array in enumerate(arrays)}


def main(devices: str, out: str) -> None:
    """Writes the results on "one" device or two "mirrored" ones."""
    np.savez(out, **(results_on_two_replicas() if devices == "mirrored" else all_results()))


if __name__ == "__main__":
    main(*sys.argv[1:])
