"""A web server on this machine that answers as the Hugging Face Hub does, as far as fetching a repository goes."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import huggingface_hub.constants
import pytest


class HubServer:
    """Serves ``repositories``: for each name its revisions, and for each of these its files."""

    def __init__(self, repositories: dict[str, dict[str, dict[str, bytes]]]) -> None:
        self.repositories = repositories
        self.gated: set[str] = set()
        self.broken = False
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(f"{self.command} {self.path}")
                outer.answer(self)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def environment(self, home: Path) -> dict[str, str]:
        """What tells a process of its own to take this server for the Hub, and a folder for all that is kept of it."""
        kept = {"HF_HOME": home, "HF_HUB_CACHE": home / "hub", "HF_TOKEN_PATH": home / "token"}
        return {name: str(path) for name, path in kept.items()} | {
            "HF_ENDPOINT": self.url,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        }

    def use(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        """Puts this server in the place of the Hub, and a folder in the place of all that is kept of it."""
        for name, value in self.environment(home).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
        template = huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE
        whole = template.replace(huggingface_hub.constants.ENDPOINT, self.url)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", whole)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", self.url)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(home / "hub"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(home))
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(home / "token"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_STORED_TOKENS_PATH", str(home / "stored_tokens"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_XET_CACHE", str(home / "xet"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)

    def fetched(self) -> list[str]:
        """Names of the files whose content was asked for."""
        return sorted(
            path.rpartition("/")[2] for path in self.requests if path.startswith("GET") and "/resolve/" in path
        )

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = [unquote(part) for part in handler.path.partition("?")[0].strip("/").split("/")]
        api = parts[0] == "api"
        parts = parts[2:] if api else parts
        name, kind, revision = "/".join(parts[:2]), *(parts[2:4] or ("revision", "main"))
        if self.broken:
            return self._send(handler, 503)
        if name not in self.repositories:
            return self._send(handler, 401, error="RepoNotFound")
        if name in self.gated and not api:
            return self._send(handler, 403, error="GatedRepo")
        commits = {hashlib.sha1(f"{name}{each}".encode()).hexdigest(): each for each in self.repositories[name]}
        revision = commits.get(revision, revision)
        if revision not in self.repositories[name]:
            return self._send(handler, 404, error="RevisionNotFound")
        files = self.repositories[name][revision]
        commit = next(commit for commit, each in commits.items() if each == revision)
        if kind == "revision":
            siblings = [{"rfilename": file} for file in files]
            return self._send(handler, 200, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode())
        if kind == "tree":
            tree = [
                {"type": "file", "path": file, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for file, content in files.items()
            ]
            return self._send(handler, 200, json.dumps(tree).encode())
        content = files.get("/".join(parts[4:]))
        if content is None:
            return self._send(handler, 404, error="EntryNotFound")
        mark = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": commit}
        return self._send(handler, 200, content, **mark)

    def _send(
        self, handler: BaseHTTPRequestHandler, code: int, body: bytes = b"", error: str = "", **headers: str
    ) -> None:
        handler.send_response(code)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        if error:
            handler.send_header("X-Error-Code", error)
            handler.send_header("X-Error-Message", error)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(body)
