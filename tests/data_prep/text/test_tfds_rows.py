import sys

import pytest

from data_prep.errors import InputError
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files
from data_prep.text.tfds_rows import read_tfds

tfds = pytest.importorskip("tensorflow_datasets", reason="no tensorflow-datasets")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A dataset written by a TFDS builder into the folder of tensorflow-datasets."""
    folder = tmp_path_factory.mktemp("tfds")

    # Building it takes a package of its own: tensorflow-datasets looks for files beside the builder.
    (folder / "stories_package").mkdir()
    (folder / "stories_package" / "stories_dataset_builder.py").write_text(BUILDER)
    sys.path.insert(0, str(folder))
    try:
        from stories_package.stories_dataset_builder import Builder

        Builder(config="short", data_dir=folder / "data", file_format="tfrecord").download_and_prepare()
    finally:
        sys.path.remove(str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds.core.constants, "DATA_DIR", str(folder / "data"))
        yield folder / "data"


BUILDER = '''
import numpy as np
import tensorflow_datasets as tfds

class Builder(tfds.core.GeneratorBasedBuilder):
    """Two splits of very short stories."""
    name = "stories"
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="short")]

    def _info(self):
        features = {"text": tfds.features.Text(), "title": tfds.features.Text(), "year": np.int64}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, _):
        return {"train": self._generate_examples(9), "test": self._generate_examples(2)}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {"text": f"Story {i}. It is schön.\\n\\nThe end", "title": f"Title {i}", "year": i}
'''


def test_texts_of_a_split(prepared):
    documents = list(read_documents(expand_files("tfds:stories/short:train")))
    assert sorted(document.sentences for document in documents) == [
        (f"Story {i}.", "It is schön.", "The end") for i in range(9)
    ]
    assert documents[2].source == "tfds:stories/short:train, example 3"
    assert documents == list(read_documents(expand_files("tfds:stories/short:train")))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("tfds:stories:test", 2),
        ("tfds:stories/short:1.0.0:train", 9),
        ("tfds:stories/short:train[:4]", 4),
        ("tfds:stories/short:train+test", 11),
    ],
)
def test_versions_slices_and_other_fields(prepared, name, count):
    titles = [text.decode() for text in read_tfds(name, "title")]
    assert len(titles) == count
    assert all(title.startswith("Title ") for title in titles)


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("tfds:no_such_thing:train", "text", "no dataset 'no_such_thing', nor has its folder .*data"),
        ("tfds:stories/long:train", "text", "cannot load 'stories/long'.*BuilderConfig long not found"),
        ("tfds:stories/short:validation", "text", "must be one of train, test.*Received 'validation'"),
        ("tfds:stories/short:train[:4", "text", "must be one of train, test"),
        ("tfds:stories/short:train", "body", "no text 'body', only: text, title"),
        ("tfds:stories/short:train", "year", "no text 'year', only: text, title"),
        ("tfds:stories", "text", 'must be written "tfds:NAME/CONFIG:SPLIT".* Received'),
        ("tfds:", "text", 'must be written "tfds:NAME/CONFIG:SPLIT"'),
    ],
)
def test_bad_names(prepared, name, field, message):
    with pytest.raises(InputError, match=message):
        list(read_documents(expand_files(name), text_field=field))


def test_datasets_that_cannot_be_downloaded(prepared, monkeypatch):
    def unreachable(*arguments, **keywords):
        raise ConnectionError("the host is down\nand more")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", unreachable)
    with pytest.raises(InputError, match="could not download or prepare 'imdb_reviews': the host is down$"):
        list(read_tfds("tfds:imdb_reviews:train", "text"))


def test_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(InputError, match=r"pip install '.\[tfds\]'"):
        list(read_tfds("tfds:stories:train", "text"))
