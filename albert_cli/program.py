"""A command line as a program: the style of its flags, and an exit status for each way that it can end."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import cyclopts
from cyclopts import App, Parameter

from albert_cli.help_page import HelpPage
from albert_cli.mistakes import describe_mistake
from data_prep.console import open_console
from data_prep.errors import InputError, Preempted, system_fault
from data_prep.signals import signals_raise

# Flags have the original's names: --input_file, not --input-file; --nodo_train is absl's --do_train=false.
FLAGS = Parameter(name_transform=lambda name: name, negative_bool="no", show_env_var=False)
_LISTS = Parameter(consume_multiple=True, negative_iterable=())  # --shapes 1,16 8,128


def run(program: App, arguments: list[str] | None = None) -> int:
    """Runs a command line.

    Args:
      program: the commands.
      arguments: the words after the program's name. Default: the process's.

    Returns:
      The exit status: 2 for the user's mistakes and the system's faults, reported in one line; 130 for Ctrl-C; 143
      for SIGTERM, after which commands remove unfinished files.
    """
    _make_streams_usable()
    words = list(map(_with_home, sys.argv[1:] if arguments is None else arguments))
    console = open_console(stderr=True)

    def report(line: str, style: str) -> None:
        console.print(f"albert: {line}", style=style, markup=False, highlight=False, soft_wrap=True)

    try:
        with signals_raise(_STOPS), _output_may_close():
            program(words, exit_on_error=False, print_error=False, result_action="return_value")
    except (InputError, cyclopts.CycloptsError) as error:
        report(describe_mistake(error, words, FLAGS, program.name[0]), "bold red")
        return 2
    except KeyboardInterrupt:
        report("interrupted", "bold red")
        return 130
    except (Preempted, _Terminated) as stop:
        report(str(stop), "bold")
        return 128 + stop.number
    except Exception as error:
        fault = system_fault(error)
        if fault is None:
            raise
        report(f"The operating system refused an operation: {fault}.", "bold red")
        _drop_refused_output()
        return 2
    return 0


def _make_streams_usable() -> None:
    """Opens closed standard streams (`>&-`) on the null device; the others escape what their encoding lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _with_home(word: str) -> str:
    """Expands ~ in `--output=~/saved`; shells expand it only at the beginning of a word."""
    flag, _, value = word.partition("=")
    is_at_home = flag.startswith("--") and (value == "~" or value.startswith("~/"))
    return f"{flag}={Path.home()}{value[1:]}" if is_at_home else word


class _Terminated(BaseException):
    """The process received SIGTERM in a command that saves no state and removes its unfinished files."""

    number = signal.SIGTERM


_STOPS = {signal.SIGTERM: _Terminated, signal.SIGINT: KeyboardInterrupt}


@contextlib.contextmanager
def _output_may_close() -> Iterator[None]:
    """Ends the block quietly if the reader of standard output, such as `head`, closes the pipe."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_refused_output()


def _drop_refused_output() -> None:
    """Drops output that cannot be written, because the pipe is closed or the disk is full.

    Python flushes it at exit, which would fail again.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_with_settings(
    main: Callable[[Any], Any],
    settings_class: type,
    help_text: str | None,
    arguments: list[str] | None = None,
) -> int:
    """Runs `main` with settings from the command line.

    Args:
      main: takes the settings.
      settings_class: a dataclass; its fields become flags, those without a default required ones. A flag of a
        list takes all words up to the next flag, and may take none.
      help_text: what --help prints above the flags.
      arguments: the words after the program's name. Default: the process's.

    Returns:
      The exit status of `run`.
    """

    def program(*, settings) -> None:
        main(settings)

    program.__annotations__["settings"] = Annotated[settings_class, Parameter(name="*")]
    if not any(field.default is field.default_factory for field in fields(settings_class)):  # both MISSING
        program.__kwdefaults__ = {"settings": settings_class()}
    app = App(
        default_parameter=Parameter.combine(FLAGS, _LISTS),
        help=help_text,
        help_format="plaintext",
        help_formatter=HelpPage(),
        version_flags=[],
    )
    app.default(program)
    return run(app, arguments)
