"""Which in-graph tokenizer equals a tokenizer."""

from data_prep.preprocessing import GraphTokenizer
from data_prep.tokenizers import Tokenizer
from data_prep.wordpiece import WordPieceTokenizer
from data_prep.wordpiece_graph import GraphWordPieceTokenizer

AnyGraphTokenizer = GraphTokenizer | GraphWordPieceTokenizer


def in_graph(tokenizer: Tokenizer) -> AnyGraphTokenizer:
    """The tokenizer as TensorFlow ops, with `tokenize` and `tokenize_with_offsets`."""
    if isinstance(tokenizer, WordPieceTokenizer):
        return GraphWordPieceTokenizer(tokenizer)
    return GraphTokenizer(tokenizer)
