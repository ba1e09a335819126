from pathlib import Path

import pytest

from albert_tf.pretrained.output_folder import replaced_folder
from data_prep.errors import InputError


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

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(raised), replaced_folder(folder) as aside:
        (aside / "weights").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (folder / "weights").read_text() == ("new" if done and number == 2 else "earlier")
