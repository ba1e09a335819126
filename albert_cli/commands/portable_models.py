"""Recognizes portable models, which run without TensorFlow, and checks the flags for them."""

from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.runtime.engine_flags import USUAL_ENGINE, EngineSettings
from data_prep.errors import InputError


def is_portable_model(model_dir: str, flags: SourceFlags, settings: EngineSettings) -> bool:
    """Whether a model comes from `albert export --format=onnx`.

    Raises:
      InputError: a flag is for the other kind of model.
    """
    from albert_tf.runtime.portable_folder import is_portable

    if is_portable(model_dir):
        if flags != NO_FLAGS:
            raise InputError(
                "--albert_config_file, --vocab_file and --labels are not for portable models, which hold all of "
                f"these. Received {model_dir}; leave the flags out."
            )
        return True
    if settings != USUAL_ENGINE:
        raise InputError(
            "--engine, --precision, --requests and --cache_dir need a portable model, from `albert export "
            f"--format=onnx`. Received {model_dir}, which is not one."
        )
    return False
