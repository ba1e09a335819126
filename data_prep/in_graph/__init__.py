"""Tokenizers as TensorFlow ops, for tf.data and for exports."""

from data_prep.in_graph.albert_tokenizer import GraphAlbertTokenizer
from data_prep.in_graph.wordpiece_tokenizer import GraphWordPieceTokenizer
from data_prep.tokenizers.vocabulary import Tokenizer
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

GraphTokenizer = GraphAlbertTokenizer | GraphWordPieceTokenizer


def make_graph_tokenizer(tokenizer: Tokenizer) -> GraphTokenizer:
    """The tokenizer as TensorFlow ops, with the methods `tokenize` and `tokenize_with_offsets`.

    >>> tokenizer = load_pretrained("runs/base").tokenizer
    >>> in_graph = make_graph_tokenizer(tokenizer)  # keep it: its functions do not
    >>> in_graph.tokenize(["the captain"]).to_list() == [tokenizer.encode("the captain")]
    True
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        return GraphWordPieceTokenizer(tokenizer)
    return GraphAlbertTokenizer(tokenizer)
