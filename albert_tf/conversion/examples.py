"""Python for the README.md of a converted model, which runs in its folder."""

import textwrap

from albert_tf.checkpoints.names import ANSWERS, CLASSES, LABEL_SETS, NUMBERS, WORD_CLASSES, Use, Writable
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.tasks.open_task import first_kind, kinds_of

_PRETRAINED: dict[Writable, str] = {
    "tf1": """
        import albert_tf, keras

        model = albert_tf.load_pretrained(".").model  # google-research/albert: --init_checkpoint=model.ckpt-best
        outputs = model.encoder({"input_ids": keras.ops.array([[2, 13, 1, 9, 3]])})
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
    """,
    "huggingface": """
        import torch
        from transformers import AlbertModel

        outputs = AlbertModel.from_pretrained(".")(torch.tensor([[2, 13, 1, 9, 3]]))
        print(outputs.last_hidden_state.shape, outputs.pooler_output.shape)
    """,
    "keras": """
        import keras
        from albert_tf import AlbertPretrainer  # so that Keras knows the class

        model = keras.models.load_model("model.keras")
        outputs = model.encoder({"input_ids": keras.ops.array([[2, 13, 1, 9, 3]])})
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
    """,
    "kerashub": """
        import keras_hub, numpy as np

        ids = np.array([[2, 13, 1, 9, 3]])
        inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
        outputs = keras_hub.models.AlbertBackbone.from_preset("./")(inputs)
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
    """,
}

_SENTENCES = """
    from sentence_transformers import SentenceTransformer

    print(SentenceTransformer(".").encode(["The captain sailed past.", "A quiet neighbour."]).shape)
"""

# For fine-tuned models, from ids; {ours} and {theirs} are the names of the classes.
_FINETUNED: dict[Writable, str] = {
    "tf1": """
        import keras
        from albert_tf import {ours}

        model = {ours}.from_pretrained(".")
        print(model({{"input_ids": keras.ops.array({ids})}}))
    """,
    "huggingface": """
        import torch
        from transformers import AutoModelFor{theirs}

        model = AutoModelFor{theirs}.from_pretrained(".")
        print(model(torch.tensor({ids})))
    """,
    "keras": """
        import keras
        from albert_tf import {ours}  # so that Keras knows the class

        model = keras.models.load_model("model.keras")
        print(model({{"input_ids": keras.ops.array({ids})}}))
    """,
    "kerashub": """
        import keras_hub, numpy as np

        ids = np.array({ids})
        inputs = {{"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}}
        print(keras_hub.models.AlbertTextClassifier.from_preset("./", preprocessor=None)(inputs))
    """,
}

_TEXT_PIPELINE = """
    from transformers import pipeline

    classify = pipeline("text-classification", ".", top_k=None)
    print(classify(["The captain sailed past the lighthouse."]))
"""
# Of fine-tuned models with a vocabulary, from text.
_FROM_TEXT: dict[tuple[Writable, Use], str] = {
    ("huggingface", CLASSES): _TEXT_PIPELINE,
    ("huggingface", LABEL_SETS): _TEXT_PIPELINE,
    ("huggingface", NUMBERS): _TEXT_PIPELINE,
    ("huggingface", WORD_CLASSES): """
        from transformers import pipeline

        label = pipeline("token-classification", ".")
        print(label(["The captain sailed past the lighthouse."]))
    """,
    ("huggingface", ANSWERS): """
        import torch
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer

        tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForQuestionAnswering.from_pretrained(".")
        inputs = tokenizer("Who saw the lighthouse?", "The captain saw the lighthouse.", return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        begin, end = outputs.start_logits.argmax(), outputs.end_logits.argmax()
        print(tokenizer.decode(inputs["input_ids"][0, begin : end + 1]))
    """,
    **dict.fromkeys(
        [("kerashub", CLASSES), ("kerashub", NUMBERS)],
        """
        import keras_hub

        model = keras_hub.models.AlbertTextClassifier.from_preset("./")
        print(model.predict(["the captain sailed past the lighthouse."]))
        """,
    ),
}


def example_for(stored: StoredModel, to: Writable) -> str:
    """Python that runs a model in a format, from text where the format's library takes text."""
    if stored.head is None and stored.sentence_vectors and stored.vocabulary and to == "huggingface":
        return textwrap.dedent(_SENTENCES)
    if stored.head is None:
        return textwrap.dedent(_PRETRAINED[to])
    kind = kinds_of(stored.head)[0]
    if kind.use and to != "keras":
        kind = first_kind(kind.use)  # as which other formats hold it
    vocabulary = stored.vocabulary
    has_tokenizer = vocabulary and (to != "kerashub" or vocabulary.kind == "sentencepiece")
    if has_tokenizer and kind.use and (to, kind.use) in _FROM_TEXT:
        return textwrap.dedent(_FROM_TEXT[to, kind.use])
    ids = [[2, 13, 1, 9, 3]]
    return textwrap.dedent(_FINETUNED[to]).format(
        ours=kind.model.__name__,
        theirs=kind.use.architecture if kind.use else "",
        ids=[ids] if kind.model.input_rank == 3 else ids,
    )
