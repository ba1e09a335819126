import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.open_model import open_model
from albert_tf.config import AlbertConfig
from albert_tf.conversion.verification import random_inputs
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.processes import needs_transformers, run_python
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    SIZES,
    assert_same_weights,
    random_stored,
    random_weights,
)

CONFIG = CONFIGS["two blocks"]


@pytest.fixture
def directory(tmp_path) -> Path:
    folder = tmp_path / "hf"
    folder.mkdir()
    write_huggingface(random_stored(CONFIG), folder)
    return folder


def tensors(directory: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(directory / "model.safetensors")


def edit_config(directory: Path, **changes) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_tied_weights_are_stored_once(directory):
    assert not any("decoder" in name for name in tensors(directory))
    size = sum(array.nbytes for array in tensors(directory).values())
    assert size == 4 * sum(array.size for array in random_weights(CONFIG).values())


def test_shards(directory):
    arrays = tensors(directory)
    (directory / "model.safetensors").unlink()
    names = sorted(arrays)
    files = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        shard = {name: arrays[name] for name in names if files[name] == file}
        safetensors.numpy.save_file(shard, directory / file)
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    assert_same_weights(open_model(directory).weights, random_weights(CONFIG))
    for odd in (
        "../elsewhere.safetensors",
        "gone.safetensors",
        7,
        ["model-00001-of-00002.safetensors"],
        None,
    ):
        index.write_text(json.dumps({"weight_map": {**files, names[0]: odd}}))
        with pytest.raises(InputError, match="model.safetensors.index.json (names|must)"):
            open_model(directory)


def test_the_model_without_heads_has_no_prefix(directory):
    arrays = {
        name.removeprefix("albert."): array for name, array in tensors(directory).items() if "albert." in name
    }
    safetensors.numpy.save_file(arrays, directory / "model.safetensors")
    stored = open_model(directory)
    assert stored.missing == ("masked_lm", "sentence_order")
    assert_same_weights(stored.weights, random_weights(CONFIG, "masked_lm", "sentence_order"))


def test_copies_in_files_of_older_versions(directory):
    arrays = tensors(directory)
    words = arrays["albert.embeddings.word_embeddings.weight"]
    arrays["albert.embeddings.position_ids"] = np.arange(16)[None]
    arrays["predictions.decoder.weight"] = words
    arrays["predictions.decoder.bias"] = arrays["predictions.bias"]
    safetensors.numpy.save_file(arrays, directory / "model.safetensors")
    assert_same_weights(open_model(directory).weights, random_weights(CONFIG))
    arrays["predictions.decoder.weight"] = words + 1
    safetensors.numpy.save_file(arrays, directory / "model.safetensors")
    with pytest.raises(InputError, match="must equal .*, to which ALBERT ties it"):
        open_model(directory)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_written_and_widened(tmp_path, dtype):
    notes = write_huggingface(random_stored(CONFIG), tmp_path, dtype)
    assert notes[0] == f"the weights are rounded to {dtype}"
    assert {array.dtype for array in tensors(tmp_path).values()} == {np.dtype(dtype)}
    expected = {name: w.astype(dtype).astype("float32") for name, w in random_weights(CONFIG).items()}
    assert_same_weights(open_model(tmp_path).weights, expected)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("gelu", "gelu_erf"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_reads_the_configuration(directory, theirs, ours):
    edit_config(directory, hidden_act=theirs, layer_norm_eps=1e-6, hidden_dropout_prob=0.2)
    config = open_model(directory).config
    assert (config.hidden_act, config.layer_norm_epsilon, config.hidden_dropout_prob) == (ours, 1e-6, 0.2)


def test_what_a_configuration_leaves_out(tmp_path):
    """The defaults are those of transformers' AlbertConfig, whose sizes are xxlarge's."""
    write_huggingface(random_stored(CONFIGS["one group"]), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    assert open_model(tmp_path).config == CONFIGS["one group"]
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError) as caught:
        open_model(tmp_path)
    for shape in ("[30000, 128]", "[512, 128]", "[2, 128]", "[4096, 128]"):
        assert f"should have {shape}" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "silu"}, "`hidden_act` must be one of gelu_new"),
        ({"model_type": "bert"}, "must describe an ALBERT. Received model_type 'bert'"),
        ({"position_embedding_type": "relative_key"}, "only absolute position embeddings"),
        ({"hidden_size": 25}, "must be divisible by"),
        ({"vocab_size": 60}, r"word_embeddings.weight has the shape \[50, 10\] and should have \[60, 10\]"),
        ({"num_hidden_groups": 3}, "32 names missing: albert.encoder.albert_layer_groups.2"),
    ],
)
def test_refuses_configurations(directory, changes, message):
    edit_config(directory, **changes)
    with pytest.raises(InputError, match=message):
        open_model(directory)


def test_damaged_safetensors(directory):
    path = directory / "model.safetensors"
    whole = path.read_bytes()
    lies = whole.replace(b'"shape":[24]', b'"shape":[99]', 1)
    huge = (1 << 60).to_bytes(8, "little") + whole[8:]
    for content in (lies, huge):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a complete safetensors file"):
            open_model(directory)
    path.unlink()
    with pytest.raises(InputError, match="holds neither model.safetensors nor pytorch_model.bin"):
        open_model(directory)


class Canary:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "the pickle ran"))


def test_pickles_do_not_run(directory, tmp_path):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    canary = tmp_path / "canary"
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Canary(canary)}))
    with pytest.raises(InputError, match="is not a file of tensors that can be read safely"):
        open_model(directory)
    assert not canary.exists()
    pickle.loads((directory / "pytorch_model.bin").read_bytes())  # it would have run
    assert canary.exists()


def test_pytorch_model(directory):
    torch = pytest.importorskip("torch", reason="needs the extra [torch]")
    arrays = tensors(directory)
    (directory / "model.safetensors").unlink()
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save(state, directory / "pytorch_model.bin")
    assert_same_weights(open_model(directory).weights, random_weights(CONFIG))
    for other in ([1, 2], {1: torch.zeros(1)}):
        torch.save(other, directory / "pytorch_model.bin")
        with pytest.raises(InputError, match="must hold names and tensors, and nothing else"):
            open_model(directory)


def test_expanded_tensors(directory):
    torch = pytest.importorskip("torch", reason="needs the extra [torch]")
    arrays = tensors(directory)
    (directory / "model.safetensors").unlink()
    state = {name: torch.zeros(1).expand(1000 * array.size) for name, array in arrays.items()}
    torch.save(state, directory / "pytorch_model.bin")
    with pytest.raises(InputError, match="must hold the values of its tensors"):
        open_model(directory)


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
def test_parameters_and_tensors_that_numpy_cannot_hold(directory):
    torch = pytest.importorskip("torch", reason="needs the extra [torch]")
    arrays = tensors(directory)
    (directory / "model.safetensors").unlink()

    def save(make) -> None:
        state = {name: make(torch.from_numpy(array)) for name, array in arrays.items()}
        torch.save(state, directory / "pytorch_model.bin")

    save(torch.nn.Parameter)  # as from dict(model.named_parameters())
    assert_same_weights(open_model(directory).weights, random_weights(CONFIG))
    for make in (lambda tensor: tensor.to(torch.float8_e4m3fn), torch.Tensor.to_sparse):
        save(make)
        with pytest.raises(InputError, match=r"pytorch_model.bin must hold float32, .* another kind: .+"):
            open_model(directory)


def test_a_named_file_is_the_one_that_is_read(directory):
    torch = pytest.importorskip("torch", reason="needs the extra [torch]")
    state = {name: torch.from_numpy(array) + 1 for name, array in tensors(directory).items()}
    torch.save(state, directory / "pytorch_model.bin")
    expected = {name: array + 1 for name, array in random_weights(CONFIG).items()}
    assert_same_weights(open_model(directory / "pytorch_model.bin").weights, expected)
    for path in (directory, directory / "model.safetensors"):
        assert_same_weights(open_model(path).weights, random_weights(CONFIG))


def test_zip_bombs_are_not_read(directory):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    (directory / "model.safetensors").unlink()
    with zipfile.ZipFile(directory / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10 << 20))
    with pytest.raises(InputError, match="unpacks to 10,485,760 bytes, more than its size"):
        open_model(directory)


def test_pytorch_model_without_pytorch(directory, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pip install '.\[torch\]'"):
        open_model(directory)


RANDOM_CHECKPOINT = """
    import json, sys
    import numpy as np, torch, transformers
    transformers.utils.logging.disable_progress_bar()
    batch, fields = np.load("batch.npz"), json.loads(sys.argv[1])
    torch.manual_seed(0)
    model = transformers.AlbertForPreTraining(transformers.AlbertConfig(**fields)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_scale = "LayerNorm.weight" in name or "layer_norm.weight" in name
            parameter.copy_(float(sys.argv[2]) * torch.randn_like(parameter) + (1.0 if is_scale else 0.0))
        mapping = model.albert.encoder.embedding_hidden_mapping_in
        if fields["embedding_size"] == fields["hidden_size"]:
            torch.nn.init.eye_(mapping.weight), torch.nn.init.zeros_(mapping.bias)
        ids, mask, types, positions = (torch.tensor(batch[name]).long() for name in (
            "input_ids", "input_mask", "token_type_ids", "masked_lm_positions"))
        names = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        outputs = model(**names)
        model.set_attn_implementation("eager")  # the others return no attention
        base = model.albert(**names, output_attentions=True)
    model.save_pretrained("model")
    np.savez("outputs.npz", sequence_output=base.last_hidden_state, pooled_output=base.pooler_output,
             sentence_order_logits=outputs.sop_logits, attention_maps=torch.stack(base.attentions),
             masked_lm_logits=torch.take_along_dim(outputs.prediction_logits, positions[..., None], 1))
"""


def largest_difference(fields: dict, config: AlbertConfig, folder: Path, scale: float) -> float:
    """The largest difference between Hugging Face's outputs and ours, for a random checkpoint that it wrote."""
    batch = random_inputs(config, seed=2)
    np.savez(folder / "batch.npz", **batch)
    run_python(RANDOM_CHECKPOINT, folder, json.dumps(fields), str(scale))
    loaded = load_pretrained(folder / "model")
    assert loaded.missing == ()
    assert loaded.config == config
    outputs = {**loaded.encoder(batch), **loaded.model(batch)}
    outputs["attention_maps"] = np.stack(loaded.encoder.attention_maps(batch))
    with np.load(folder / "outputs.npz") as expected:
        assert set(expected) == set(outputs)
        return max(float(np.abs(outputs[name] - expected[name]).max()) for name in expected)


def their_fields(config: AlbertConfig) -> dict:
    fields = config.to_dict()
    fields["layer_norm_eps"] = fields.pop("layer_norm_epsilon")
    fields["hidden_act"] = {"gelu": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}[config.hidden_act]
    del fields["parameter_sharing"]
    return fields


@pytest.mark.very_slow
@needs_transformers
@pytest.mark.parametrize("name", CONFIGS)
def test_equals_hugging_face(name, tmp_path):
    config = CONFIGS[name]
    assert largest_difference(their_fields(config), config, tmp_path, scale=0.2) < 1e-5


TOKENIZE = """
    import json, sys, transformers
    lines = json.load(open("lines.json"))
    tokenizer = transformers.AutoTokenizer.from_pretrained("model")
    print(json.dumps([type(tokenizer).__name__, tokenizer(lines, add_special_tokens=False)["input_ids"]]))
"""


@pytest.mark.very_slow
@needs_transformers
def test_tokenizers_of_hugging_face_load(pretraining_files, tmp_path):
    from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
    from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

    lines = ["the old house, and the sea", "He said: was it late?"]
    words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nold\nhouse\nsea\n,\nand\n##s\n"
    (tmp_path / "vocab.txt").write_text(words)
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    for vocabulary, ours in (
        (
            Vocabulary("sentencepiece", pretraining_files.spm_model_file.read_bytes()),
            AlbertTokenizer(pretraining_files.spm_model_file),
        ),
        (Vocabulary("wordpiece", words.encode()), WordPieceTokenizer(tmp_path / "vocab.txt")),
    ):
        (tmp_path / "model").mkdir(exist_ok=True)
        for file in (tmp_path / "model").iterdir():
            file.unlink()
        write_huggingface(random_stored(CONFIG, vocabulary=vocabulary), tmp_path / "model")
        _, ids = json.loads(run_python(TOKENIZE, tmp_path).splitlines()[-1])
        assert ids == [ours.encode(line) for line in lines]
