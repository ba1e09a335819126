import json

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.lab.peer_processes import Peer
from benchmarks.finetuning import FinetuningBenchmarkSettings, compare_with_ours, main, sample, turn_table
from benchmarks.finetuning_peers import Examples, Setup, _batches, shapes_of, shuffled
from data_prep.errors import InputError
from tests.benchmarks.finished_peers import finished_peer


def finished(name: str, steps: list[tuple[float, float]], examples: int, batches: int, T: int) -> Peer:
    """A peer whose turns took (seconds, user seconds)."""
    facts = {"examples": examples, "batches": batches, "padded_tokens": examples * T, "loss": 0.7}
    return finished_peer(
        name,
        [
            {"seconds": seconds, "user_seconds": user, "peak_megabytes": 10.0 + user, **facts}
            for seconds, user in steps
        ],
    )


def some_examples(turns=2, per_turn=10):
    lengths = np.random.default_rng(0).integers(3, 20, turns * per_turn).astype(np.int32)
    ids = np.concatenate([np.full(length, 100 + row, np.int32) for row, length in enumerate(lengths)])
    return Examples(ids, lengths, (lengths % 2).astype(np.int32), per_turn)


def test_rates_count_examples_and_ratios_are_medians_over_turns():
    ours = finished("albert_tf", [(2.0, 4.0), (4.0, 4.0), (2.0, 8.0)], 512, 16, 15)
    other = finished("keras_hub", [(1.0, 2.0), (2.0, 2.0), (1.0, 2.0)], 32, 1, 128)
    rows = compare_with_ours([ours, other])
    assert rows["albert_tf"]["examples_per_second"] == 512 / 2
    assert rows["keras_hub"]["examples_per_user_second"] == 16
    assert rows["keras_hub"]["albert_tf_times_by_seconds"] == 8
    assert rows["keras_hub"]["albert_tf_times_by_user_seconds"] == 8
    assert rows["keras_hub"]["range_of_times_by_user_seconds"] == [4, 8]
    assert rows["keras_hub"]["tokens_per_example"] == 128
    assert rows["keras_hub"]["batch_size"] == rows["albert_tf"]["batch_size"] == 32
    assert rows["albert_tf"]["peak_megabytes"] == 18
    line = "| keras_hub | 32 | 128.0 | 32.00 | 16.00 | 8.00 (8.00 to 8.00) | 8.00 (4.00 to 8.00) | 12 |"
    assert line in turn_table({"dtype": "float32", "peers": rows})


def test_a_turn_has_all_lengths_in_batches_of_similar_lengths():
    lengths = np.random.default_rng(1).geometric(0.1, 5000)
    rows = sample(lengths, 32, 16, seed=3)
    assert len(set(rows)) == 512
    turns = [lengths[sample(lengths, 32, 16, seed)].mean() for seed in range(20)]
    assert np.mean(turns) == pytest.approx(lengths.mean(), rel=0.02)
    drawn = np.random.default_rng(2)  # the same number of batches, drawn regardless of their lengths
    batches = np.sort(lengths)[: 5000 // 32 * 32].reshape(-1, 32).mean(axis=1)
    assert np.std(turns) < np.std([drawn.choice(batches, 16, replace=False).mean() for _ in range(20)]) / 2
    batches = lengths[rows].reshape(16, 32)
    assert (batches.max(axis=1) - batches.min(axis=1)).mean() < 3
    assert (batches[:-1].min(axis=1) >= batches[1:].max(axis=1)).all()


def test_more_batches_than_the_data_allow():
    with pytest.raises(InputError, match="Received 3 with 70 examples"):
        sample(np.full(70, 9), 32, 3, seed=0)


def test_examples_survive_their_file(tmp_path):
    examples = some_examples()
    examples.save(tmp_path / "examples.npz")
    again = Examples.load(tmp_path / "examples.npz")
    for row, example in enumerate([*again.turn(0), *again.turn(1)]):
        assert example["input_ids"].tolist() == [100 + row] * examples.lengths[row]
        assert example["token_type_ids"].tolist() == [0] * examples.lengths[row]
        assert example["label"] == examples.lengths[row] % 2


@pytest.mark.parametrize("length", [None, 24])
@pytest.mark.parametrize("grouped", [False, True])
def test_batches_for_other_libraries_have_the_same_examples(length, grouped):
    examples = some_examples()
    setup = Setup(examples, AlbertConfig(vocab_size=200), 5, 24, "float32")
    batches = list(shuffled(setup, 1, 2, length, grouped))
    assert sorted(np.concatenate([batch["input_ids"][:, 0] for batch in batches])) == list(range(110, 120))
    for batch in batches:
        sizes = batch["attention_mask"].sum(axis=1)
        assert sizes.tolist() == (batch["input_ids"] > 0).sum(axis=1).tolist()
        assert sizes.tolist() == [examples.lengths[row - 100] for row in batch["input_ids"][:, 0]]
        assert batch["input_ids"].shape == (5, length or sizes.max())
        assert batch["labels"].tolist() == (sizes % 2).tolist()
    if grouped:
        short, long = sorted(batches, key=lambda batch: batch["attention_mask"].sum())
        assert short["attention_mask"].sum(axis=1).max() <= long["attention_mask"].sum(axis=1).min()


@pytest.mark.slow
def test_grouped_batches_have_the_lengths_of_ours():
    """All of a turn, so that both libraries train on the same examples with the same padding."""
    setup = Setup(some_examples(per_turn=40), AlbertConfig(vocab_size=200), 5, 24, "float32")
    settings = FinetuningBenchmarkSettings("SST-2", "30k.model", bucketed_batches=8)
    theirs, ours = (settings.batches_of(peer) for peer in ("hugging_face_grouped", "albert_tf"))
    grouped = shapes_of([*shuffled(setup, 1, theirs, grouped=True)])
    assert sorted(grouped) == sorted(_batches(setup, 1, ours)[1])
    assert settings.batches_of("keras_hub") == settings.batches_of("albert_tf_padded") == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"peers": ("albert_tf", "other")}, "Received 'other'"),
        ({"peers": ("keras_hub",)}, "must name albert_tf"),
        ({"bucketed_batches": 65}, "Received 65"),
    ],
)
def test_invalid_settings(flags, message):
    with pytest.raises(InputError, match=message):
        FinetuningBenchmarkSettings("SST-2", "30k.model", **flags)


@pytest.mark.very_slow
def test_libraries_take_turns_on_real_text(model_file, tmp_path, capsys):
    rng = np.random.default_rng(0)
    words = ["the", "captain", "had", "forgotten", "painted", "apples", "lighthouse", "old", "gardener"]
    lines = [f"{' '.join(rng.choice(words, rng.integers(1, 12)))}\t{i % 2}" for i in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n", encoding="utf-8")
    settings = FinetuningBenchmarkSettings(
        str(tmp_path),
        str(model_file),
        output=tmp_path / "report.json",
        peers=("albert_tf", "albert_tf_padded", "albert_tf_fit"),
        num_hidden_layers=1,
        dtypes=("float32",),
        batch_size=4,
        turns=2,
        bucketed_batches=5,
        padded_length=48,
        keras_hub_length=48,
        logs=tmp_path / "logs",
    )
    main(settings)
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    bucketed, padded = run["peers"]["albert_tf"], run["peers"]["albert_tf_padded"]
    assert bucketed["tokens_per_example"] < 30 < padded["tokens_per_example"] == 48
    assert len(bucketed["user_seconds"]) == len(padded["user_seconds"]) == 2
    assert bucketed["batches_a_turn"] == run["peers"]["albert_tf_fit"]["batches_a_turn"] == 5
    assert "| albert_tf_padded | 4 | 48.0 |" in capsys.readouterr().out
