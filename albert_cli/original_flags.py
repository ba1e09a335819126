"""What to use in place of the flags of google-research/albert that have another name here, or none.

docs/fidelity.md lists them with their reasons; all others are the same.
"""

_TPU = "--tpu names a TPU or its grpc:// address"
_TPU_FLAGS = {
    "use_tpu": "leave it out: a TPU is used if --tpu names one",
    **dict.fromkeys(("tpu_name", "tpu_zone", "gcp_project", "master"), _TPU),
    "num_tpu_cores": "leave it out: all cores are used",
}
_CACHE = "--cache_dir keeps what is computed from the files"
_BEST_IS_KEPT = "the model with the best result on the dev set is kept"

# Command -> flag -> what to do, as the rest of a sentence.
INSTEAD: dict[str, dict[str, str]] = {
    "prepare": {
        "input_file_mode": "leave it out: text is UTF-8",
        "do_permutation": "leave it out: ALBERT predicts masked words, not a permutation",
        "random_next_sentence": "leave it out for sentence order, as with false; true is --sentence_objective=nsp",
    },
    "pretrain": {
        "masked_lm_budget": "use albert prepare --masking=dynamic, whose masks are drawn during training",
        **_TPU_FLAGS,
    },
    "finetune": {
        "task_name": "use --task",
        "eval_file": "use --dev_file",
        "predict_file": "use --dev_file for a file with answers and --test_file for one without",
        "spm_model_file": "leave it out if the checkpoint has the vocabulary, or give the .model as --vocab_file",
        "cached_dir": "use --cache_dir",
        "train_feature_file": _CACHE,
        "predict_feature_file": _CACHE,
        "predict_feature_left_file": _CACHE,
        "albert_hub_module_handle": "use --init_checkpoint, which also reads a TF-Hub module",
        "dropout_prob": "use --dropout",
        "predict_batch_size": "use --eval_batch_size",
        "train_step": "use --num_train_steps",
        "warmup_step": "use --num_warmup_steps",
        "warmup_proportion": "use --num_warmup_steps",
        "keep_checkpoint_max": f"leave it out: {_BEST_IS_KEPT}",
        "num_keep_checkpoint": f"leave it out: {_BEST_IS_KEPT}",
        "use_einsum": "leave it out: it does not change the result",
        "export_dir": "use albert export",
        "threshold_to_export": "use albert export, once --do_eval shows that the model is good enough",
        **_TPU_FLAGS,
    },
    "export": {
        "albert_directory": "use --model_dir",
        "checkpoint_name": "name a checkpoint with --model_dir",
        "export_path": "use --output",
        "do_lower_case": "leave it out: the vocabulary's files say whether it is cased",
        "use_einsum": "leave it out: it does not change the result",
    },
}
