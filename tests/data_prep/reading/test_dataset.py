import collections
import gzip
import itertools
import shutil
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.examples.document_examples import serialize_batch
from data_prep.examples.masking import MaskedExample
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.inspection.example_batches import read_batches
from data_prep.prepare.local import prepare
from data_prep.reading import example_files
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from data_prep.text.mixture import Mixture
from data_prep.tfrecord.records import count_examples, framed
from data_prep.tfrecord.schema import pretraining_features
from tests.data_prep.wordpieces import vocab_file
from tests.selection import all_but_very_slow

__all__ = ["vocab_file"]

T, P, V = 10, 3, 1000


def record(number: int, max_seq_length=T, predictions=P) -> bytes:
    """An example whose second token is its number."""
    example = MaskedExample(
        input_ids=np.array([2, number, 7, 3, 4, 3], np.int32),
        segment_ids=np.array([0, 0, 0, 0, 1, 1], np.int32),
        token_boundary=np.ones(6, np.int32),
        masked_lm_positions=np.array([4], np.int32),
        masked_lm_ids=np.array([9], np.int32),
        swapped=bool(number % 2),
    )
    return serialize_batch([example], pretraining_features(max_seq_length, predictions))[0]


def write(path, records, compressed=False):
    with tf.io.TFRecordWriter(str(path), "GZIP" if compressed else None) as writer:
        for each in records:
            writer.write(each)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Examples 10..16, 20..24 (packed), 30..40: 23 in all."""
    folder = tmp_path_factory.mktemp("records")
    numbers = {"a": range(10, 17), "b.gz": range(20, 25), "c": range(30, 41)}
    return [
        write(folder / name, map(record, some), compressed=name.endswith(".gz"))
        for name, some in numbers.items()
    ]


ALL = [*range(10, 17), *range(20, 25), *range(30, 41)]


@pytest.fixture(scope="module")
def equal_files(tmp_path_factory):
    """Four files of five examples: 10..14, 20..24, 30..34, 40..44."""
    folder = tmp_path_factory.mktemp("equal")
    return [write(folder / str(first), map(record, range(first, first + 5))) for first in (10, 20, 30, 40)]


def stream(files, take=None, batch_size=4, window=5, **options):
    """Numbers of the examples, batch by batch."""
    dataset = pretraining_dataset(
        ExampleFiles.read(files), batch_size=batch_size, shuffle_window=window, **options
    )
    return [batch["input_ids"][:, 1].numpy().tolist() for batch in dataset.take(-1 if take is None else take)]


def context(num_hosts, host):
    return tf.distribute.InputContext(num_hosts, host)


def joined(lists):
    return list(chain.from_iterable(lists))


def test_a_batch(files):
    batch = next(iter(pretraining_dataset(files, batch_size=2)))
    expected = {
        "input_ids": [[2, 10, 7, 3, 4, 3, 0, 0, 0, 0], [2, 11, 7, 3, 4, 3, 0, 0, 0, 0]],
        "input_mask": [[1] * 6 + [0] * 4] * 2,
        "token_type_ids": [[0, 0, 0, 0, 1, 1, 0, 0, 0, 0]] * 2,
        "masked_lm_positions": [[4, 0, 0]] * 2,
        "masked_lm_ids": [[9, 0, 0]] * 2,
        "masked_lm_weights": [[1.0, 0.0, 0.0]] * 2,
        "sentence_order": [0, 1],
        "sentence_order_weights": [1.0, 1.0],
    }
    assert {name: values.numpy().tolist() for name, values in batch.items()} == expected


def test_evaluation_reads_everything_once_in_order(files):
    batches = stream(files, repeat=False)
    assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 3]
    assert joined(batches) == ALL


def test_a_copy_that_gives_way_before_it_is_read_is_made_again(equal_files, tmp_path, monkeypatch):
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path))
    remote = ExampleFiles.read([Path(f"file://{path}") for path in equal_files])
    batches = iter(pretraining_dataset(remote, batch_size=1).take(40))
    numbers = [next(batches)["input_ids"][0, 1].numpy()]
    deadline = time.monotonic() + 60
    while (
        not (copies := list(tmp_path.glob(f"files/*/{equal_files[2].name}"))) and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    for copy in copies:
        shutil.rmtree(copy.parent)
    numbers += [batch["input_ids"][0, 1].numpy() for batch in batches]
    assert numbers == 2 * [*range(10, 15), *range(20, 25), *range(30, 35), *range(40, 45)]


def test_epochs_are_permutations(files):
    numbers = joined(stream(files, take=23, shuffle_seed=1))  # 92 examples are 4 epochs
    epochs = [numbers[i : i + 23] for i in range(0, 92, 23)]
    assert all(sorted(epoch) == ALL for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert len({epoch[0] // 10 for epoch in epochs}) > 1, "the files change places too"


@pytest.mark.slow
def test_the_order_is_a_pure_function_of_the_seed(files):
    tf.random.set_seed(1)
    first = stream(files, take=12, shuffle_seed=5)
    tf.random.set_seed(2)
    np.random.seed(3)
    assert stream(files, take=12, shuffle_seed=5) == first
    assert stream(files, take=12, shuffle_seed=6) != first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "seed"), all_but_very_slow(itertools.product([5, 1000], [None, 3]), [(5, 3)])
)
def test_resuming_continues_the_stream(files, seed, window):
    batches = stream(files, take=30, shuffle_seed=seed, window=window)
    for done in (1, 6, 11, 29):
        resumed = stream(files, take=1, shuffle_seed=seed, window=window, start_example=4 * done)
        assert resumed == batches[done : done + 1], done


@pytest.mark.slow
def test_hosts_share_the_files(equal_files):
    files = equal_files
    for num_hosts in (2, 4):
        parts = [
            joined(stream(files, batch_size=1, repeat=False, input_context=context(num_hosts, host)))
            for host in range(num_hosts)
        ]
        assert sorted(joined(parts)) == joined(range(first, first + 5) for first in (10, 20, 30, 40))
        whole = [{*joined(stream([file], batch_size=1, repeat=False))} for file in files]
        assert all({*one} <= {*two} or not {*one} & {*two} for one in whole for two in map(set, parts))


@pytest.mark.slow
@pytest.mark.parametrize(("num_hosts", "number"), all_but_very_slow([(6, 1), (2, 3), (3, 3)], [(2, 3)]))
def test_the_batches_of_all_hosts_form_the_batch_of_one_host(files, num_hosts, number):
    """If files cannot be shared equally, no example is read more often than others, on any number of hosts."""
    fewer = files[:number]
    alone = stream(fewer, take=20, shuffle_seed=1, batch_size=6)
    options = {"shuffle_seed": 1, "batch_size": 6 // num_hosts}
    parts = [
        stream(fewer, take=20, input_context=context(num_hosts, host), **options) for host in range(num_hosts)
    ]
    for whole, *own in zip(alone, *parts, strict=True):
        assert sorted(whole) == sorted(joined(own))


@pytest.mark.slow
def test_hosts_resume(equal_files):
    files = equal_files
    for num_hosts, host in ((2, 1), (5, 4)):
        options = {"shuffle_seed": 1, "input_context": context(num_hosts, host), "batch_size": 2}
        batches = stream(files, take=20, **options)
        assert stream(files, take=3, start_example=24, **options) == batches[12:15]


def test_a_host_without_examples(tmp_path):
    write(tmp_path / "one", [record(10)])
    with pytest.raises(InputError, match="Received 1 for 2 hosts"):
        stream([tmp_path / "one"], input_context=context(2, 1))
    with pytest.raises(InputError, match="at least one TFRecord file"):
        stream([])


def mixture_of(first, second):
    """The examples of two lists of files as sets with the weights 3 and 1."""
    read = ExampleFiles.read([*first, *second])
    return read.mixed(Mixture.of("first,second", "3,1", None), [first, second])


def mixed_stream(examples, take, batch_size=4, **options):
    dataset = pretraining_dataset(examples, batch_size=batch_size, shuffle_window=5, **options)
    return [batch["input_ids"][:, 1].numpy().tolist() for batch in dataset.take(take)]


def keyed_sets(seed, number, shares):
    """A plain imitation of the draws, with Python's integers: SplitMix64 of seed, position, purpose."""
    mask = 2**64 - 1

    def mix(x):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ x >> shift) * factor & mask
        return x ^ x >> 31

    base = mix(mix(seed))
    numbers = [mix(mix(base + i & mask) ^ (4 * 0x9E3779B97F4A7C15 & mask)) / 2**64 for i in range(number)]
    return np.searchsorted(np.cumsum(shares), numbers, side="right")


@pytest.fixture(scope="module")
def other_files(tmp_path_factory):
    """Four files of five examples: 110..114, 120..124, 130..134, 140..144."""
    folder = tmp_path_factory.mktemp("other")
    return [
        write(folder / str(first), map(record, range(first, first + 5))) for first in (110, 120, 130, 140)
    ]


@pytest.mark.parametrize("seed", [pytest.param(None, marks=pytest.mark.very_slow), 3])
def test_a_mixture_draws_from_sets_in_their_own_order(files, other_files, seed):
    numbers = joined(mixed_stream(mixture_of(files, other_files), 100, shuffle_seed=seed))
    sets = keyed_sets(seed or 0, 400, [0.75, 0.25])
    assert [int(number > 100) for number in numbers] == sets.tolist()
    assert np.mean(sets) == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 400))
    for number, own in enumerate((files, other_files)):
        alone = joined(stream(own, take=100, shuffle_seed=seed))
        mine = [each for each in numbers if (each > 100) == number]
        assert mine == alone[: len(mine)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_hosts", "sets"), [(2, "uneven"), pytest.param(2, "even", marks=pytest.mark.very_slow)]
)
def test_a_mixture_resumes_on_any_number_of_hosts(files, equal_files, other_files, num_hosts, sets):
    examples = mixture_of(files if sets == "uneven" else equal_files, other_files)
    rng = np.random.default_rng(num_hosts)
    drawn = keyed_sets(1, 20 * 4 * num_hosts, [0.75, 0.25])
    parts = []
    for host in range(num_hosts):
        options = {"shuffle_seed": 1, "input_context": context(num_hosts, host)}
        parts.append(mixed_stream(examples, 20, **options))
        assert [int(n > 100) for n in joined(parts[-1])] == drawn[host::num_hosts].tolist()
        for done in rng.integers(1, 18, size=2).tolist():
            assert mixed_stream(examples, 2, start_example=4 * done, **options) == parts[-1][done : done + 2]
    if sets == "uneven":  # all read the one stream in turn
        whole = joined(mixed_stream(examples, 20 * num_hosts, shuffle_seed=1))
        for host in range(num_hosts):
            assert joined(parts[host]) == whole[host::num_hosts]


def test_an_empty_set_of_a_mixture(files):
    read = ExampleFiles.read(files)
    with pytest.raises(InputError, match="Every input of a mixture must have content. none has none"):
        read.mixed(Mixture.of("all,none", "1,1", None), [files, []])


def as_the_original_writes(number):
    """A literal imitation of write_instance_to_example_files in google-research/albert."""

    def integers(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))

    features = collections.OrderedDict()
    features["input_ids"] = integers([2, number, 3, 4, 3] + [0] * (T - 5))
    features["input_mask"] = integers([1] * 5 + [0] * (T - 5))
    features["segment_ids"] = integers([0, 0, 0, 1, 1] + [0] * (T - 5))
    features["token_boundary"] = integers([1] * 5 + [0] * (T - 5))
    features["masked_lm_positions"] = integers([3] + [0] * (P - 1))
    features["masked_lm_ids"] = integers([8] + [0] * (P - 1))
    features["masked_lm_weights"] = tf.train.Feature(
        float_list=tf.train.FloatList(value=[1.0] + [0.0] * (P - 1))
    )
    features["next_sentence_labels"] = integers([1])
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_files_of_the_original_read(tmp_path):
    path = write(tmp_path / "original", map(as_the_original_writes, range(5)))
    files = ExampleFiles.read([path], vocab_size=V)
    assert (files.max_seq_length, files.max_predictions_per_seq) == (T, P)
    assert stream([path], repeat=False) == [[0, 1, 2, 3], [4]]


def test_features_that_fit(files):
    found = ExampleFiles.read(files, vocab_size=V, max_seq_length=T, max_predictions_per_seq=P)
    assert (found.max_seq_length, found.max_predictions_per_seq) == (T, P)
    assert (found.counts, found.num_examples) == ([7, 5, 11], 23)
    assert found.manifest is None
    assert ExampleFiles.read([str(path) for path in files], vocab_size=V).counts == found.counts


def test_one_string_or_path_is_read_as_a_flag(files):
    """With globs and commas, as --input_file."""
    folder = files[0].parent
    for one in (f"{folder}/a,{folder}/[bc]*", f"{folder}/*", folder / "*"):
        assert list(ExampleFiles.read(one).paths) == files
    assert (
        list(ExampleFiles.read(files[1]).paths) == list(ExampleFiles.read(str(files[1])).paths) == [files[1]]
    )
    with pytest.raises(InputError, match="No file matches '.*x[*]'"):
        ExampleFiles.read(f"{folder}/x*")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"max_seq_length": 12},
            "`input_ids` must have 12 .*--max_seq_length.* has 10. Set --max_seq_length=10",
        ),
        (
            {"max_predictions_per_seq": 20},
            "`masked_lm_positions` must have 20 .* has 3. Set --max_predictions_",
        ),
        (
            {"vocab_size": 10},
            "`input_ids` must be at least 0 and below `vocab_size`.*has 10 where `vocab_size` is 10",
        ),
        ({"type_vocab_size": 1}, "`segment_ids` must be .* below `type_vocab_size`.*has 1 where"),
    ],
)
def test_features_that_do_not_fit_the_flags(files, flags, message):
    with pytest.raises(InputError, match=message):
        ExampleFiles.read(files, **flags)


def test_token_types_within_the_model(files, tmp_path):
    ExampleFiles.read(files, type_vocab_size=2)
    (tmp_path / "a").write_bytes(framed(changed(segment_ids=[0] * T)))
    ExampleFiles.read(tmp_path / "a", type_vocab_size=1)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((16, P), "a has 10 values of `input_ids`, .*b has 16."),
        ((T, 5), "a has 3 values of `masked_lm_positions`, .*b has 5."),
    ],
)
def test_records_of_different_lengths(tmp_path, lengths, message):
    files = [write(tmp_path / "a", [record(10)]), write(tmp_path / "b", [record(10, *lengths)])]
    for flag in (None, 16):  # no value would do
        with pytest.raises(InputError, match=f"All files of a run must have the same lengths. .*{message}"):
            ExampleFiles.read(files, max_seq_length=flag)
    with pytest.raises(InputError, match="as the first example of the file"):
        ExampleFiles.read(write(tmp_path / "c", [record(10), record(10, *lengths)]))


def changed(**features):
    example = tf.train.Example.FromString(record(10))
    for name, values in features.items():
        del example.features.feature[name]
        if values is not None:
            kind = "float_list" if isinstance(sum(values), float) else "int64_list"
            getattr(example.features.feature[name], kind).value.extend(values)
    return example.SerializeToString()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (changed(segment_ids=None), "must have the feature `segment_ids`"),
        (changed(masked_lm_weights=[1, 0, 0]), "`masked_lm_weights` must be of type float_list"),
        (changed(masked_lm_positions=[10, 0, 0]), "`masked_lm_positions` .* below `max_seq_length`.*has 10"),
        (changed(masked_lm_ids=[-1, 0, 0]), "has -1"),
        (changed(next_sentence_labels=[1, 0]), r"must have 1 values\. .*has 2"),
        (changed(input_ids=[]), "The feature `input_ids` must have values. .*other has none"),
        (b"\xff\xff not protobuf", "must hold tf.train.Examples"),
        (b"", "must hold tf.train.Examples"),
    ],
)
def test_other_features(tmp_path, raw, message):
    with pytest.raises(InputError, match=message):
        ExampleFiles.read(write(tmp_path / "other", [raw]), vocab_size=V)


def test_a_file_cut_off(files, tmp_path):
    raw = files[0].read_bytes()
    (tmp_path / "cut").write_bytes(raw[:-1])
    with pytest.raises(InputError, match="cut off"):
        stream([tmp_path / "cut"])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(raw)[:-1])
    with pytest.raises(InputError, match="damaged GZIP"):
        ExampleFiles.read(tmp_path / "cut.gz")


def test_a_resumed_run_does_not_read_what_it_has_read(files, tmp_path):
    examples = ExampleFiles.read([shutil.copy(file, tmp_path) for file in files])
    examples.paths[0].write_bytes(b"not a record")
    batches = pretraining_dataset(examples, batch_size=4, start_example=9, repeat=False)
    numbers = [n for batch in batches for n in batch["input_ids"].numpy()[:, 1].tolist()]
    assert numbers == ALL[9:]
    assert not list(pretraining_dataset(examples, batch_size=4, start_example=len(ALL), repeat=False))


@pytest.fixture(scope="module", params=["sop", "nsp"])
def unmasked(request, story, model_file, tmp_path_factory):
    """A file of chunks (sop) or of unmasked pairs (nsp) with its manifest."""
    path = tmp_path_factory.mktemp("unmasked") / "train.tfrecord"
    flags = {"max_seq_length": 48, "masking": "dynamic", "sentence_objective": request.param}
    prepare(PrepareSettings(str(story), str(path), str(model_file), **flags), show_progress=False)
    return path


def test_a_file_is_counted_by_its_manifest(unmasked, tmp_path, monkeypatch):
    """Training sets of a terabyte are not read at every start."""
    expected = ExampleFiles.read(unmasked).counts
    assert expected == count_examples([unmasked])
    folder = shutil.copytree(unmasked.parent, tmp_path / "copy")
    (folder / unmasked.name).write_bytes(unmasked.read_bytes()[:-1])
    with pytest.raises(InputError, match="cut off"):
        ExampleFiles.read(folder / unmasked.name)
    monkeypatch.setattr(example_files, "count_examples", None)
    assert ExampleFiles.read(unmasked).counts == expected


def masked_batches(path, take, **options):
    dataset = pretraining_dataset(ExampleFiles.read([path]), batch_size=4, **options)
    return [{name: values.numpy() for name, values in batch.items()} for batch in dataset.take(take)]


def equal(first, second):
    return all(np.array_equal(first[name], second[name]) for name in first)


def with_chunks(path) -> bool:
    return ExampleFiles.read([path]).layout.holds_chunks


@pytest.mark.very_slow
def test_unmasked_files_are_drawn_anew_in_every_epoch_and_resume(unmasked):
    files = ExampleFiles.read(unmasked, max_seq_length=48, max_predictions_per_seq=8, vocab_size=100)
    assert (files.max_seq_length, files.max_predictions_per_seq) == (48, 8)
    own = files.num_examples
    batches = masked_batches(unmasked, own, shuffle_seed=3)
    assert all(map(equal, batches, masked_batches(unmasked, own, shuffle_seed=3)))
    for done in (1, own // 4, own // 4 + 1, own - 2):
        resumed = masked_batches(unmasked, 1, shuffle_seed=3, start_example=4 * done)
        assert equal(resumed[0], batches[done]), done
    # `own` batches of 4 are 4 epochs; in file order example 0 comes back after `own` examples.
    stream = masked_batches(unmasked, own)
    drawn = {
        name: np.concatenate([batch[name] for batch in stream]).reshape(4, own, -1) for name in stream[0]
    }
    assert (drawn["masked_lm_positions"][0] != drawn["masked_lm_positions"][1]).any()
    for name in ("token_type_ids", "sentence_order"):
        assert (drawn[name][0] != drawn[name][1]).any() == with_chunks(unmasked), name
    assert (drawn["input_mask"][0] == drawn["input_mask"][1]).all()
    # The batch size changes nothing.
    larger = pretraining_dataset(files, batch_size=own, shuffle_seed=3)
    for epoch, batch in enumerate(larger.take(4)):
        for name, values in batch.items():
            whole = np.concatenate([part[name] for part in batches])
            np.testing.assert_array_equal(values, whole[epoch * own : (epoch + 1) * own])


@pytest.mark.very_slow
def test_hosts_draw_as_one_host_does(unmasked):
    own = ExampleFiles.read([unmasked]).num_examples
    whole = masked_batches(unmasked, own, shuffle_seed=3)  # four epochs
    alone = {name: np.concatenate([batch[name] for batch in whole]) for name in whole[0]}
    for host in (0, 1):
        options = {"input_context": context(2, host), "shuffle_seed": 3}
        parts = masked_batches(unmasked, own // 2, **options)
        resumed = masked_batches(unmasked, 1, start_example=4 * (own // 2 - 1), **options)
        assert equal(parts[-1], resumed[0])
        for name, values in alone.items():
            rows = np.concatenate([batch[name] for batch in parts])
            np.testing.assert_array_equal(rows, values[host::2][: len(rows)])


@pytest.mark.slow
def test_every_evaluation_of_unmasked_files_is_the_same(unmasked):
    first, second = (masked_batches(unmasked, -1, repeat=False) for _ in range(2))
    assert all(map(equal, first, second))


def test_unmasked_files_need_their_manifest(unmasked, tmp_path):
    (tmp_path / "alone").write_bytes(unmasked.read_bytes())
    with pytest.raises(InputError, match="need the manifest.json"):
        ExampleFiles.read([tmp_path / "alone"])
    with pytest.raises(InputError, match="has 8. Received 5"):
        ExampleFiles.read(unmasked, max_predictions_per_seq=5)
    with pytest.raises(InputError, match="--max_seq_length must be.*has 48. Received 64"):
        ExampleFiles.read(unmasked, max_seq_length=64)


@pytest.mark.slow
def test_batches_have_static_shapes(files, unmasked):
    for path in (files[0], unmasked):
        dataset = pretraining_dataset(path, batch_size=4)
        batch = next(iter(dataset))
        for name, spec in dataset.element_spec.items():
            assert spec.dtype == (tf.float32 if name.endswith("_weights") else tf.int32)
            assert spec.shape == batch[name].shape, "static shapes, which TPUs need"
        assert batch["sentence_order_weights"].numpy().tolist() == [1.0] * 4
        assert set(batch) == set(next(iter(pretraining_dataset(files, batch_size=1))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"spm_model_file": None, "vocab_file": "vocab.txt"},
            r"files of a run must have one vocabulary. .*one/a.* \(SHA-256 .*other/a.*vocab.txt \(SHA-256",
        ),
        ({"masking": "static"}, "must have the same features"),
        ({"max_seq_length": 32}, "same --max_seq_length. .*one/a.tfrecord has 48, .*other/a.tfrecord has 32"),
        ({"ngram": 1}, "the same masking. .*ngram=3.*ngram=1"),
    ],
)
def test_files_of_different_preparations_do_not_mix(
    story, model_file, vocab_file, tmp_path, monkeypatch, change, message
):
    monkeypatch.chdir(vocab_file.parent)
    flags = {"spm_model_file": str(model_file), "max_seq_length": 48, "max_predictions_per_seq": 7}
    paths = [tmp_path / name / "a.tfrecord" for name in ("one", "other")]
    for path, changes in zip(paths, ({}, change), strict=True):
        settings = {"masking": "dynamic", **flags, **changes}
        prepare(PrepareSettings(str(story), str(path), **settings), show_progress=False)
    with pytest.raises(InputError, match=message):
        ExampleFiles.read(paths)


def test_files_of_model_garden_read(tmp_path):
    def renamed(raw):
        example = tf.train.Example.FromString(raw)
        features = example.features.feature
        for old, new in (("input_ids", "input_word_ids"), ("segment_ids", "input_type_ids")):
            features[new].CopyFrom(features[old])
            del features[old]
        del features["token_boundary"]
        return example.SerializeToString()

    path = write(tmp_path / "garden", [renamed(record(number)) for number in range(10, 14)])
    files = ExampleFiles.read([path], vocab_size=V)
    assert (files.max_seq_length, files.max_predictions_per_seq) == (T, P)
    assert stream([path], repeat=False) == [[10, 11, 12, 13]]
    shown = next(read_batches(path)).values  # under the original's names
    assert shown["input_ids"][:, 1].tolist() == [10, 11, 12, 13] and "segment_ids" in shown
