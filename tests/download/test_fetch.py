import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.file_server import CONTENT, OTHER, FileServer, breaking, fetch, names


@pytest.fixture
def server() -> Iterator[FileServer]:
    server = FileServer()
    yield server
    server.stop()


def test_a_file_arrives_whole_in_a_new_folder_and_is_not_fetched_twice(server: FileServer, tmp_path: Path):
    path = tmp_path / "new" / "set.zip"
    for _ in range(2):
        fetch(server, path, sha256=hashlib.sha256(CONTENT).hexdigest().upper())
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["set.zip"]
    assert server.requests == [None]


def test_a_broken_connection_is_continued(server: FileServer, tmp_path: Path):
    breaking(server, 100_000, times=2)
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-", "bytes=200000-"]


def test_a_server_that_always_breaks_off_gets_there_while_it_gets_further(server: FileServer, tmp_path: Path):
    breaking(server, 40_000)
    fetch(server, tmp_path / "set.zip", tries=2)
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_a_server_that_gets_no_further_is_given_up_and_what_arrived_is_continued_later(
    server: FileServer, tmp_path: Path
):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        server.answer(handler, 70_000 if number == 1 else 0)
        return True

    server.behave = behave
    with pytest.raises(ValueError, match=rf"{server.url} cannot be fetched .*70000 of 300000 bytes; 3 tries.*by hand"):
        fetch(server, tmp_path / "set.zip", tries=3)
    assert len(server.requests) == 3
    assert names(tmp_path) == ["set.zip.part", "set.zip.part.json"]
    server.behave = lambda handler, number: False
    fetch(server, tmp_path / "set.zip")
    assert server.requests[-1] == "bytes=70000-"
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_a_server_may_be_away_for_a_while(server: FileServer, tmp_path: Path):
    breaking(server, 100_000, times=1)
    server.stop()
    threading.Timer(0.3, server.restart).start()
    fetch(server, tmp_path / "set.zip", pause=0.1)
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_a_server_that_cannot_continue_starts_anew(server: FileServer, tmp_path: Path):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        server.answer(handler, 100_000 if number == 1 else None, ranges=False)
        return True

    server.behave = behave
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-"]


@pytest.mark.parametrize("grown", [False, True])
def test_a_server_without_marks_is_continued_while_the_length_is_the_same(
    server: FileServer, tmp_path: Path, grown: bool
):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number == 2 and grown:
            server.content = OTHER + b"more"
        server.answer(handler, 100_000 if number == 1 else None)
        return True

    server.marks = False
    server.behave = behave
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == (OTHER + b"more" if grown else CONTENT)
    assert server.requests == [None, "bytes=100000-", None][: 3 if grown else 2]


def test_a_server_that_ignores_ranges_and_always_breaks_off_is_given_up(server: FileServer, tmp_path: Path):
    breaking(server, 100_000, ranges=False)
    with pytest.raises(ValueError, match="3 tries"):
        fetch(server, tmp_path / "set.zip", tries=3)
    assert len(server.requests) == 3


@pytest.mark.parametrize("later", [False, True])
def test_a_file_that_changed_meanwhile_is_fetched_anew(server: FileServer, tmp_path: Path, later: bool):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        server.content = CONTENT if number == 1 else OTHER
        server.answer(handler, 100_000 if number == 1 else None)
        return True

    server.behave = behave
    if later:
        with pytest.raises(ValueError, match="1 tries"):
            fetch(server, tmp_path / "set.zip", tries=1)
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == OTHER


def test_a_server_that_sends_the_rest_of_another_file_is_not_believed(server: FileServer, tmp_path: Path):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number == 1:
            server.answer(handler, 100_000)
        elif number == 2:  # it ignores If-Range
            handler.send_response(206)
            handler.send_header("Content-Range", "bytes 100000-299999/300000")
            handler.send_header("ETag", '"another"')
            handler.end_headers()
            handler.wfile.write(OTHER[100_000:])
        return number < 3

    server.behave = behave
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-", None]


@pytest.mark.parametrize("span", ["bytes 0-299999/300000", "bytes 100000-199999/200000", "nonsense", None])
def test_a_wrong_range_is_not_believed(server: FileServer, tmp_path: Path, span: str | None):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number == 1:
            server.answer(handler, 100_000)
        elif number == 2:
            handler.send_response(206)
            if span:
                handler.send_header("Content-Range", span)
            handler.end_headers()
            handler.wfile.write(CONTENT)
        return number < 3

    server.behave = behave
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_a_range_beyond_the_file_starts_anew(server: FileServer, tmp_path: Path):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number == 1:
            server.answer(handler, 100_000)
        elif number == 2:
            handler.send_error(416)
        return number < 3

    server.behave = behave
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-", None]


def test_a_whole_part_needs_no_server(server: FileServer, tmp_path: Path):
    breaking(server, 0, times=1)
    with pytest.raises(ValueError, match="0 of 300000"):
        fetch(server, tmp_path / "set.zip", tries=1)
    (tmp_path / "set.zip.part").write_bytes(CONTENT)
    fetch(server, tmp_path / "set.zip")
    assert len(server.requests) == 1
    assert (tmp_path / "set.zip").read_bytes() == CONTENT


def test_a_part_of_unknown_origin_is_not_continued(server: FileServer, tmp_path: Path):
    (tmp_path / "set.zip.part").write_bytes(OTHER[:1000])
    (tmp_path / "set.zip.part.json").write_text("{half")
    fetch(server, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert server.requests == [None]


def test_a_line_that_stays_open_after_the_last_byte_ends_well(server: FileServer, tmp_path: Path):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        server.answer(handler)
        handler.wfile.flush()
        time.sleep(1.5)
        return True

    server.behave = behave
    fetch(server, tmp_path / "set.zip", timeout=0.2)
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_stalled_server_counts_as_broken(server: FileServer, tmp_path: Path):
    def behave(handler: BaseHTTPRequestHandler, number: int) -> bool:
        if number == 1:
            server.answer(handler, 100_000)
            handler.wfile.flush()
            time.sleep(1.5)
        return number == 1

    server.behave = behave
    fetch(server, tmp_path / "set.zip", timeout=0.2)
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-"]


def test_two_at_once_fetch_once(server: FileServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    def slow(handler: BaseHTTPRequestHandler, number: int) -> bool:
        time.sleep(0.3)
        return False

    server.behave = slow
    both = [threading.Thread(target=fetch, args=(server, tmp_path / "set.zip")) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert (tmp_path / "set.zip").read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert "another process makes" in capfd.readouterr().err


def test_progress_is_a_bar_on_a_terminal_and_a_line_elsewhere(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    fetch(server, tmp_path / "set.zip")
    assert capsys.readouterr().err == f"{server.url}: 0 bytes of 300.0 kB\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    fetch(server, tmp_path / "again.zip")
    assert "again.zip" in capsys.readouterr().err
