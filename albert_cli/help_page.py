"""How --help looks: the flags of a long command in groups, the common ones first."""

from collections.abc import Iterable, Iterator, Mapping

from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel, InlineText
from rich.console import Console, ConsoleOptions

_FEW = 16  # a command with at most this many flags needs no groups
_OTHER = "Other"
# A flag means the same in every command, so one table groups them all. Within a group, this is the order.
_GROUPS: Mapping[str, str] = {
    "Common": "task scale input_file output_file output_prefix data_dir train_file dev_file test_file "
    "albert_config_file init_checkpoint model_dir output_dir output do_train do_eval do_predict eval_file "
    "old_eval_file heldout_file spm_model_file",
    "Data": "phase input_weights input_exponent input_format language text_field column_names "
    "label_separator label_order vocab_file do_lower_case vocab_size extend max_seq_length "
    "max_predictions_per_seq masking sentence_objective dupe_factor masked_lm_prob ngram "
    "favor_shorter_ngram do_whole_word_mask word_boundaries short_seq_prob num_shards random_seed "
    "drop_duplicates overwrite strict glue_dir squad_dir race_dir doc_stride max_query_length "
    "max_qa_length high_only middle_only pad_to_max_length cache_dir",
    "Model": "dropout classifier_dropout freeze_encoder lora_rank init_adapters init_optimizer "
    "init_from_group0 resize_positions pooling vector_size normalize",
    "Optimization": "num_train_steps num_train_epochs train_batch_size learning_rate num_warmup_steps "
    "num_decay_steps start_warmup_step optimizer poly_power layer_decay ema_decay class_weights seed seeds "
    "restarts search_steps temperature symmetric dropout_pairs early_stopping_patience spike_factor "
    "spike_intervals max_rollbacks",
    "Evaluation": "eval_batch_size max_eval_steps max_answer_length n_best_size start_n_top end_n_top "
    "speed_sizes speed_workers",
    "Devices and memory": "mixed_precision gradient_accumulation_steps remat backend num_devices strategy tpu "
    "coordinator_address num_processes process_id deterministic_ops jit_compile scan_layers workers cluster "
    "runner pipeline_options",
    "Logging and checkpoints": "log_steps log_to save_checkpoints_steps keep_checkpoint_max iterations_per_loop",
}
_PLACES = {
    name: (title, place) for title, names in _GROUPS.items() for place, name in enumerate(names.split())
}


class HelpPage(DefaultFormatter):
    """Prints the panels of a command's --help."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if panel.format == "command":
            super().__call__(console, options, panel)
            return
        for title, members in grouped_flags(panel):
            super().__call__(console, options, panel.copy(title=title, entries=members))


def grouped_flags(panel: HelpPanel) -> Iterable[tuple[str, list[HelpEntry]]]:
    """Titles and flags of a command's groups; a short command has one."""
    entries = [_tidy(entry) for entry in panel.entries]
    return _grouped(entries) if len(entries) > _FEW else [(str(panel.title), entries)]


def _grouped(entries: list[HelpEntry]) -> Iterator[tuple[str, list[HelpEntry]]]:
    """Titles and flags of the groups that are not empty."""
    place = {id(entry): _PLACES.get(_name(entry), (_OTHER, 0)) for entry in entries}
    for title in (*_GROUPS, _OTHER):
        members = [entry for entry in entries if place[id(entry)][0] == title]
        if members:
            yield title, sorted(members, key=lambda entry: place[id(entry)][1])


def _name(entry: HelpEntry) -> str:
    return (entry.names or ("",))[0].removeprefix("--")


def _tidy(entry: HelpEntry) -> HelpEntry:
    """A flag's text as sentences on one line, without a default that means nothing to users."""
    text = " ".join(
        str(getattr(entry.description, "primary_renderable", None) or entry.description or "").split()
    )
    return entry.copy(
        description=InlineText.from_format(text[:1].upper() + text[1:], format="plaintext"),
        negative_names=tuple(name for name in entry.negative_names if not name.startswith("--empty-")),
        default=None if entry.default in ("False", "()", '""') else entry.default,
    )
