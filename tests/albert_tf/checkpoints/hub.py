"""A local server that answers downloads as the Hugging Face Hub does."""

import contextlib
import hashlib
import http.server
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.ThreadingHTTPServer):
    """One repository, owner/tiny, with the files of a folder.

    Attributes:
      folder: the folder.
      served: the names of the files that were downloaded.
      facts, tree: what it answers about the repository and its files; None: the truth.
    """

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder = folder
        self.served: list[str] = []
        self.facts: bytes | None = None
        self.tree: bytes | None = None

    @contextlib.contextmanager
    def in_place_of_the_hub(self, home: Path) -> Iterator[None]:
        """This process finds it instead of the Hub, with a cache below `home`."""
        address = f"http://127.0.0.1:{self.server_port}"
        url = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
        with (
            mock.patch.dict("os.environ", NO_PROXY="127.0.0.1", HF_HUB_DISABLE_XET="1"),
            mock.patch.multiple(
                constants, ENDPOINT=address, HF_HUB_CACHE=str(home), HUGGINGFACE_CO_URL_TEMPLATE=url
            ),
            mock.patch.object(constants, "HF_HUB_DISABLE_XET", True),
        ):
            yield

    def environment(self, home: Path) -> dict[str, str]:
        """The variables for a process that is to find it instead of the Hub, with a cache below `home`."""
        address = {"HF_ENDPOINT": f"http://127.0.0.1:{self.server_port}", "NO_PROXY": "127.0.0.1"}
        quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
        return {**address, **quiet, "HF_HOME": str(home / "home")}


class Answers(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self):
        path = urllib.parse.unquote(self.path.split("?")[0])
        files = {file.name: file for file in self.server.folder.iterdir()}
        if path.startswith("/api/models/owner/tiny"):
            facts = {"id": "owner/tiny", "modelId": "owner/tiny", "sha": COMMIT, "tags": [], "downloads": 0}
            facts |= {"private": False, "siblings": [{"rfilename": name} for name in files]}
            tree = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": etag(file)}
                for name, file in files.items()
            ]
            true, false = (tree, self.server.tree) if "/tree/" in path else (facts, self.server.facts)
            content = json.dumps(true).encode() if false is None else false
            self.answer(200, {"Content-Type": "application/json", "Content-Length": len(content)}, content)
        elif path.startswith("/owner/tiny/resolve/") and path.split("/")[-1] in files:
            file = files[path.split("/")[-1]]
            content = file.read_bytes()
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag(file)}"', "Content-Length": len(content)}
            if self.command == "GET":
                self.server.served.append(file.name)
            self.answer(200, headers, content)
        else:
            self.answer(404, {"X-Error-Code": "RepoNotFound", "Content-Length": 0}, b"")

    do_HEAD = do_GET  # noqa: N815

    def answer(self, status: int, headers: dict, content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
