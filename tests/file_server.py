"""A web server on this machine that can do what servers do: break off, stall, lie, change its file."""

import hashlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from src.download import download

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
OTHER = CONTENT[::-1]


class FileServer:
    """Serves ``content`` with ranges and an ETag; ``behave`` may answer a request in its own way instead."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.marks = True
        self.requests: list[str | None] = []
        self.behave: Callable[[BaseHTTPRequestHandler, int], bool] = lambda handler, number: False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.headers["Range"])
                if not outer.behave(self, len(outer.requests)):
                    outer.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self._handler = Handler
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}/set.zip"
        self._start()

    def _start(self) -> None:
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def restart(self) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self._start()

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'

    def answer(
        self, handler: BaseHTTPRequestHandler, sent: int | None = None, promised: int | None = None, ranges: bool = True
    ) -> None:
        """Sends the rest that is asked for, or only its first ``sent`` bytes, or another ``promised`` length."""
        wanted, known = handler.headers["Range"], handler.headers["If-Range"]
        same = known == self.etag if self.marks else known is None
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and ranges and same else 0
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(body) if promised is None else promised))
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.marks:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        handler.wfile.write(body[:sent])


def fetch(server: FileServer, path: Path, **options: object) -> None:
    download(server.url, path, **{"pause": 0.01, "timeout": 5} | options)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.endswith(".lock"))


def breaking(server: FileServer, sent: int, times: int = 99, **options: object) -> None:
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number <= times:
            server.answer(handler, sent, **options)
        return number <= times

    server.behave = behave
