"""The documents that next-sentence prediction draws from."""

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.examples.partners import PartnerPool, document_key
from data_prep.text.documents import Document

DOCUMENTS = sorted(
    (Document((f"Document {number}.", "End.")) for number in range(5)), key=lambda one: document_key(one, 7)
)
SENTENCES = [[np.array([10 * number]), np.array([10 * number + 1])] for number in range(5)]
POOL = PartnerPool([document_key(one, 7) for one in DOCUMENTS], SENTENCES, seed=7)


@pytest.mark.parametrize("document", [*DOCUMENTS, Document(("Not in the pool.",))])
def test_draws_are_uniform_over_the_other_documents(document):
    """The same draws as from a list without the document."""
    others = [rows for one, rows in zip(DOCUMENTS, SENTENCES, strict=True) if one != document]
    rng, again = np.random.default_rng(0), np.random.default_rng(0)
    choose = POOL.chooser(document)
    for _ in range(50):
        rows = others[again.integers(len(others))]
        assert choose(rng) == rows[again.integers(2) :]


def test_a_pool_of_the_document_alone():
    alone = PartnerPool(POOL.keys[:1], SENTENCES[:1], seed=7)
    assert alone.chooser(DOCUMENTS[1])(np.random.default_rng(0))
    with pytest.raises(InputError, match="at least two different documents"):
        alone.chooser(DOCUMENTS[0])
