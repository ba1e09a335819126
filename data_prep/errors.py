"""What is not a defect of this library: a user's mistake, and being told to stop."""


class InputError(ValueError):
    """A mistake in the user's files, flags or configuration.

    The message is one sentence or two: the rule, what was received, what to do. Programs print it and
    exit with status 2; every other exception is a defect of this library and keeps its traceback.
    """


class Preempted(Exception):  # noqa: N818 - nobody's error
    """The process was told to end by SIGTERM and has saved its state; programs exit with status 143."""
