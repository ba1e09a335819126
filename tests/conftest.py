"""What all tests share."""

import io
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# Before TensorFlow is imported anywhere.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# LLVM's optimizations take a third of XLA's compile time and gain nothing for models this small.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import hypothesis
import pytest

from albert_tf.config import AlbertConfig
from tests.story import write_story

# A busy machine is no defect.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=25)  # `make test`
hypothesis.settings.load_profile("patient")


_LENGTHS = {"slow": 1, "very_slow": 4}  # roughly


@pytest.hookimpl(trylast=True)  # of the selected tests
def pytest_collection_modifyitems(items):
    """The longest files begin first, so that no worker waits for another at the end."""
    journeys = {item.path for item in items if item.get_closest_marker("journey")}
    folder, length = Path(__file__).parent, Counter()
    for item in items:
        length[item.path] += sum(n for name, n in _LENGTHS.items() if item.get_closest_marker(name))
    items.sort(key=lambda item: (item.path not in journeys, item.path.parent != folder, -length[item.path]))


def pytest_runtest_setup(item):
    if item.get_closest_marker("xla"):
        from albert_tf.pretraining.devices import compiles_for_cpus  # TensorFlow takes seconds to import

        if not compiles_for_cpus():
            pytest.skip("this TensorFlow cannot compile for CPUs; tensorflow-tpu cannot")


@pytest.fixture(scope="session", autouse=True)
def tokenizers_tried_once():
    """Trying a vocabulary's tokenizer.json takes more than a second, and many tests write that of the same one."""
    from albert_tf.checkpoints import huggingface

    write, written = huggingface.write_tokenizer_json, {}

    def write_once(vocabulary, path: Path) -> str:
        if vocabulary not in written:
            note = write(vocabulary, path)
            written[vocabulary] = note, path.read_bytes() if path.exists() else None
        note, content = written[vocabulary]
        if content is not None:
            path.write_bytes(content)
        return note

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(huggingface, "write_tokenizer_json", write_once)
        yield


@pytest.fixture(scope="session")
def browser():
    """A Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def standard_input(monkeypatch):
    """Puts bytes on standard input."""

    def put(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


@pytest.fixture
def tiny_config() -> AlbertConfig:
    """A model that builds and runs in milliseconds, every dimension different."""
    return AlbertConfig(
        vocab_size=50,
        embedding_size=10,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=36,
        max_position_embeddings=16,
    )


@pytest.fixture(scope="session")
def story(tmp_path_factory) -> Path:
    """A generated text; `model_file` and `tokenizer` are its vocabulary."""
    return write_story(tmp_path_factory.mktemp("story") / "story.txt")


@pytest.fixture(scope="session")
def model_file(story, tmp_path_factory) -> Path:
    from data_prep.tokenizers.vocabulary_training import VocabularySettings, train_vocabulary

    prefix = tmp_path_factory.mktemp("vocabulary") / "story"
    return train_vocabulary(VocabularySettings(str(story), str(prefix), vocab_size=100))


@pytest.fixture(scope="session")
def tokenizer(model_file):
    from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

    return AlbertTokenizer(model_file)


@pytest.fixture(scope="session")
def real_model_file() -> Path:
    path = Path(__file__).parents[2] / "shared/data/albert_vocab/30k-clean.model"
    if not path.is_file():
        pytest.skip(f"the released ALBERT vocabulary is not at {path}")
    return path


@dataclass(frozen=True)
class PretrainingFiles:
    """Everything a tiny pretraining run needs, made from text by this library."""

    train: str
    heldout: str
    spm_model_file: Path
    albert_config_file: Path

    def flags(self, output_dir: Path, **changes) -> list[str]:
        """A command line of a run of 12 short steps."""
        flags = {
            "input_file": self.train,
            "eval_file": self.heldout,
            "albert_config_file": self.albert_config_file,
            "output_dir": output_dir,
            "do_train": True,
            "do_eval": True,
            "train_batch_size": 4,
            "eval_batch_size": 8,
            "num_train_steps": 12,
            "num_warmup_steps": 3,
            "save_checkpoints_steps": 4,
            "log_steps": 3,
            "learning_rate": 0.01,
            **changes,
        }
        return ["pretrain", *(f"--{name}={value}" for name, value in flags.items() if value is not None)]


@pytest.fixture(scope="session")
def pretraining_files(tmp_path_factory) -> PretrainingFiles:
    """Two training shards and a held-out file, T=32, with a vocabulary and a configuration with dropout."""
    from data_prep.examples.prepare_flags import PrepareSettings
    from data_prep.prepare.local import prepare
    from data_prep.tokenizers.vocabulary_training import VocabularySettings, train_vocabulary

    folder = tmp_path_factory.mktemp("pretraining")
    text, heldout = write_story(folder / "text.txt"), write_story(folder / "heldout.txt", 3, 25, seed=1)
    model = train_vocabulary(VocabularySettings(str(text), str(folder / "spm"), vocab_size=100))
    for source, output, num_shards in ((text, "train/train.tfrecord", 2), (heldout, "heldout.tfrecord", 1)):
        settings = PrepareSettings(
            str(source),
            str(folder / output),
            str(model),
            num_shards=num_shards,
            max_seq_length=32,
            dupe_factor=2,
        )
        prepare(settings, show_progress=False)
    config = AlbertConfig(
        vocab_size=100,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    config.to_json_file(folder / "albert_config.json")
    return PretrainingFiles(
        f"{folder}/train/train.tfrecord*",
        f"{folder}/heldout.tfrecord",
        model,
        folder / "albert_config.json",
    )


@pytest.fixture(scope="session")
def finetuning_files(tmp_path_factory):
    """A tiny checkpoint with its vocabulary, and data of each kind of task."""
    from data_prep.tokenizers.vocabulary_training import VocabularySettings, train_vocabulary
    from tests.albert_tf.tasks.files import write_files

    folder = tmp_path_factory.mktemp("finetuning")
    text = write_story(folder / "text.txt")
    model = train_vocabulary(VocabularySettings(str(text), str(folder / "spm"), vocab_size=100))
    return write_files(folder, model)
