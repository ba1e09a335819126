"""The modules that compute something, and the fast tests that must notice if they compute something else."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

_MODEL = ("model/test_encoder.py", "model/test_heads.py", "model/test_pretrainer.py")

_ALBERT_TF = {
    "config.py": ("test_config.py",),
    "tasks/texts/metrics.py": ("tasks/texts/test_text_metrics.py",),
    "tasks/spans/metrics.py": ("tasks/spans/test_squad_metrics.py",),
    "tasks/spans/answers.py": (
        "tasks/spans/test_answers.py",
        "tasks/benchmarks/test_ensemble.py",
    ),
    "tasks/heads.py": ("tasks/test_finetuning_heads.py",),
    "flops.py": ("test_flops.py",),
    "model/encoder.py": _MODEL,
    "model/lora.py": ("tasks/test_adapters.py",),
    "kernels/__init__.py": ("kernels/test_layer_loop.py", *_MODEL),
    "kernels/layers.py": ("kernels/test_layers.py", "kernels/test_layer_loop.py", "kernels/test_padding.py"),
    "kernels/formulas.py": ("kernels/test_formulas.py", *_MODEL),
    "model/heads.py": _MODEL,
    "model/layers.py": ("model/test_layers.py", *_MODEL),
    "kernels/padding.py": ("kernels/test_padding.py",),
    "model/pretrainer.py": ("model/test_pretrainer.py", "model/test_heads.py"),
    "tasks/features.py": ("tasks/test_features.py",),
    "tasks/spans/windows.py": ("tasks/spans/test_windows.py",),
    "optimizers/adamw.py": (
        "optimizers/test_optimizers.py",
        "training/test_optimizer_step.py",
        "finetuning/test_construction.py",
    ),
    "optimizers/lamb.py": ("optimizers/test_optimizers.py",),
    "optimizers/schedule.py": ("optimizers/test_optimizers.py",),
    "parameters.py": ("test_parameters.py",),
    "checkpoints/weights.py": ("checkpoints/test_names.py", "checkpoints/test_tf1.py"),
    "training/guard.py": ("training/test_guard.py",),
    "training/positions.py": ("training/test_positions.py",),
    "training/weights.py": ("training/test_weights.py",),
}

_DATA_PREP = {
    "examples/masking.py": ("examples/test_masking.py",),
    "examples/segments.py": ("examples/test_segments.py",),
    "reading/dynamic_masking.py": ("reading/test_dynamic_masking.py",),
    "reading/dynamic_pairs.py": ("reading/test_dynamic_pairs.py",),
    "reading/random_draws.py": ("reading/test_random_draws.py", "reading/test_dynamic_pairs.py"),
    "tokenizers/digit_comma.py": ("tokenizers/test_albert_tokenizer.py",),
    "tokenizers/normalization.py": ("tokenizers/test_albert_tokenizer.py",),
    "tokenizers/offsets.py": ("tokenizers/test_offsets.py", "tokenizers/test_albert_tokenizer.py"),
}

TARGETS: dict[str, tuple[str, ...]] = {
    f"{package}/{module}": tuple(f"tests/{package}/{test}" for test in tests)
    for package, modules in (("albert_tf", _ALBERT_TF), ("data_prep", _DATA_PREP))
    for module, tests in modules.items()
}
