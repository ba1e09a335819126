import sys
from pathlib import Path

import pytest

from albert_tf.checkpoints import output_folder
from albert_tf.checkpoints.output_folder import replaced_folder
from albert_tf.conversion.convert import convert
from data_prep.errors import InputError
from export.write import export_for_runtime, export_model


@pytest.mark.parametrize(("fault", "raised"), [(KeyboardInterrupt, KeyboardInterrupt), (OSError, InputError)])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_the_earlier_folder_survives_a_failed_replacement(tmp_path, monkeypatch, fault, raised, done, number):
    """An error or Ctrl-C at one of the two renames, before or after it has taken effect."""
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "weights").write_text("earlier")
    rename, calls = Path.rename, []

    def interrupted(path, target):
        calls.append(target)
        is_chosen = len(calls) == number
        if done or not is_chosen:
            rename(path, target)
        if is_chosen:
            raise fault

    monkeypatch.setattr(output_folder, "_exchange", lambda *_: False)  # macOS, Windows, some file systems
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(raised), replaced_folder(folder) as aside:
        (aside / "weights").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (folder / "weights").read_text() == ("new" if done and number == 2 else "earlier")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot exchange names")
def test_there_is_a_folder_at_every_moment(tmp_path, monkeypatch):
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "weights").write_text("earlier")
    monkeypatch.setattr(Path, "rename", None)
    with replaced_folder(folder) as aside:
        (aside / "weights").write_text("new")
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["new"]


@pytest.mark.parametrize(
    "write",
    [
        lambda source, output: convert(source, output, "tf1"),
        export_model,
        lambda source, output: export_for_runtime(source, output, "litert"),
    ],
)
def test_a_mount_point_is_refused_before_any_work(tmp_path, monkeypatch, write):
    """It cannot be renamed. The source does not exist, so this comes first."""
    output = tmp_path / "volume"
    output.mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: path == output)
    with pytest.raises(InputError, match="Received .*volume, a mount point; name a folder in it"):
        write("no_such_model", output)
    assert not list(output.iterdir())
