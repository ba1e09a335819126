"""The Beam runner gives the local runner's bytes; on Beam's own DirectRunner, in one process and in several."""

import dataclasses
import io
import socket
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

pytest.importorskip("apache_beam", reason="apache-beam is an extra: pip install '.[beam]'")
from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem, MatchResult

from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare import beam, beam_files
from data_prep.prepare.beam import prepare_on_cluster
from data_prep.prepare.beam_files import expand_names
from data_prep.prepare.local import prepare
from data_prep.prepare.outputs import output_names
from tests.story import write_story

SEVERAL = "--direct_num_workers=2 --direct_running_mode=multi_processing"


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number in range(3):
        write_story(folder / f"text{number}.txt", documents=8, seed=number)
    return folder


def settings_for(texts, model_file, folder, **changes) -> PrepareSettings:
    values = {
        "input_file": str(texts / "*.txt"),
        "output_file": str(folder / "train.tfrecord"),
        "spm_model_file": str(model_file),
        "max_seq_length": 48,
        "dupe_factor": 2,
        "num_shards": 3,
        **changes,
    }
    return PrepareSettings(**values)


def on_beam(settings: PrepareSettings, options: str = "") -> Manifest:
    changed = dataclasses.replace(settings, runner="DirectRunner", workers=None, pipeline_options=options)
    return prepare_on_cluster(changed, show_progress=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def check_same_bytes(texts, model_file, tmp_path, options: str = "", **changes) -> None:
    settings = settings_for(texts, model_file, tmp_path / "out", **changes)
    local = prepare(settings, show_progress=False)
    expected = contents(tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    assert on_beam(settings, options) == local
    assert contents(tmp_path / "out") == expected  # the manifest among them, and nothing else is left


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"sentence_objective": "nsp"}, marks=pytest.mark.very_slow),
        {"masking": "dynamic", "num_shards": 1},
        pytest.param(  # some shards stay empty
            {"num_shards": 40, "dupe_factor": 1, "max_seq_length": 512}, marks=pytest.mark.very_slow
        ),
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "sop",
)
def test_the_bytes_are_the_local_runners(texts, model_file, tmp_path, monkeypatch, changes):
    monkeypatch.setattr(beam, "_SLICE_BYTES", 1000)  # several slices a shard
    check_same_bytes(texts, model_file, tmp_path, **changes)


@pytest.mark.very_slow
def test_duplicates_are_left_out(texts, model_file, tmp_path):
    for path in list(texts.glob("*.txt"))[:2]:
        (tmp_path / f"again_{path.name}").write_bytes(path.read_bytes())
    inputs = f"{texts}/*.txt,{tmp_path}/again_*"
    check_same_bytes(texts, model_file, tmp_path, input_file=inputs, drop_duplicates=True)


@pytest.mark.very_slow
def test_mixtures(texts, model_file, tmp_path):
    patterns = f"{texts}/text[01].txt,{texts}/text2.txt"
    check_same_bytes(texts, model_file, tmp_path, input_file=patterns, input_exponent=0.3)
    assert len(Manifest.read(tmp_path / "out").corpora) == 2
    (tmp_path / "blank.txt").write_text("\n\n")
    patterns = f"{texts}/*.txt,{tmp_path}/blank.txt"
    settings = settings_for(texts, model_file, tmp_path / "a", input_file=patterns, input_weights="1,1")
    with pytest.raises(InputError, match=r"Every input of a mixture must have content. .*blank.txt has none"):
        on_beam(settings)
    assert not (tmp_path / "a").exists()


@pytest.mark.very_slow
@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_several_processes_give_the_same_bytes(texts, model_file, tmp_path, objective):
    check_same_bytes(texts, model_file, tmp_path, SEVERAL, sentence_objective=objective)


@pytest.mark.very_slow
def test_damaged_inputs_are_named_and_nothing_is_left(texts, model_file, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"One sentence.\nCaf\xe9.\n")
    (tmp_path / "cut.txt.gz").write_bytes(b"\x1f\x8b\x08\x00cut")
    settings = settings_for(texts, model_file, tmp_path / "out", input_file=f"{texts}/*.txt,{tmp_path}/*.*")
    with pytest.raises(
        InputError, match=r"cut.txt.gz is not a complete .gz file.*latin.txt has the byte 0xe9"
    ):
        on_beam(settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.very_slow
def test_refused_text_leaves_nothing(texts, model_file, tmp_path):
    book = tmp_path / "book.txt"
    settings = settings_for(texts, model_file, tmp_path / "out", input_file=str(book))
    for text, strict, message in (
        ("It rained. Nobody came. It was old.\n\n" * 9 + "A.\nB.\n", True, "9 of 10 documents have one line"),
        ("A.\n", False, "at least two sentences. Received none in 1"),
    ):
        book.write_text(text)
        with pytest.raises(InputError, match=message):
            on_beam(dataclasses.replace(settings, strict=strict))
        assert not (tmp_path / "out").exists()


@pytest.mark.very_slow
def test_an_earlier_output_outlives_a_failure(texts, model_file, tmp_path):
    settings = settings_for(texts, model_file, tmp_path / "out")
    on_beam(settings)
    before = contents(tmp_path / "out")
    (tmp_path / "lonely.txt").write_text("Only one sentence.\n", encoding="utf-8")
    with pytest.raises(InputError, match="at least two sentences. Received none in 1 sentences"):
        on_beam(dataclasses.replace(settings, input_file=str(tmp_path / "lonely.txt"), overwrite=True))
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runner": "NoSuchRunner"}, "Unexpected pipeline runner: NoSuchRunner"),
        ({"pipeline_options": "--direct_num_workers=two"}, "invalid int value: 'two'"),
        ({"pipeline_options": "'"}, "No closing quotation"),
        ({"workers": 2}, "--workers is for the local runner"),
        ({"input_file": "-"}, "A cluster reads files"),
        ({"input_file": "nowhere://x/*.txt"}, "nowhere://x/.* cannot be read"),
        ({"output_file": "{input}", "num_shards": 1}, "must not overwrite an input"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_mistakes_are_input_errors(texts, model_file, tmp_path, changes, message):
    if "output_file" in changes:
        changes = {**changes, "output_file": str(texts / "text0.txt")}
    settings = settings_for(texts, model_file, tmp_path / "out", **{"runner": "DirectRunner", **changes})
    with pytest.raises(InputError, match=message):
        prepare_on_cluster(settings, show_progress=False)
    assert not (tmp_path / "out").exists()


def test_options_without_a_runner(texts, model_file, tmp_path):
    settings = settings_for(texts, model_file, tmp_path, pipeline_options="--parallelism=2")
    with pytest.raises(InputError, match="--pipeline_options is for a Beam runner"):
        prepare(settings)


@pytest.mark.very_slow
def test_the_command_names_the_missing_extra(texts, model_file, tmp_path):
    """With apache_beam hidden, as on a machine that does not have it."""
    program = (
        "import sys; sys.modules['apache_beam'] = None; from albert_cli.cli import main; "
        f"sys.exit(main(['prepare', '--runner=FlinkRunner', '--input_file={texts}/*.txt', "
        f"'--spm_model_file={model_file}', '--output_file={tmp_path}/train.tfrecord']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install '.[beam]'" in done.stderr
    assert "Traceback" not in done.stderr


class BucketFileSystem(FileSystem):
    """A store behind bucket://, kept in memory: a real Beam file system, which knows no local paths."""

    files: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def scheme(cls):
        return "bucket"

    def join(self, basepath, *paths):
        return "/".join((basepath.rstrip("/"), *paths))

    def split(self, path):
        return path.rpartition("/")[::2]

    def mkdirs(self, path):
        pass

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        for name, content in self.files.items():
            if name.startswith(dir_or_prefix):
                yield FileMetadata(name, len(content))

    def create(self, path, mime_type="", compression_type=CompressionTypes.AUTO):
        files = self.files

        class Writer(io.BytesIO):
            def close(self):
                files[path] = self.getvalue()
                super().close()

        return Writer()

    def open(self, path, mime_type="", compression_type=CompressionTypes.AUTO):
        if path not in self.files:
            raise BeamIOError(f"{path} is not there")
        return io.BytesIO(self.files[path])

    def copy(self, sources, targets):
        raise NotImplementedError

    def rename(self, sources, targets):
        for source, target in zip(sources, targets, strict=True):
            if target in self.files:
                raise BeamIOError(f"{target} is there")
            self.files[target] = self.files.pop(source)

    def exists(self, path):
        return any(name == path or name.startswith(path + "/") for name in self.files)

    def size(self, path):
        return len(self.files[path])

    def last_updated(self, path):
        raise NotImplementedError

    def checksum(self, path):
        raise NotImplementedError

    def metadata(self, path):
        return FileMetadata(path, self.size(path))

    def delete(self, paths):
        for path in paths:
            folder = path.rstrip("/") + "/"
            for name in [name for name in self.files if name == path or name.startswith(folder)]:
                del self.files[name]

    def match(self, patterns, limits=None):
        if set("*[") & set(patterns[0]):
            return super().match(patterns, limits)
        there = [self.metadata(patterns[0])] if patterns[0] in self.files else []
        return [MatchResult(patterns[0], there)]


@pytest.fixture
def bucket(texts):
    BucketFileSystem.files.clear()
    for path in texts.glob("*.txt"):
        BucketFileSystem.files[f"bucket://texts/{path.name}"] = path.read_bytes()
    return BucketFileSystem.files


@pytest.mark.very_slow
def test_remote_files_are_read_and_written(texts, model_file, tmp_path, bucket):
    local = prepare(settings_for(texts, model_file, tmp_path), show_progress=False)
    settings = settings_for(
        texts,
        model_file,
        tmp_path,
        input_file="bucket://texts/*.txt",
        output_file="bucket://out/train.tfrecord",
    )
    for _ in range(2):  # the second time replaces the files of the first
        manifest = on_beam(settings)
        assert manifest.shards == local.shards
        assert bucket["bucket://out/manifest.json"].decode() == manifest.to_json()
        out = {name.removeprefix("bucket://out/") for name in bucket if name.startswith("bucket://out/")}
        assert out == {"manifest.json", *local.files}
        for name in local.files:
            assert bucket[f"bucket://out/{name}"] == (tmp_path / name).read_bytes()


@pytest.mark.very_slow
def test_a_second_data_set_in_a_remote_folder(texts, model_file, tmp_path, bucket):
    settings = settings_for(texts, model_file, tmp_path, output_file="bucket://out/a", num_shards=1)
    first = on_beam(settings)
    second = on_beam(dataclasses.replace(settings, output_file="bucket://out/b"))
    assert bucket["bucket://out/manifest.a.json"].decode() == first.to_json()
    changed = dataclasses.replace(settings, ngram=2)
    with pytest.raises(InputError, match="bucket://out/a, written with --ngram=3, not 2. Add --overwrite"):
        on_beam(changed)
    third = on_beam(dataclasses.replace(changed, overwrite=True))
    manifests = {name: content.decode() for name, content in bucket.items() if name.endswith(".json")}
    assert manifests == {
        "bucket://out/manifest.json": third.to_json(),
        "bucket://out/manifest.b.json": second.to_json(),
    }
    bucket["bucket://out/manifest.b.json"] = b"{}"
    with pytest.raises(InputError, match="^bucket://out/manifest.b.json is not a manifest"):
        on_beam(settings)


@pytest.mark.very_slow
def test_errors_name_the_remote_file(texts, model_file, tmp_path, bucket):
    bucket["bucket://texts/text1.txt"] = b"Caf\xe9.\n"
    settings = settings_for(texts, model_file, tmp_path / "out", input_file="bucket://texts/*.txt")
    with pytest.raises(InputError, match="bucket://texts/text1.txt has the byte 0xe9 at offset 3"):
        on_beam(settings)


def test_names_of_inputs_and_outputs(texts, bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(texts)
    assert expand_names("text0.txt,bucket://texts/text[12].txt") == [
        str(texts / "text0.txt"),
        "bucket://texts/text1.txt",
        "bucket://texts/text2.txt",
    ]
    assert expand_names("tfds:imdb_reviews:train") == ["tfds:imdb_reviews:train"]
    dataset = "hf://datasets/team/texts:train"
    assert expand_names(f"{dataset},bucket://texts/text1.txt") == [dataset, "bucket://texts/text1.txt"]
    with pytest.raises(InputError, match="No file matches 'bucket://texts/\\*.md'"):
        expand_names("bucket://texts/*.md")
    assert output_names("bucket://out/a", 2) == [
        "bucket://out/a-00000-of-00002",
        "bucket://out/a-00001-of-00002",
    ]
    assert output_names("a", 1) == ["a"]
    with pytest.raises(InputError, match="must be one name at an address"):
        output_names("bucket://out/a,bucket://out/b", 2)
    assert beam_files.size_of("tfds:imdb_reviews:train") == beam_files.size_of(dataset) == 0


@pytest.mark.very_slow
def test_workers_that_never_start(texts, model_file, tmp_path, monkeypatch):
    """A job server, and a pool whose workers have no Beam: nothing answers on its port."""
    monkeypatch.setattr(beam, "_SECONDS_TO_START", 8)
    monkeypatch.chdir(tmp_path)
    with socket.socket() as silent, socket.socket() as free:
        for one in (silent, free):
            one.bind(("127.0.0.1", 0))
        silent.listen()
        pool, port = silent.getsockname()[1], free.getsockname()[1]
        free.close()
        module = "apache_beam.runners.portability.local_job_service_main"
        with subprocess.Popen(
            [sys.executable, "-m", module, f"--port={port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as server:
            try:
                assert any("Listening" in line for line in server.stdout)
                options = (
                    f"--job_endpoint=127.0.0.1:{port} --environment_type=EXTERNAL "
                    f"--environment_config=127.0.0.1:{pool}"
                )
                settings = settings_for(texts, model_file, tmp_path / "out")
                changed = dataclasses.replace(
                    settings, runner="PortableRunner", workers=None, pipeline_options=options
                )
                with pytest.raises(InputError, match="None has begun to work within 8 seconds"):
                    prepare_on_cluster(changed, show_progress=False)
            finally:
                server.kill()
    assert not (tmp_path / "out").exists()
