"""What all models of this library add to `keras.Model`: the inputs of an export, and files of quantized models."""

import contextlib
import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.model.inputs import check_names
from albert_tf.model.weights import set_weights, variables_by_name

_DROPOUT_STATE = "dropout_state"  # its name in the files of weights


def xla_is_faster() -> bool:
    """Whether Keras `fit` should compile the model with XLA where it may choose (`jit_compile="auto"`).

    Not with TensorFlow on CPUs: XLA's kernels are slower there than TensorFlow's own, in bfloat16 by a factor of
    2 to 3.5.
    """
    if keras.backend.backend() != "tensorflow":
        return True
    return any(keras.distribution.list_devices(kind) for kind in ("gpu", "tpu"))


@contextlib.contextmanager
def quick_quantization() -> Iterator[None]:
    """Hides existing objects from the garbage collector, which Keras runs for a quarter of a second per kernel."""
    if gc.get_freeze_count():  # an outer block, or the application, has done so
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class AlbertModel(keras.Model):
    """A model that takes a dict of integer arrays by name.

    Keras' `export` needs no `input_signature`, and a quantized model is saved and loaded as any other.

    Attributes:
      input_names: the keys of the dict that an export takes.
      input_rank: number of axes of the arrays.
      required_inputs: the keys that have no default.
    """

    input_names: tuple[str, ...] = ("input_ids", "input_mask", "token_type_ids")
    input_rank = 2
    required_inputs: tuple[str, ...] = ("input_ids",)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        config: AlbertConfig | str | Path | None = None,
        seed: int | None = None,
        dtype: str | keras.DTypePolicy | None = None,
    ):
        """Builds the model with the weights of files in any format.

        Args:
          source: as for `albert_tf.load_pretrained`, which also returns the tokenizer.
          config: as for `load_pretrained`.
          seed: of what the files lack, and of dropout.
          dtype: policy of the model. Default: Keras' global policy.

        Raises:
          InputError: as `load_pretrained`.
        """
        from albert_tf.checkpoints.open_model import open_model  # reads some formats with TensorFlow

        stored = open_model(source, config)
        model = cls.of_stored(stored, seed=seed, dtype=dtype)
        names = variables_by_name(model)
        if missing := [part for part in stored.missing if any(name.startswith(part) for name in names)]:
            message = "%s holds no %s: using fresh weights"
            logging.getLogger(__name__).warning(message, source, ", ".join(missing))
        return model

    from_preset = from_pretrained  # KerasHub's name

    @classmethod
    def of_stored(cls, stored: StoredModel, *, seed: int | None = None, dtype=None):
        """Builds the model with the weights of files that were read; what they lack is drawn from `seed`."""
        model: Any = cls(stored.config, seed=seed, dtype=dtype)
        names = variables_by_name(model)
        set_weights(model, {name: array for name, array in stored.weights.items() if name in names})
        return model

    def __call__(self, inputs, *args, **kwargs):
        """Keras' call.

        Raises:
          ValueError: the inputs are no dict, lack a key, or have the name that another library gives it.
        """
        check_names(inputs, *self.required_inputs)
        return super().__call__(inputs, *args, **kwargs)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Keras' preparation of metrics under a distribution strategy, from the first replica's share of a batch.

        Keras' own adds the shares of all replicas, which fails if they do not have the same number of rows.
        """
        if iterator is not None and self._distribute_strategy is not None:
            batch = next(next(iter(iterator))[-1])
            data_batch = keras.tree.map_structure(lambda each: getattr(each, "values", (each,))[0], batch)
        super()._maybe_symbolic_build(None, data_batch)

    @property
    def _default_save_signature(self):
        """None: Keras would trace the model with the shapes of `build`, which are not those of its inputs."""
        return None

    def export(self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs):  # noqa: A002
        """Keras' `export`; by default the inputs are int32 arrays of any size, named as in `input_names`.

        Raises:
          ValueError: the format is "onnx" and the model uses the erf form of gelu.
        """
        encoder: Any = getattr(self, "encoder", self)
        if format == "onnx" and encoder.config.hidden_act == "gelu_erf":
            raise ValueError(
                "Keras writes ONNX files of the erf form of gelu that no runtime loads. Use `albert export "
                "--format=onnx`, which converts it."
            )
        if input_signature is None:
            shape = (None,) * self.input_rank
            input_signature = [
                {name: keras.InputSpec(shape=shape, dtype="int32", name=name) for name in self.input_names}
            ]
        return super().export(filepath, format, verbose, input_signature, **kwargs)

    def quantize(self, mode=None, config=None, **kwargs):
        """Keras' `quantize` of all dense layers; "int8" only.

        Raises:
          ValueError: another mode is given.
        """
        mode = mode if config is None else config.mode
        if mode != "int8":
            raise ValueError(f'`mode` must be "int8". Received {mode!r}.')
        with quick_quantization():
            super().quantize(mode, config, **kwargs)

    def save_own_variables(self, store):
        """Saves the state of dropout, so that a resumed `fit` draws the masks of an uninterrupted one."""
        seeds: Any = getattr(self, "seeds", None)
        if seeds is not None:
            store[_DROPOUT_STATE] = seeds.state.numpy()

    def load_own_variables(self, store):
        seeds: Any = getattr(self, "seeds", None)
        if seeds is not None:
            seeds.state.assign(store[_DROPOUT_STATE])

    def save_weights(self, filepath, overwrite=True, **kwargs):
        """Keras' `save_weights`; the file of a model with LoRA also holds its low-rank matrices."""
        encoder: Any = getattr(self, "encoder", self)
        with encoder.lora_in_files():
            super().save_weights(filepath, overwrite, **kwargs)

    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        """Keras' `load_weights`; a model with LoRA also gets the low-rank matrices that the file holds."""
        super().load_weights(filepath, skip_mismatch, **kwargs)
        encoder: Any = getattr(self, "encoder", self)
        encoder.restore_lora()

    def get_config(self) -> dict[str, Any]:
        """Name and precision; by path also how layers are quantized, and the layers that do not train."""
        quantized = {
            layer.path: keras.saving.serialize_keras_object(layer.quantization_config)
            for layer in self._flatten_layers(include_self=False)
            if layer.quantization_mode
        }
        frozen = [layer.path for layer in self._flatten_layers(include_self=False) if not layer.trainable]
        return {
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **({"quantized": quantized} if quantized else {}),
            **({"frozen": frozen} if frozen else {}),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        arguments = {name: value for name, value in config.items() if name not in ("quantized", "frozen")}
        model = cls(**cls.arguments_of(arguments))
        for layer in model._flatten_layers(include_self=False):
            if layer.path in config.get("frozen", ()):
                layer.trainable = False
        with quick_quantization():
            for layer in model._flatten_layers(include_self=False):
                # The layers of a part that has its own configuration are already quantized.
                if layer.path in config.get("quantized", {}) and not layer.quantization_mode:
                    layer.quantize(config=_quantization_config(config["quantized"][layer.path]))
        return model

    @classmethod
    def arguments_of(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The constructor's arguments that a configuration describes."""
        raise NotImplementedError


def _quantization_config(serialized: dict[str, Any]) -> keras.quantizers.QuantizationConfig:
    """What `keras.saving.serialize_keras_object` made, without building the classes that a file may name."""
    quantizers = {
        name: quantizer and keras.quantizers.AbsMaxQuantizer.from_config(quantizer["config"])
        for name, quantizer in serialized["config"].items()
    }
    return keras.quantizers.Int8QuantizationConfig(**quantizers)
