"""Python for the README.md of a converted model, which runs in its folder."""

import textwrap

from albert_tf.checkpoints.names import Writable
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.tasks.task_models import TASK_MODELS

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
# For fine-tuned models with a vocabulary, from text.
_FROM_TEXT: dict[tuple[Writable, str], str] = {
    ("huggingface", "classification"): _TEXT_PIPELINE,
    ("huggingface", "multi_label_classification"): _TEXT_PIPELINE,
    ("huggingface", "regression"): _TEXT_PIPELINE,
    ("huggingface", "token_classification"): """
        from transformers import pipeline

        label = pipeline("token-classification", ".")
        print(label(["The captain sailed past the lighthouse."]))
    """,
    ("huggingface", "question_answering"): """
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
        [("kerashub", "classification"), ("kerashub", "regression")],
        """
        import keras_hub

        model = keras_hub.models.AlbertTextClassifier.from_preset("./")
        print(model.predict(["the captain sailed past the lighthouse."]))
        """,
    ),
}


def example_for(stored: StoredModel, to: Writable) -> str:
    """Python that runs a model in a format, from text where the format's library takes text."""
    if stored.head is None:
        return textwrap.dedent(_PRETRAINED[to])
    kind = stored.head.kinds[0]
    if kind == "ordinal_classification" and to != "keras":
        kind = "classification"  # other formats hold it as this
    vocabulary = stored.vocabulary
    has_tokenizer = vocabulary and (to != "kerashub" or vocabulary.kind == "sentencepiece")
    if has_tokenizer and (to, kind) in _FROM_TEXT:
        return textwrap.dedent(_FROM_TEXT[to, kind])
    sequence = ("classification", "multi_label_classification", "regression")
    theirs = dict.fromkeys(sequence, "SequenceClassification")
    ids = [[2, 13, 1, 9, 3]]
    return textwrap.dedent(_FINETUNED[to]).format(
        ours=TASK_MODELS[kind].__name__,
        theirs=theirs.get(kind, kind.title().replace("_", "")),
        ids=[ids] if kind == "multiple_choice" else ids,
    )
