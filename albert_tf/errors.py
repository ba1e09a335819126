"""The one exception for what a user got wrong, as opposed to what we got wrong."""


class InputError(ValueError):
    """A mistake in the user's files, flags or configuration.

    The message is one sentence or two: the rule, what was received, what to do. Programs print it and
    exit with status 2; every other exception is a defect of this library and keeps its traceback.
    """
