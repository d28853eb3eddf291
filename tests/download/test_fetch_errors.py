import hashlib
import re
import resource
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from src.download import download, one_at_a_time
from tests.file_server import CONTENT, FileServer, breaking, fetch, names


@pytest.fixture
def server() -> Iterator[FileServer]:
    server = FileServer()
    yield server
    server.stop()


def test_fewer_bytes_than_promised_are_not_taken_for_the_file(server: FileServer, tmp_path: Path):
    server.behave = lambda handler, number: server.answer(handler, promised=400_000) or True
    with pytest.raises(ValueError, match="300000 of 400000 bytes"):
        fetch(server, tmp_path / "set.zip", tries=1)
    with pytest.raises(ValueError, match="3 tries"):
        fetch(server, tmp_path / "set.zip", tries=3)
    assert not (tmp_path / "set.zip").exists()


def test_more_bytes_than_promised_are_not_taken_for_the_file(server: FileServer, tmp_path: Path):
    server.behave = lambda handler, number: server.answer(handler, promised=200_000) or True
    with pytest.raises(ValueError, match="promised 200000 bytes and sends more"):
        fetch(server, tmp_path / "set.zip")
    assert names(tmp_path) == []


def test_an_absent_file_is_said_at_once(server: FileServer, tmp_path: Path):
    server.behave = lambda handler, number: handler.send_error(404) or True
    with pytest.raises(ValueError, match=rf"{server.url} .*answers 404 Not Found.*by hand.*{tmp_path}/set\.zip"):
        fetch(server, tmp_path / "set.zip")
    assert len(server.requests) == 1


def test_a_busy_server_is_asked_again(server: FileServer, tmp_path: Path):
    server.behave = lambda handler, number: number < 3 and (handler.send_error(503) or True)
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    server.behave = lambda handler, number: handler.send_error(503) or True
    with pytest.raises(ValueError, match="answers 503"):
        fetch(server, tmp_path / "other.zip", tries=2)


def test_an_unknown_host_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def unknown(*arguments: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ValueError, match=r"http://nowhere\.invalid/a\.zip cannot be reached \(Name.*by hand"):
        download("http://nowhere.invalid/a.zip", tmp_path / "a.zip", pause=60)


@pytest.mark.parametrize("url", ["ftp://host/a.zip", "file:///etc/passwd", "a.zip", ""])
def test_other_addresses_are_refused(tmp_path: Path, url: str):
    with pytest.raises(ValueError, match="url must begin with http"):
        download(url, tmp_path / "a.zip")


def test_room_is_looked_for_before_the_first_byte(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    breaking(server, 100_000, times=1)
    with pytest.raises(ValueError, match="1 tries"):
        fetch(server, tmp_path / "set.zip", tries=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=199_999))
    with pytest.raises(ValueError, match=r"room for set\.zip, got 0\.00 GiB free of 0\.00 GiB needed"):
        fetch(server, tmp_path / "set.zip")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=200_000))
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_a_disk_that_fills_up_keeps_what_has_arrived(server: FileServer, tmp_path: Path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    try:
        with pytest.raises(ValueError, match=r"set\.zip\.part cannot be written \(File too large\).*is kept"):
            fetch(server, tmp_path / "set.zip")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    fetch(server, tmp_path / "set.zip")
    assert server.requests == [None, "bytes=150000-"]
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_another_file_than_the_expected_is_refused(server: FileServer, tmp_path: Path):
    with pytest.raises(ValueError, match=rf"another file.*SHA-256 must be {'0' * 64}, got [1-9a-f]"):
        fetch(server, tmp_path / "set.zip", sha256="0" * 64)
    assert names(tmp_path) == []
    (tmp_path / "set.zip").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"set\.zip is not the file that is meant; remove it; SHA-256 must be 0"):
        fetch(server, tmp_path / "set.zip", sha256="0" * 64)
    assert (tmp_path / "set.zip").read_bytes() == b"mine"


def test_the_beginning_of_a_sum_is_enough(server: FileServer, tmp_path: Path):
    whole = hashlib.sha256(CONTENT).hexdigest()
    for length in (8, 9, 63, 64):
        fetch(server, tmp_path / f"{length}.zip", sha256=whole[:length].upper())
        fetch(server, tmp_path / f"{length}.zip", sha256=whole[:length])
    other = f"{whole[:7]}{'0' if whole[7] != '0' else '1'}"
    for path in (tmp_path / "8.zip", tmp_path / "new.zip"):
        with pytest.raises(ValueError, match=rf"SHA-256 must begin with {other}, got {whole}"):
            fetch(server, path, sha256=other)
    assert not (tmp_path / "new.zip").exists()


@pytest.mark.parametrize("sha256", ["", "0" * 7, "0" * 65, "0123456g", "sha256:00000000"])
def test_what_is_no_sum_is_refused(server: FileServer, tmp_path: Path, sha256: str):
    with pytest.raises(ValueError, match=f"sha256 must be 8 to 64 hexadecimal digits, got '{sha256}'; give the sum or"):
        fetch(server, tmp_path / "set.zip", sha256=sha256)
    assert server.requests == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match=rf"{tmp_path}/file must be a folder to write to, got .*; choose another"),
        one_at_a_time(tmp_path / "file" / "set.zip"),
    ):
        pass


@pytest.mark.parametrize(
    "url",
    [
        *("http://[bad", "http://[::1", "http://", "http:///a.zip", "http://host:port/a.zip"),
        *(f"http://{'a' * 64}.org/", "http://a..b/"),
    ],
)
def test_malformed_addresses_are_refused_at_once_with_the_address(tmp_path: Path, url: str):
    with pytest.raises(ValueError, match=rf"{re.escape(url)} cannot be fetched: .+; check the address"):
        download(url, tmp_path / "a.zip", pause=60)


@pytest.mark.parametrize("tail", ["Käfer ü.zip?q=ä b", "K%C3%A4fer%20%C3%BC.zip?q=%C3%A4%20b"])
def test_addresses_in_any_script_are_fetched(server: FileServer, tmp_path: Path, tail: str):
    asked = []
    server.behave = lambda handler, number: asked.append(handler.path)
    download(server.url.replace("set.zip", tail), tmp_path / "set.zip")
    assert asked == ["/K%C3%A4fer%20%C3%BC.zip?q=%C3%A4%20b"]
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def leading(server: FileServer, target: str) -> None:
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number == 1:
            handler.send_response(302)
            handler.send_header("Location", target)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        return number == 1

    server.behave = behave


@pytest.mark.parametrize("target", ["/other.zip", "HTTP://127.0.0.1:PORT/other.zip"])
def test_a_server_may_lead_to_another_address(server: FileServer, tmp_path: Path, target: str):
    leading(server, target.replace("PORT", str(server.port)))
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "target",
    [
        "ftp://127.0.0.1/a.zip",
        "file:///etc/passwd",
        "data:,x",
        "http://[bad",
        "http://host:port/",
        f"http://{'a' * 64}.org",
    ],
)
def test_a_server_may_not_lead_anywhere_else(server: FileServer, tmp_path: Path, target: str):
    leading(server, target)
    with pytest.raises(ValueError, match=rf"{server.url} cannot be fetched: .+; check the address"):
        fetch(server, tmp_path / "set.zip", pause=60)
    assert names(tmp_path) == []


@pytest.mark.parametrize(("code", "length"), [(204, None), (202, "0"), (200, "0"), (200, None)])
def test_an_answer_without_a_file_is_refused(server: FileServer, tmp_path: Path, code: int, length: str | None):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        handler.send_response(code)
        if length:
            handler.send_header("Content-Length", length)
        handler.end_headers()
        return True

    server.behave = behave
    told = "the server sends an empty file" if code == 200 else f"the server answers {code} "
    with pytest.raises(ValueError, match=rf"{server.url} cannot be fetched: {told}"):
        fetch(server, tmp_path / "set.zip", pause=60)
    assert names(tmp_path) == []


@pytest.mark.parametrize(("coding", "taken"), [("gzip", False), ("br", False), ("identity", True)])
def test_a_body_in_a_coding_that_nobody_asked_for_is_refused(
    server: FileServer, tmp_path: Path, coding: str, taken: bool
):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Encoding", coding)
        handler.end_headers()
        handler.wfile.write(CONTENT)
        return True

    server.behave = behave
    with nullcontext() if taken else pytest.raises(ValueError, match=rf"sends it in the coding {coding}; check the"):
        fetch(server, tmp_path / "set.zip", pause=60)
    assert names(tmp_path) == ["set.zip"] * taken


@pytest.mark.parametrize("code", [404, 503])
def test_a_server_cannot_steer_the_terminal(server: FileServer, tmp_path: Path, code: int):
    server.behave = lambda handler, number: handler.send_error(code, "Gone \x1b[2J\x07\x9b") or True
    with pytest.raises(ValueError, match=rf"answers {code} Gone ") as told:
        fetch(server, tmp_path / "set.zip", tries=1)
    assert str(told.value).isprintable()
    assert r"\x1b[2J\x07\x9b" in str(told.value)


@pytest.mark.parametrize("sha256", [None, "0" * 64])
def test_a_folder_in_place_of_the_file_is_named(server: FileServer, tmp_path: Path, sha256: str | None):
    with pytest.raises(ValueError, match=rf"{tmp_path} must be a file to write, got a folder; move it away"):
        fetch(server, tmp_path, sha256=sha256)
    assert server.requests == []


@pytest.mark.parametrize("tail", ["a\0.zip", "a\n.zip", "\ud800.zip", "\x1b[2J.zip"])
def test_an_address_cannot_steer_the_terminal(server: FileServer, tmp_path: Path, tail: str):
    with pytest.raises(ValueError, match=rf"{server.url}.+ cannot be fetched: it has characters that cannot") as told:
        download(f"{server.url}/{tail}", tmp_path / "a.zip")
    assert str(told.value).isprintable()
    assert server.requests == []


def refuse(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_file_that_may_not_be_read_is_named(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "set.zip"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(hashlib, "file_digest", lambda *arguments: refuse(path))
    with pytest.raises(ValueError, match=rf"{path} must be readable and writable, got Permission denied; change its p"):
        fetch(server, path, sha256="0" * 64)


def test_a_folder_that_may_not_be_read_is_named(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "is_dir", lambda path: refuse(tmp_path))
    with pytest.raises(ValueError, match=rf"{tmp_path} must be readable and writable, got Permission denied; change i"):
        fetch(server, tmp_path / "set.zip")
