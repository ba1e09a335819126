"""The files that a run reads, checked before anything starts."""



from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.training.settings import PretrainingSettings
from data_prep.documents import expand_files


class PretrainingInputs:
    """Training and evaluation batches of one run.

    Args:
      settings: the run's flags.
      config: the model that the batches must fit.

    Raises:
      InputError: a file is missing, cut short, or holds examples that fit neither flags nor configuration.
    """

    def __init__(self, settings: PretrainingSettings, config: AlbertConfig):
        self._settings = settings
        self._train_files = expand_files(settings.input_file)
        self._eval_files = expand_files(settings.eval_file) if settings.eval_file else []
        both = sorted(
            {path.resolve() for path in self._train_files} & {p.resolve() for p in self._eval_files}
        )
        if both:
            raise InputError(
                "Evaluation never reads the training files, but --input_file and --eval_file both name "
                f"{both[0]}. Give --eval_file examples of other documents."
            )
        ...
