"""Runs the `albert` command in its own process."""

import subprocess
import sys


def albert(command: str, *arguments, **flags) -> None:
    """Prints an `albert` command and runs it; if it fails, its exit status ends the experiment.

    Flags of None are left out.
    """
    given = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    words = [command, *map(str, arguments), *given]
    print("$ albert", " ".join(word if len(word) < 200 else word[:200] + "..." for word in words), flush=True)
    status = subprocess.run([sys.executable, "-m", "albert_cli.cli", *words]).returncode
    if status:
        raise SystemExit(status)
