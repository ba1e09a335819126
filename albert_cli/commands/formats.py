"""Commands that write a model in another form or place: export, convert, publish; and the list of names."""

from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from albert_cli.commands.terminal import import_tensorflow, print_message, print_next, print_notes
from albert_tf.checkpoints.names import FileDtype, Writable
from albert_tf.checkpoints.sentence_vectors import Pooling
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags, names_in
from data_prep.console import open_console, working
from data_prep.errors import InputError
from export.export_flags import ExportSettings


def export(
    *,
    settings: Annotated[ExportSettings, Parameter(name="*")],
    flags: Annotated[SourceFlags, Parameter(name="*")] = NO_FLAGS,
) -> None:
    """Export a model to a SavedModel that takes ids or raw text, or to a file for ONNX Runtime or LiteRT.

    For example:

      albert export --model_dir=runs/base --output=saved_model

      albert export --kind=fill-mask --model_dir=albert_base_v2 \\
          --output=models/albert/1

      albert export --format=litert --quantize=int8 \\
          --eval_file='heldout/*.tfrecord' --model_dir=runs/base \\
          --output=phone

      albert export --format=onnx --quantize=int8 \\
          --eval_file=glue/SST-2/dev.tsv --model_dir=runs/sst-2 \\
          --output=reviews
    """
    from data_prep.storage.copies import pushed

    with pushed(settings.output) as output:
        import_tensorflow()
        from export.write import export_with_settings

        with working(f"exporting to {settings.output}"):
            result = export_with_settings(replace(settings, output=output), flags)
    print_notes(result.notes)
    print_message(result.comparison.describe())
    print(settings.output)
    print_next(f"see {settings.output}/README.md for a program that loads it")


def convert(
    source: str,
    destination: str,
    /,
    *,
    to: Writable,
    dtype: FileDtype = "float32",
    task: str | None = None,
    flags: Annotated[SourceFlags, Parameter(name="*")] = NO_FLAGS,
    verify: bool = True,
    pooling: Pooling | None = None,
    onnx: bool = False,
) -> None:
    """Convert a pretrained or fine-tuned model to another format, and check that it computes the same.

    For example:

      albert convert albert_base_v2.tar.gz albert_base_hf --to=huggingface

      albert convert albert_base_v2 albert_base_tf1 --to=tf1

      albert convert runs/sst-2 sst2_hf --to=huggingface

      albert convert original/model.ckpt-800 rte --to=keras \\
          --labels=entailment,not_entailment

    Args:
      source: model to convert: a pretraining or fine-tuning run, one of its checkpoints, Google's TF1 checkpoint
        (folder, prefix or .tar.gz), a TF-Hub SavedModel, a Hugging Face or KerasHub directory, what this command
        wrote, a name from `albert models`, or an address: hf://OWNER/NAME, the https:// address of a .tar.gz, or
        kaggle://OWNER/MODEL/FRAMEWORK/VARIATION.
      destination: new or empty folder to write, or its address.
      to: format to write: tf1 for google-research/albert, huggingface, keras for a .keras file of this library,
        or kerashub.
      dtype: precision of the weights in a Hugging Face file; float16 and bfloat16 round them and halve the file.
      task: what a fine-tuned model is for, where its files leave it open, as --task of `albert finetune`:
        regression or multiple-choice for a TF1 checkpoint with one output, ordinal-classification for classes
        that are ordered.
      flags: supply what the source's files lack.
      verify: compare the outputs of both models on random input.
      pooling: with --to=huggingface, also write modules.json of sentence-transformers, for vectors of texts with
        this pooling. Default: if the source says how its vectors are made.
      onnx: with --to=huggingface, also write onnx/model.onnx and a tokenizer for Transformers.js.
    """
    from data_prep.storage.copies import pushed

    with pushed(destination) as output:
        import_tensorflow()
        from albert_tf.conversion.convert import convert as convert_model

        options: dict[str, Any] = {"verify": verify, "pooling": pooling}
        if onnx:
            from export.huggingface_layout import add_onnx
            from export.onnx import ONNX

            if to != "huggingface":
                raise InputError(f"--onnx needs --to=huggingface. Received --to={to}.")
            ONNX.check_installed()
            options["write_more"] = add_onnx
        with working(f"converting to {destination}"):
            result = convert_model(source, output, to, dtype=dtype, task=task, flags=flags, **options)
    print_notes(result.notes)
    if result.comparison:
        print_message(result.comparison.describe())
    print(destination)
    print_next(f"see {destination}/README.md for a program that loads it")


def publish(
    folder: str,
    address: str,
    /,
    *,
    license: str = "",  # noqa: A002 - the Hub's name
    language: str = "",
    tags: str = "",
    private: bool = False,
) -> None:
    """Upload what `albert convert` or `albert export` wrote to the Hugging Face Hub.

    The repository is created if it does not exist. The token comes from `hf auth login` or HF_TOKEN. The files are
    listed first; files of kinds that no model has are left out, and a folder with links is refused. For
    example:

      albert convert runs/sst-2 sst2_hf --to=huggingface

      albert publish sst2_hf hf://me/albert-sst2 --license=apache-2.0 --language=en

    Args:
      folder: folder to upload, or its address; the flags below add metadata to its README.md.
      address: repository to upload to, as hf://OWNER/NAME.
      license: license of the model, as the Hub abbreviates it, for example apache-2.0.
      language: languages of the model's text, separated by commas, for example en,de.
      tags: additional tags beside albert and albert_tf, separated by commas.
      private: create a new repository as private.
    """
    import_tensorflow()
    from albert_tf.conversion.publication import publish as publish_folder
    from data_prep.storage.copies import fetched

    languages = names_in(language)
    with fetched(folder) as local:
        commit = publish_folder(
            local,
            address,
            license=license,
            languages=languages,
            tags=names_in(tags),
            private=private,
            show=print_message,
        )
    print(commit)


def models() -> None:
    """List the pretrained models that have a name: those in the package, and Google's, which are downloaded once.

    A name can replace a path wherever a pretrained model is expected. For example:

      albert models

      albert export --kind=fill-mask --model_dir=albert_base_v2 --output=fill_mask

      albert finetune --task=rte --data_dir=glue \\
          --init_checkpoint=albert_base_v2 --output_dir=runs/rte --do_train
    """
    from albert_tf.checkpoints.sources import named_models

    table = Table("name", "parameters", "size", "files", box=None, pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    for model in named_models():
        table.add_row(model.name, f"{model.parameters:,}", f"{model.size / 1e6:,.1f} MB", model.place)
    open_console(highlight=False).print(table)
