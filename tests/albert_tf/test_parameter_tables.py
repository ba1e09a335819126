"""The models that `albert params` counts."""

from albert_tf.parameter_tables import counted_models

# What the paper prints 60M and 235M for.
ROUNDED = {60: 59, 235: 223}


def test_the_counts_are_the_papers():
    models = counted_models()
    assert [model.table for model in models] == [1] * 6 + [3] * 8 + [4] * 8
    for model in models:
        assert round(model.parameters / 1e6) == ROUNDED.get(model.millions, model.millions)
    # The exact counts of google-research/albert's checkpoints.
    assert [model.parameters for model in models[2:6]] == [11683584, 17683968, 58724864, 222595584]


def test_every_model_has_a_name():
    models = counted_models()
    assert [model.name for model in models[:3]] == ["BERT base", "BERT large", "ALBERT base"]
    assert models[6].name == "ALBERT base E=64, not shared"
    assert len({(model.table, model.name) for model in models}) == len(models)
