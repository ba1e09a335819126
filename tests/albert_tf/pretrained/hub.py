"""A local server that answers downloads as the Hugging Face Hub does."""

import hashlib
import http.server
import json
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.ThreadingHTTPServer):
    """One repository, owner/tiny, with the files of a folder."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder = folder
        self.served: list[str] = []

    def environment(self, home: Path) -> dict[str, str]:
        """The variables for a process that is to find it instead of the Hub, with a cache below `home`."""
        address = {"HF_ENDPOINT": f"http://127.0.0.1:{self.server_port}", "NO_PROXY": "127.0.0.1"}
        quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
        return {**address, **quiet, "HF_HOME": str(home / "home")}


class Answers(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self):
        path = self.path.split("?")[0]
        files = {file.name: file for file in self.server.folder.iterdir()}
        if path.startswith("/api/models/owner/tiny"):
            facts = {"id": "owner/tiny", "modelId": "owner/tiny", "sha": COMMIT, "tags": [], "downloads": 0}
            facts |= {"private": False, "siblings": [{"rfilename": name} for name in files]}
            tree = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": etag(file)}
                for name, file in files.items()
            ]
            content = json.dumps(tree if "/tree/" in path else facts).encode()
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
