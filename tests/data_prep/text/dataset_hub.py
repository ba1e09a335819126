"""A local server that answers about datasets as the Hugging Face Hub does."""

import hashlib
import http.server
import json
import re
import urllib.parse
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_ADDRESS = re.compile(r"(/api)?/datasets/(\w+/\w+)(?:/(revision|tree|paths-info|resolve)/([^/]+)/?(.*))?")


class DatasetHub(http.server.ThreadingHTTPServer):
    """A dataset team/NAME for each folder NAME in a folder, all at one commit; team/gated needs a token."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.folder = folder

    def environment(self, home: Path) -> dict[str, str]:
        """The variables for a process that is to find it instead of the Hub, with its caches in `home`."""
        address = {"HF_ENDPOINT": f"http://127.0.0.1:{self.server_port}", "NO_PROXY": "127.0.0.1"}
        return {**address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


class _Answers(http.server.BaseHTTPRequestHandler):
    server: DatasetHub
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        matched = _ADDRESS.fullmatch(urllib.parse.unquote(path))
        if not matched:
            self.answer(404)
            return
        is_api, repository, what, revision, inside = matched.groups()
        owner, name = repository.split("/")
        folder = self.server.folder / name
        if owner != "team" or not folder.is_dir():
            self.answer(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif name == "gated" and self.headers.get("Authorization") != "Bearer a token":
            self.answer(403, {"X-Error-Code": "GatedRepo"})
        elif revision not in (None, "main", COMMIT):
            self.answer(404, {"X-Error-Code": "RevisionNotFound"})
        elif what == "resolve":
            self.answer_file(folder / inside)
        elif is_api and what in (None, "revision"):
            self.answer_json({"id": repository, "sha": COMMIT, "private": False, "tags": [], "downloads": 0})
        elif is_api and what == "tree" and not (folder / inside).is_dir():
            self.answer(404, {"X-Error-Code": "EntryNotFound"})
        elif is_api and what == "tree":
            found = (
                (folder / inside).rglob("*")
                if "recursive=true" in query.lower()
                else (folder / inside).iterdir()
            )
            self.answer_json([_entry(file, folder) for file in sorted(found)])
        elif is_api and what == "paths-info":
            paths = (
                json.loads(body)["paths"] if body.startswith("{") else urllib.parse.parse_qs(body)["paths"]
            )
            self.answer_json([_entry(folder / each, folder) for each in paths if (folder / each).exists()])
        else:
            self.answer(404)

    do_HEAD = do_POST = do_GET  # noqa: N815

    def answer_file(self, file: Path) -> None:
        if not file.is_file():
            self.answer(404, {"X-Error-Code": "EntryNotFound"})
            return
        content = file.read_bytes()
        facts = {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            begin, end = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
            facts["Content-Range"] = f"bytes {begin}-{end}/{len(content)}"
            self.answer(206, facts, content[begin : end + 1])
        else:
            self.answer(200, facts, content)

    def answer_json(self, value) -> None:
        self.answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def answer(self, status: int, headers: dict[str, str] | None = None, content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def _entry(path: Path, folder: Path) -> dict:
    name = path.relative_to(folder).as_posix()
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
    return {"type": "file", "path": name, "oid": _digest(path), "size": path.stat().st_size}


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
