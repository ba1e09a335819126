"""Which in-graph tokenizer equals a tokenizer."""

from data_prep.in_graph.albert import GraphTokenizer
from data_prep.in_graph.wordpiece import GraphWordPieceTokenizer
from data_prep.tokenizers.loading import Tokenizer
from data_prep.tokenizers.wordpiece import WordPieceTokenizer

AnyGraphTokenizer = GraphTokenizer | GraphWordPieceTokenizer


def in_graph(tokenizer: Tokenizer) -> AnyGraphTokenizer:
    """The tokenizer as TensorFlow ops, with `tokenize` and `tokenize_with_offsets`."""
    if isinstance(tokenizer, WordPieceTokenizer):
        return GraphWordPieceTokenizer(tokenizer)
    return GraphTokenizer(tokenizer)
