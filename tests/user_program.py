"""A program as a user writes it: mypy checks it against the installed package (tests/test_package.py)."""

from typing import assert_type

from albert_tf import (
    AlbertConfig,
    AlbertEncoder,
    AlbertTokenizer,
    InputError,
    Pretrained,
    TextClassifier,
    convert,
    count_parameters,
    export_model,
    load_pretrained,
)

config = AlbertConfig.from_preset("albert_base_v2")
assert_type(config, AlbertConfig)
assert_type(count_parameters(config).encoder, int)
AlbertConfig(hidden_size="768")  # type: ignore[arg-type]  # mypy must refuse a string, or it sees no types


def encoder_of(source: str) -> AlbertEncoder:
    loaded = load_pretrained(source)
    assert_type(loaded, Pretrained)
    assert_type(loaded.missing, tuple[str, ...])
    return loaded.encoder


def ids_of(tokenizer: AlbertTokenizer, text: str) -> list[int]:
    return tokenizer.encode(text)


def publish(source: str) -> None:
    try:
        convert(source, "converted", "huggingface")
        assert_type(export_model(source, "exported", kind="fill-mask").notes, tuple[str, ...])
    except InputError as error:
        print(error)


classifier: type[TextClassifier] = TextClassifier
