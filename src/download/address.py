"""Asking for an address, and what a server may answer."""

import http.client
import string
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

_SCHEMES = ("http", "https")


def opened(url: str, headers: Mapping[str, str], timeout: float) -> http.client.HTTPResponse:
    """The answer to a request.

    Args:
        url: the address, http or https, in any script.
        headers: of the request.
        timeout: seconds after which a silent server counts as a broken connection.

    Raises:
        ValueError: ``url``, or what the server leads to, is no address of http or https.
    """
    try:
        opener = urllib.request.build_opener(_Redirects)
        request = urllib.request.Request(_in_ascii(url), headers=dict(headers))
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    except http.client.InvalidURL as error:
        raise ValueError(str(error)) from error
    return response


def check_address(url: str) -> None:
    """Refuses what no file can be asked for under.

    Args:
        url: the address.

    Raises:
        ValueError: ``url`` is no address of http or https, or has characters that steer a terminal.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(
            f"url must begin with http:// or https://, got {printable(url)}; give the address of the file."
        )
    try:
        if not url.isprintable():
            raise ValueError("it has characters that cannot be shown")
        _in_ascii(url)
    except ValueError as error:
        raise ValueError(f"{printable(url)} cannot be fetched: {printable(error)}; check the address.") from error


def printable(text: object) -> str:
    """One line without characters that would steer a terminal.

    Args:
        text: what a server sent.
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in " ".join(str(text).split()))


def _in_ascii(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("it names no server")
    path, query = (quote(text, safe=string.punctuation) for text in (parts.path, parts.query))
    return urlunsplit((parts.scheme, parts.netloc.encode("idna").decode(), path, query, ""))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to http and https alone."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in _SCHEMES:
            raise ValueError(f"it leads to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
