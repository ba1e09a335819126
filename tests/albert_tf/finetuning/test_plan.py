"""The paper's Table 14, and plans completed from it."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.plan import choose_length, find_recipe
from albert_tf.tasks.benchmarks.recipes import RECIPES
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.task import BENCHMARKS, find_task
from data_prep.errors import InputError
from tests.albert_tf.finetuning.plans import plan_of

# Learning rate, batch, dropout of ALBERT and of the classifier, steps, warm-up, length; copied from the paper.
TABLE_14 = """
cola      1.00E-05  16  0    0.1  5336   320   512
sts-b     2.00E-05  16  0    0.1  3598   214   512
sst-2     1.00E-05  32  0    0.1  20935  1256  512
mnli      3.00E-05  128 0    0.1  10000  1000  512
qnli      1.00E-05  32  0    0.1  33112  1986  512
qqp       5.00E-05  128 0.1  0.1  14000  1000  512
rte       3.00E-05  32  0.1  0.1  800    200   512
mrpc      2.00E-05  32  0    0.1  800    200   512
wnli      2.00E-05  16  0.1  0.1  2000   250   512
squad1.1  5.00E-05  48  0    0.1  3649   365   384
squad2.0  3.00E-05  48  0    0.1  8144   814   512
race      2.00E-05  32  0.1  0.1  12000  1000  512
"""


def settings(task: str, **changes) -> FinetuningFlags:
    return FinetuningFlags(task, "run", "data", do_train=True, init_checkpoint="base", **changes)


@pytest.mark.parametrize("line", TABLE_14.strip().splitlines(), ids=lambda line: line.split()[0])
def test_table_14(line):
    task, *numbers = line.split()
    run = plan_of(task)
    found = (
        run.learning_rate,
        run.train_batch_size,
        run.dropout,
        run.classifier_dropout,
        run.num_train_steps,
        run.num_warmup_steps,
        run.max_seq_length,
    )
    assert found == tuple(map(float, numbers))


def test_every_task_of_the_paper_has_a_recipe():
    assert set(RECIPES) == BENCHMARKS.keys() - {"ax"}


def test_race_with_a_checkpoint_that_was_pretrained_without_dropout():
    without_dropout = AlbertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    v2 = plan_of("race", without_dropout)
    assert (v2.learning_rate, v2.dropout, v2.num_train_steps) == (1e-5, 0.0, 12000)
    own = plan_of("multiple-choice", without_dropout)
    assert (own.learning_rate, own.dropout) == (1e-5, 0.0)
    assert plan_of("multiple-choice").learning_rate == 2e-5
    for task in RECIPES.keys() - {"race"}:  # their authors took the recipe of v1
        assert find_recipe(find_task(task), without_dropout) == RECIPES[task]


def test_narrow_encoders_learn_at_ten_times_the_rate():
    narrow, base = AlbertConfig(hidden_size=256, num_attention_heads=4), AlbertConfig()
    for task in ("rte", "classification", "question-answering"):
        rates = [plan_of(task, config).learning_rate for config in (narrow, base)]
        assert rates[0] == 10 * rates[1], task
    assert plan_of("rte", narrow, learning_rate=1e-5).learning_rate == 1e-5


def test_no_batch_is_larger_than_the_data():
    assert plan_of("classification", rows=5).train_batch_size == 5
    assert plan_of("classification", rows=4, train_batch_size=100_000).train_batch_size == 4
    run = plan_of("rte", rows=4, train_batch_size=100_000, gradient_accumulation_steps=3)
    assert run.train_batch_size == 6  # divisible by the micro-batches
    assert plan_of("rte", rows=30, replicas=4).train_batch_size == 32


def test_flags_override_the_recipe():
    given = {"learning_rate": 1e-4, "train_batch_size": 8, "dropout": 0.0, "num_train_steps": 400}
    given |= {"max_seq_length": 100, "classifier_dropout": 0.0, "log_steps": 7, "save_checkpoints_steps": 9}
    run = plan_of("rte", **given)
    assert {name: getattr(run, name) for name in given} == given
    assert run.num_warmup_steps == 100  # the recipe's quarter
    assert plan_of("rte", **given, num_warmup_steps=0).num_warmup_steps == 0


def test_epochs():
    assert plan_of("rte", rows=1000, num_train_epochs=2, train_batch_size=10).num_train_steps == 200
    mine = plan_of("classification", rows=320)
    assert (mine.num_train_steps, mine.num_warmup_steps) == (30, 3)  # 3 epochs of batches of 32
    assert plan_of("classification", rows=1).num_train_steps == 3
    assert plan_of("classification", rows=1, num_train_epochs=0.1).num_train_steps == 1


def test_an_epoch_includes_its_last_smaller_batch():
    assert plan_of("classification", rows=33, num_train_epochs=3).num_train_steps == 6


def test_steps_between_evaluations_and_logged_steps():
    assert (plan_of("rte").save_checkpoints_steps, plan_of("rte").log_steps) == (40, 8)
    assert (plan_of("qnli").save_checkpoints_steps, plan_of("qnli").log_steps) == (1000, 100)
    assert plan_of("rte", num_train_steps=39).save_checkpoints_steps == 2  # 20 evaluations at most
    short = plan_of("rte", num_train_steps=3)
    assert (short.save_checkpoints_steps, short.log_steps) == (1, 1)


def test_a_checkpoint_for_short_sequences():
    def length(**flags):
        short = AlbertConfig(max_position_embeddings=128)
        return choose_length(settings("rte", **flags), find_task("rte"), short)

    assert length() == 128
    with pytest.raises(
        InputError, match="must not exceed the checkpoint's position table, 128. Received 129"
    ):
        length(max_seq_length=129)
    assert length(max_seq_length=129, resize_positions=True) == 129
    assert length(resize_positions=True) == 512


@pytest.mark.parametrize(
    ("task", "dropout"),
    [("rte", "0.1 and 0.1 in the head"), ("squad2.0", "0 and 0.1 in the head"), ("squad1.1", "0")],
)
def test_the_printed_line_names_the_dropout_of_heads_that_have_it(task, dropout):
    run = plan_of(task)
    assert f", dropout {dropout}, {run.max_seq_length} tokens" in str(run)


def test_column_names():
    columns = settings("classification", column_names="text_a=the review,label=stars").columns
    assert (columns.text_a, columns.label, columns.text_b) == ("the review", "stars", None)
    assert settings("rte").columns == Columns()
    assert settings("rte", label_separator="|").columns == Columns(label_separator="|")


@pytest.mark.parametrize(("file", "flag"), [("dev_file", "do_eval"), ("test_file", "do_predict")])
def test_a_file_that_no_step_reads_is_refused(file, flag):
    settings("classification", **{file: "other.csv", flag: True})
    with pytest.raises(InputError, match=f"--{file} needs --{flag}. Received other.csv without it; add"):
        settings("classification", **{file: "other.csv"})
