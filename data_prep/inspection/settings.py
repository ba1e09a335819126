"""The flags of `albert inspect`, apart from what it does, so that the command line starts without TensorFlow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InspectSettings:
    """The flags of `albert inspect`.

    Attributes:
      stats: count lengths, masks and labels of all examples; a table and a picture.
      verify: check every record's checksum and values, and the files against their manifest.
      spm_model_file: the vocabulary; without it the one that manifest.json beside the files names.
      vocab_file: a WordPiece vocab.txt in its place.
      num_examples: how many decoded examples to show; 3 if neither `stats` nor `verify` is asked for.
      plot_file: where the picture of `stats` goes.
    """

    stats: bool = False
    verify: bool = False
    spm_model_file: str | None = None
    vocab_file: str | None = None
    num_examples: int | None = None
    plot_file: str = "stats.png"

    @property
    def names_vocabulary(self) -> bool:
        """Whether one of either kind is given."""
        return bool(self.spm_model_file or self.vocab_file)
