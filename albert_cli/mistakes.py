"""One-sentence descriptions of mistakes on a command line."""

import difflib
from collections.abc import Sequence

import cyclopts
from cyclopts import Parameter
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from albert_cli.original_flags import INSTEAD

_ALIKE = 0.6  # flags whose names are less similar are not suggested


def describe_mistake(error: Exception, words: Sequence[str], flags: Parameter, name: str) -> str:
    """The message of an error. An unknown flag is reported before all other mistakes.

    Args:
      error: the user's mistake, raised by cyclopts or, with its final message, by a command.
      words: the command line after the program's name.
      flags: the style of the flags.
      name: how the program is called.
    """
    if not isinstance(error, cyclopts.CycloptsError):
        return str(error)
    if flag := _unknown_flag(error, flags):
        return _describe_unknown(flag, error, flags, name)
    if isinstance(error, cyclopts.MissingArgumentError) and error.argument:
        return _describe_missing(error.argument, words)
    if isinstance(error, UnusedCliTokensError):
        return (
            "A value with spaces needs quotation marks, and several files are one value, separated by commas. "
            f"These words belong to no flag: {', '.join(error.unused_tokens or ())}."
        )
    return str(error)


def _known_flags(error: cyclopts.CycloptsError, flags: Parameter) -> list[str]:
    if isinstance(error, UnknownOptionError):
        arguments = error.argument_collection
    elif error.app and error.command_chain is not None:
        arguments = error.app.assemble_argument_collection(default_parameter=flags)
    else:
        return []
    return [name for argument in arguments for name in argument.names if name.startswith("--")]


def _unknown_flag(error: cyclopts.CycloptsError, flags: Parameter) -> str | None:
    """The first flag on the command line that the command does not have."""
    if isinstance(error, UnknownOptionError):
        return (error.token.keyword or error.token.value).partition("=")[0]
    if not isinstance(error, cyclopts.MissingArgumentError | cyclopts.CoercionError):
        return None
    known = _known_flags(error, flags)
    written = [word.partition("=")[0] for word in error.unused_tokens or () if word.startswith("--")]
    return next((flag for flag in written if known and flag not in known), None)


def _describe_unknown(flag: str, error: cyclopts.CycloptsError, flags: Parameter, program: str) -> str:
    command = " ".join(error.command_chain or ())
    original, name = INSTEAD.get(command, {}), flag.removeprefix("--")
    if advice := original.get(name) or original.get(
        name.removeprefix("no")
    ):  # --nouse_tpu is --use_tpu=false
        return f"{flag} is a flag of google-research/albert. Here, {advice}."
    nearest = difflib.get_close_matches(flag, _known_flags(error, flags), n=1, cutoff=_ALIKE)
    page = f"`{program} {command} --help`" if command else "--help"
    hint = f"Did you mean {nearest[0]}?" if nearest else f"{page} lists the flags."
    return f"Unknown option: {flag}. {hint}"


def _describe_missing(argument: cyclopts.Argument, words: Sequence[str]) -> str:
    choices = argument.get_choices()
    values = f": {', '.join(choices)}" if choices else ""
    if argument.name in words:
        return f"{argument.name} needs a value{values or f', as in {argument.name}=VALUE'}."
    if argument.name.startswith("--"):
        return f"{argument.name} is required{values}."
    return f"{argument.name} is required, after the command and before the flags."
