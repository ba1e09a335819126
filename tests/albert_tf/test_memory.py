"""The least memory of a batch."""

import pytest

from albert_tf import memory
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError

BASE = AlbertConfig.from_preset("albert_base_v2")


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ({"training": True}, 12 * (4 * 768 + 3072)),
        ({"training": True, "remat": "activations"}, 12 * (4 * 768 + 3072)),
        ({"training": True, "remat": "layers"}, 12 * 768),
        ({"training": True, "remat": True}, 12 * 768),
        ({"training": False}, 768 + 3072),
    ],
)
def test_numbers_of_a_token(flags, numbers):
    assert memory.activation_bytes(BASE, 10, **flags) == 10 * numbers * 4
    assert memory.activation_bytes(BASE, 10, **flags, bytes_per_number=2) == 10 * numbers * 2


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "memory_of_machine", lambda: 10**9)
    memory.check_fits(10**9, "A batch")
    with pytest.raises(InputError, match="more than 2 GB, and this machine has 1 GB"):
        memory.check_fits(2 * 10**9, "A batch")
    monkeypatch.setattr(memory, "memory_of_machine", lambda: None)
    memory.check_fits(10**18, "A batch")
