"""Programs in processes of their own, with timeouts so that they cannot hang a test."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_python(*arguments, timeout: int = 240) -> str:
    """Runs Python; returns its standard output."""
    (result,) = run_together([list(arguments)], [{}], timeout)
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_workers(
    *arguments: list, folders: list[Path] | None = None, timeout: int = 300
) -> list[subprocess.CompletedProcess]:
    """Runs one Python process per list of arguments as a cluster over loopback, each in its folder."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(len(arguments))]
    environments = [
        {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            )
        }
        for index in range(len(workers))
    ]
    return run_together(list(arguments), environments, timeout, folders)


def run_together(
    commands: list[list], environments: list[dict], timeout: int, folders: list[Path] | None = None
) -> list[subprocess.CompletedProcess]:
    """Runs Python processes in parallel; kills them all after `timeout` seconds."""
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=folder,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, environment, folder in zip(
            commands, environments, folders or [ROOT] * len(commands), strict=True
        )
    ]
    try:
        outputs = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(processes, outputs, strict=True)
    ]


def free_ports(number: int) -> list[int]:
    """Ports that no process listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
