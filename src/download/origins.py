"""Where weights come from: a path, an address, a repository of the Hugging Face Hub, or a name of timm."""

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from src.download.address import printable
from src.download.cached_address import cached
from src.download.hub import from_hub

_FORMS = (
    "a path of a file or folder, an address that begins with http:// or https://, hf:owner/name with @revision or "
    ":file behind it, or timm:name"
)

_ENDS = (".pth", ".pt", ".bin", ".ckpt", ".safetensors", ".json")


def located(source: str | os.PathLike[str]) -> Path:
    """The file or folder that a source stands for, fetched where it is not here yet.

    What exists as a path is taken as one. A file at an address is kept, see ``cached``; a repository of the Hub lies
    in the Hub's own cache, and of it only what is needed: ``config.json`` and the weights, ``.safetensors`` before
    ``.bin``.

    Args:
        source: a path; ``https://...``; ``hf:owner/name``, with ``@revision`` and ``:file`` behind it where need be,
            for example ``hf:owner/name@main:best.pth``; or ``timm:name`` for what timm publishes under that name.

    Raises:
        FileNotFoundError: there is no such path and it is none of the other forms, or the Hub cannot be reached and the
            repository is not here.
        ValueError: the address cannot be fetched, or the repository or the name does not exist.
    """
    text = os.fsdecode(source)
    path = _existing(text)
    if path is not None:
        return path
    scheme, _, rest = text.partition(":")
    if scheme.lower() in ("http", "https"):
        return cached(f"{scheme.lower()}:{rest}")
    if scheme in ("hf", "timm") and not text.isprintable():
        raise ValueError(f"{printable(text)} must be a name without characters that cannot be shown; correct it.")
    if scheme == "hf":
        return from_hub(rest)
    if scheme == "timm":
        return _of_timm(rest)
    is_name = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", text) and Path(text).suffix not in _ENDS
    hint = f"; a repository of the Hub would be hf:{text}" if is_name else ""
    raise FileNotFoundError(
        f"weights must be {_FORMS}, got {printable(text) or 'nothing'}, which does not exist{hint}."
    )


def _existing(text: str) -> Path | None:
    if not text:
        return None
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # a name that no file can have
        return None


def _of_timm(name: str) -> Path:
    try:
        import timm
    except ImportError as error:
        raise ValueError(
            f"timm:{name} needs timm, which is not installed; install it, or give hf:timm/{name} with the tag of the "
            f"weights, for example hf:timm/swin_tiny_patch4_window7_224.ms_in1k."
        ) from error
    try:
        found = timm.get_pretrained_cfg(name)
    except RuntimeError:  # a known model with a tag that it does not have
        found = None
    addresses = [] if found is None else [found.url] if isinstance(found.url, str) else list(found.url or ())
    if found is None or not (found.hf_hub_id or addresses):
        raise ValueError(f"timm:{name} must be a model that timm publishes weights of; {_near(timm, name)}.")
    if not found.hf_hub_id:
        return cached(addresses[0])
    return from_hub(found.hf_hub_id + (f":{found.hf_hub_filename}" if found.hf_hub_filename else ""))


def _near(timm: Any, name: str) -> str:
    tagged = timm.list_pretrained()
    near = get_close_matches(name, [*tagged, *{known.partition(".")[0] for known in tagged}], n=3)
    return f"the nearest are {', '.join(near)}" if near else "timm.list_pretrained() lists them"
