"""Fetching a file in as many tries as it takes."""

import hashlib
import http.client
import io
import re
import shutil
import socket
import time
import urllib.error
from pathlib import Path
from typing import Any

from src.download.address import check_address, opened, printable
from src.download.lock import one_at_a_time
from src.download.part import Part
from src.download.progress import progress

_CHUNK = 1 << 20
_GIB = 1 << 30
_LONGEST_PAUSE = 60
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)


def download(
    url: str, path: Path, sha256: str | None = None, tries: int = 5, timeout: float = 30, pause: float = 1
) -> None:
    """Fetches ``url`` to ``path``, unless that file is there.

    Bytes go to ``<path>.part`` first. Another try, or a later call, continues there where the server says by ETag or
    Last-Modified, or one without these by the length alone, that its file is still the same, and else starts anew.

    Args:
        url: address of the file, http or https.
        path: where the file belongs; its folder is made where there is none.
        sha256: the SHA-256 that the file must have, in hexadecimal, or how it begins; None takes any file.
        tries: how many tries may fail in a row without getting further than those before.
        timeout: seconds after which a silent server counts as a broken connection.
        pause: seconds before the second try, doubled before each one after it.

    Raises:
        ValueError: the address or the sum is wrong, the server does not give the whole file, the disk has no room, or
            the file is not the expected one.
    """
    check_address(url)
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{8,64}", sha256):
        raise ValueError(f"sha256 must be 8 to 64 hexadecimal digits, got {sha256!r}; give the sum or how it begins.")
    try:
        _fetch_whole(Part(url, path), sha256, tries, timeout, pause)
    except OSError as error:
        raise ValueError(
            f"{error.filename or path.absolute()} must be readable and writable, got {error.strerror}; change its "
            f"permissions, or choose another folder."
        ) from error


class _BrokenError(Exception):
    """This try has failed, the next may not."""


def _fetch_whole(part: Part, sha256: str | None, tries: int, timeout: float, pause: float) -> None:
    path = part.target
    if path.is_dir():
        raise ValueError(f"{path.absolute()} must be a file to write, got a folder; move it away, or choose another.")
    if path.exists():
        _check_sum(path, sha256, f"{path} is not the file that is meant; remove it")
        return
    with one_at_a_time(path):
        if path.exists():
            return
        _fetch(part, tries, timeout, pause)
        try:
            _check_sum(part.path, sha256, f"{part.url} gives another file; check the address")
        except ValueError:
            part.forget()
            raise
        part.path.replace(path)
        part.record.unlink(missing_ok=True)


def _fetch(part: Part, tries: int, timeout: float, pause: float) -> None:
    furthest, failures = part.size(), 0
    while True:
        try:
            return _try_once(part, timeout)
        except _BrokenError as error:
            size = part.size()
            failures = 1 if size > furthest else failures + 1
            furthest = max(furthest, size)
            if failures >= tries:
                raise ValueError(
                    f"{part.url} cannot be fetched ({error}; {tries} tries); try again later, {part.by_hand}."
                ) from error
        time.sleep(min(pause * 2 ** (failures - 1), _LONGEST_PAUSE))


def _try_once(part: Part, timeout: float) -> None:
    version, have = part.version(), part.size()
    if version and have == version["length"]:
        return
    headers = {"User-Agent": "swin-upernet-lightning", "Accept-Encoding": "identity"}
    if version and have:
        headers |= {"Range": f"bytes={have}-"} | ({"If-Range": version["mark"]} if version["mark"] else {})
    try:
        with _asked(part, headers, timeout) as response:
            _check_answer(response, part)
            if response.status == 206:
                length = _length_of_rest(response, part, version)
            else:
                have, length = 0, response.length
                part.begin(_mark(response), length)
            _receive(response, part, have, length)
    except urllib.error.HTTPError as error:
        told = f"the server answers {error.code} {printable(error.reason)}"
        if error.code == 416:
            part.forget()
        elif error.code not in _TRY_AGAIN:
            raise _refusal(part, told) from error
        raise _BrokenError(told) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, socket.gaierror) and reason.errno != socket.EAI_AGAIN:
            raise ValueError(
                f"{part.url} cannot be reached ({reason.strerror}); check the address and the connection, "
                f"{part.by_hand}."
            ) from error
        raise _BrokenError(printable(reason) or type(reason).__name__) from error


def _asked(part: Part, headers: dict[str, str], timeout: float) -> http.client.HTTPResponse:
    try:
        return opened(part.url, headers, timeout)
    except ValueError as error:
        raise _refusal(part, printable(error)) from error


def _check_answer(response: http.client.HTTPResponse, part: Part) -> None:
    """Lets pass what can be the file, or its rest."""
    if response.status not in (200, 206):
        raise _refusal(part, f"the server answers {response.status} {printable(response.reason)}")
    if (coding := response.headers["Content-Encoding"]) not in (None, "", "identity"):
        raise _refusal(part, f"the server sends it in the coding {printable(coding)}")


def _refusal(part: Part, what: str) -> ValueError:
    return ValueError(f"{part.url} cannot be fetched: {what}; check the address, {part.by_hand}.")


def _mark(response: http.client.HTTPResponse) -> str | None:
    """What tells this version of a file from others, in the form that ``If-Range`` takes: no weak ETag."""
    etag = response.headers["ETag"]
    return etag if etag and not etag.startswith("W/") else response.headers["Last-Modified"]


def _length_of_rest(response: http.client.HTTPResponse, part: Part, version: dict[str, Any] | None) -> int | None:
    """Length of the whole file, once the answer is known to be the rest of the same one."""
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers["Content-Range"] or "")
    begins_there = version and span and int(span[1]) == part.size()
    if not version or not span or not begins_there or not _is_same(version, _mark(response), span[2]):
        part.forget()
        raise _BrokenError("the file has changed on the server")
    length: int | None = version["length"]
    return length


def _is_same(version: dict[str, Any], mark: str | None, length: str) -> bool:
    if version["mark"] is None:
        return mark is None and length == str(version["length"])
    return mark in (None, version["mark"]) and length in ("*", str(version["length"]))


def _receive(response: http.client.HTTPResponse, part: Part, have: int, length: int | None) -> None:
    _check_room(part.target, None if length is None else length - have)
    response.length = None  # else http.client hides what a server sends beyond the length that it promised
    with part.path.open("ab" if have else "wb", buffering=0) as file, progress(part, have, length) as advance:
        while chunk := _next_chunk(response, have == length):
            have += _written(file, chunk, part)
            advance(have)
            if length is not None and have > length:
                part.forget()
                raise ValueError(
                    f"{part.url} cannot be fetched: the server promised {length} bytes and sends more; try again "
                    f"later, {part.by_hand}."
                )
    if length is not None and have < length:
        raise _BrokenError(f"the connection ended after {have} of {length} bytes")
    if not have:
        part.forget()
        raise _refusal(part, "the server sends an empty file")


def _next_chunk(response: http.client.HTTPResponse, complete: bool) -> bytes:
    try:
        return response.read1(_CHUNK)
    except OSError:
        if complete:  # the server holds the line although it was asked to close it
            return b""
        raise


def _written(file: io.FileIO, chunk: bytes, part: Part) -> int:
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise ValueError(
            f"{part.path.absolute()} cannot be written ({error.strerror}); make room and start again: what has arrived "
            f"is kept."
        ) from error
    return len(chunk)


def _check_room(path: Path, needed: int | None) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed is not None and needed > free:
        raise ValueError(
            f"{path.parent.absolute()} must have room for {path.name}, got {free / _GIB:.2f} GiB free of "
            f"{needed / _GIB:.2f} GiB needed; make room, or choose another folder."
        )


def _check_sum(path: Path, sha256: str | None, blame: str) -> None:
    if sha256 is None:
        return
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if not got.startswith(sha256.lower()):
        verb = "be" if len(sha256) == len(got) else "begin with"
        raise ValueError(f"{blame}; SHA-256 must {verb} {sha256.lower()}, got {got}.")
