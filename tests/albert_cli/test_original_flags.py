"""Every flag of google-research/albert is a flag here, or the program says what to do instead."""

import re
from pathlib import Path

import pytest

from albert_cli import cli, program
from albert_cli.original_flags import INSTEAD

TPU = "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores iterations_per_loop"
MODEL = "albert_config_file vocab_file spm_model_file do_lower_case init_checkpoint"
TUNING = f"""{MODEL} {TPU} albert_hub_module_handle output_dir max_seq_length do_train do_predict train_batch_size
    predict_batch_size learning_rate save_checkpoints_steps"""
SQUAD = f"""{TUNING} train_file predict_file train_feature_file predict_feature_file predict_feature_left_file
    doc_stride max_query_length num_train_epochs warmup_proportion n_best_size max_answer_length"""
# The flags of the original's programs, at its last revision (b772393), and the command that replaces each program.
ORIGINAL = {
    "create_pretraining_data.py": (
        "prepare",
        """input_file output_file vocab_file spm_model_file input_file_mode do_lower_case do_whole_word_mask
        do_permutation favor_shorter_ngram random_next_sentence max_seq_length ngram max_predictions_per_seq
        random_seed dupe_factor masked_lm_prob short_seq_prob""",
    ),
    "run_pretraining.py": (
        "pretrain",
        f"""{TPU} albert_config_file input_file output_dir init_checkpoint max_seq_length
        max_predictions_per_seq do_train do_eval train_batch_size eval_batch_size optimizer learning_rate
        poly_power num_train_steps num_warmup_steps start_warmup_step save_checkpoints_steps keep_checkpoint_max
        max_eval_steps init_from_group0 masked_lm_budget""",
    ),
    "run_classifier.py": (
        "finetune",
        f"""{TUNING} data_dir task_name cached_dir do_eval eval_batch_size train_step warmup_step
        keep_checkpoint_max optimizer export_dir threshold_to_export""",
    ),
    "run_race.py": (
        "finetune",
        f"""{TUNING} data_dir task_name train_file eval_file predict_file dropout_prob max_qa_length
        num_keep_checkpoint high_only middle_only do_eval eval_batch_size train_step warmup_step""",
    ),
    "run_squad_v1.py": ("finetune", f"{SQUAD} use_einsum export_dir"),
    "run_squad_v2.py": ("finetune", f"{SQUAD} start_n_top end_n_top dropout_prob"),
    "export_checkpoints.py": ("export", "albert_directory checkpoint_name do_lower_case export_path"),
    "export_to_tfhub.py": ("export", "albert_directory checkpoint_name do_lower_case use_einsum export_path"),
}
PAGE = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text(encoding="utf-8")


def flags_of(command: str) -> set[str]:
    arguments = cli.app[command].assemble_argument_collection(default_parameter=program.FLAGS)
    return {name.removeprefix("--") for argument in arguments for name in argument.names}


@pytest.mark.parametrize("name", ORIGINAL)
def test_every_flag_is_the_same_or_has_advice(name):
    command, flags = ORIGINAL[name]
    known = flags_of(command)
    assert [flag for flag in flags.split() if (flag in known) == (flag in INSTEAD[command])] == []


@pytest.mark.parametrize("command", INSTEAD)
def test_advice_is_on_flags_of_the_original_and_names_flags_that_exist(command):
    originals = {flag for owner, flags in ORIGINAL.values() if owner == command for flag in flags.split()}
    assert set(INSTEAD[command]) <= originals
    known = flags_of(command)
    for flag, advice in INSTEAD[command].items():
        of_another_command = re.findall(r"albert (\w+) --(\w+)", advice)
        assert all(named in flags_of(other) for other, named in of_another_command), flag
        assert set(re.findall(r"--(\w+)", advice)) - {named for _, named in of_another_command} <= known, flag


@pytest.mark.parametrize("flag", ["--random_next_sentence=False", "--norandom_next_sentence"])
def test_a_flag_that_asks_for_the_default(flag, capsys):
    assert cli.main(["prepare", flag, "--input_file=a.txt", "--output_file=b"]) == 2
    assert "leave it out for sentence order, as with false" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", INSTEAD)
def test_the_page_of_differences_lists_them(command):
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `albert {command}` |")]
    listed = {flag for row in rows for flag in re.findall(r"`--(\w+)`", row.split("|")[2])}
    assert listed == set(INSTEAD[command])
