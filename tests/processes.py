"""Programs in their own processes, with timeouts so that they cannot hang a test.

They are forked from a server that has imported TensorFlow and this package, because the imports take longer than
most programs; with KERAS_BACKEND=jax from another one.
"""

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from albert_tf.training.cluster import loopback_clusters

ROOT = Path(__file__).parents[1]
FORKS = multiprocessing.get_context("forkserver")
JAX_FORKS = multiprocessing.forkserver.ForkServer()
for server in (FORKS, JAX_FORKS):
    server.set_forkserver_preload(
        [
            "albert_tf.pretraining.pretrain",
            "albert_tf.finetuning.finetune",
            "tests.processes",
            "tensorflow_text",
        ]
    )


class Program:
    """A running Python program, with the methods of `subprocess.Popen` that tests use.

    Args:
      command: the arguments of Python: `-m` and a module, `-c` and code, or a file; then those of the program.
      environment: changes to the variables of the environment.
      folder: the working directory.
    """

    def __init__(self, command: list, environment: dict[str, str] | None = None, folder: Path = ROOT):
        self._outputs = tempfile.TemporaryDirectory()
        self.args = [str(argument) for argument in command]
        variables = {**os.environ, **(environment or {})}
        arguments = (self.args, variables, folder, Path(self._outputs.name))
        self._process = FORKS.Process(target=_run, args=arguments)
        if variables.get("KERAS_BACKEND") == "jax":
            with (
                mock.patch.dict(os.environ, KERAS_BACKEND="jax"),
                mock.patch.object(
                    multiprocessing.forkserver, "connect_to_new_process", JAX_FORKS.connect_to_new_process
                ),
            ):
                self._process.start()
        else:
            self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def output(self) -> str:
        """What it has written to standard output so far."""
        path = Path(self._outputs.name, "stdout")
        return path.read_text() if path.exists() else ""

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for the end; returns standard output and standard error."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        out, err = (Path(self._outputs.name, name) for name in ("stdout", "stderr"))
        return tuple(path.read_text() if path.exists() else "" for path in (out, err))

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.kill()
        self._process.join()
        self._outputs.cleanup()


def _run(command: list[str], variables: dict[str, str], folder: Path, outputs: Path) -> None:
    """Does in a forked process what `python` does with these arguments."""
    for stream, name in ((1, "stdout"), (2, "stderr")):
        with (outputs / name).open("wb") as file:
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    kind, *rest = command
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = command
        runpy.run_path(kind, run_name="__main__")


def run_python(*arguments, timeout: int = 240) -> str:
    """Runs Python; returns its standard output."""
    (result,) = run_together([list(arguments)], [{}], timeout)
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_workers(
    *arguments: list, folders: list[Path] | None = None, timeout: int = 300
) -> list[subprocess.CompletedProcess]:
    """Runs one Python process per list of arguments as a cluster over loopback, each in its folder."""
    environments = [{"TF_CONFIG": cluster} for cluster in loopback_clusters(len(arguments))]
    return run_together(list(arguments), environments, timeout, folders)


def loopback_address() -> str:
    """HOST:PORT on this machine on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def run_on_jax(*arguments: list, timeout: int = 500) -> list[subprocess.CompletedProcess]:
    """Runs one process with `--backend=jax` per list of arguments; several train together."""
    flags = [["--backend=jax"] for _ in arguments]
    if len(arguments) > 1:
        together = [f"--coordinator_address={loopback_address()}", f"--num_processes={len(arguments)}"]
        flags = [["--backend=jax", *together, f"--process_id={index}"] for index in range(len(arguments))]
    commands = [[*command, *more] for command, more in zip(arguments, flags, strict=True)]
    return run_together(commands, [{"KERAS_BACKEND": "jax"}] * len(commands), timeout)


def run_together(
    commands: list[list], environments: list[dict], timeout: int, folders: list[Path] | None = None
) -> list[subprocess.CompletedProcess]:
    """Runs Python processes in parallel; kills them all after `timeout` seconds."""
    with contextlib.ExitStack() as stack:
        programs = [
            stack.enter_context(_started(command, environment, folder))
            for command, environment, folder in zip(
                commands, environments, folders or [ROOT] * len(commands), strict=True
            )
        ]
        outputs = [program.communicate(timeout=timeout) for program in programs]
        return [
            subprocess.CompletedProcess(program.args, program.returncode, *output)
            for program, output in zip(programs, outputs, strict=True)
        ]


@contextlib.contextmanager
def _started(
    command: list, environment: dict[str, str], folder: Path
) -> Iterator["Program | subprocess.Popen"]:
    """A command's process, killed at the end; it needs a new interpreter for other Keras backends."""
    if environment.get("KERAS_BACKEND", "jax") == "jax":
        with Program(command, environment, folder) as program:
            yield program
        return
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
