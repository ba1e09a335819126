import pytest

from data_prep.examples.manifest import ExampleCounts
from data_prep.prepare.progress import PrepareProgress


@pytest.mark.parametrize(("folder", "named"), [("data", "data"), (".", "the current folder")])
def test_the_last_line_names_the_folder(folder, named, capsys):
    counts = ExampleCounts(
        documents=1, sentences=9, tokens=99, examples=1_000, example_tokens=999, dropped_sentences=0
    )
    with PrepareProgress(total_bytes=0) as progress:
        progress.done(counts, folder, warning=None)
    assert capsys.readouterr().err == f"Wrote 1,000 examples from 1 document to {named}\n"
