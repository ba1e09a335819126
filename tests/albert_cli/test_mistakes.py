"""Messages for what is wrong with a command line."""

import pytest

from albert_cli import cli


def message(capfd, *arguments) -> str:
    assert cli.main([*arguments]) == 2
    out, error = capfd.readouterr()
    assert not out
    assert error.count("\n") == 1
    return error.removeprefix("albert: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("convert a b", "--to is required: tf1, huggingface, keras, kerashub."),
        ("convert a b --to", "--to needs a value: tf1, huggingface, keras, kerashub."),
        ("convert a --to=keras", "DESTINATION is required, after the command and before the flags."),
        ("export --model_dir --output=x", "--model_dir needs a value, as in --model_dir=VALUE."),
        ("ensemble runs/a --task", "--task needs a value, as in --task=VALUE."),
        ("prepare --spm_model=x --n=3", "Unknown option: --spm_model. Did you mean --spm_model_file?"),
        ("prepare --zzz=3", "Unknown option: --zzz. `albert prepare --help` lists the flags."),
        ("pretrain --train_batch_size=a --bogus=1", "--bogus. `albert pretrain --help` lists the flags."),
        (
            "pretrain --use_tpu",
            "--use_tpu is a flag of google-research/albert. Here, leave it out: a TPU is used if --tpu names one.",
        ),
        ("predict --model_dir=x --input_file=y", "standard output: add < INPUT > OUTPUT to the command."),
        ("vocab --input_file=a b c --output_prefix=x --vocab_size=9", "belong to no flag: b, c."),
    ],
)
def test_messages(capfd, arguments, expected):
    assert message(capfd, *arguments.split()).endswith(expected)


@pytest.mark.parametrize("flag", ["--model_dir=~/run", "--model_dir=~"])
def test_paths_in_the_home_folder(capfd, tmp_path, monkeypatch, flag):
    """Shells expand ~ in `--model_dir ~/run`, but not behind "="."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f" {tmp_path}{flag.partition('~')[2]}" in message(capfd, "export", flag, "--output=y")
