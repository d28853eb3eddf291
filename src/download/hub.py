"""Repositories of weights on the Hugging Face Hub."""

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from src.download.address import printable

_REPOSITORY = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[^:@\s]+))?(:(?P<file>[^:\s][^:]*))?")
_WEIGHTS = (".safetensors", ".bin", ".pth", ".pt", ".ckpt")
_WHOLE = (
    ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"),
)
_CONFIG = "config.json"


def from_hub(text: str) -> Path:
    """The folder with a repository's config and weights, or one file of it, fetched where it is not here yet.

    Where the Hub cannot be reached, or ``HF_HUB_OFFLINE`` is set, what has been fetched before is taken.

    Args:
        text: ``owner/name``, ``owner/name@revision``, ``owner/name:file`` or ``owner/name@revision:file``.

    Raises:
        FileNotFoundError: the Hub cannot be reached and the repository is not here.
        ValueError: there is no such repository, revision or file, it is not open to all, or it does not tell which of
            its files is meant.
    """
    parts = _REPOSITORY.fullmatch(text)
    if not parts or (parts["file"] and (".." in Path(parts["file"]).parts or Path(parts["file"]).is_absolute())):
        raise ValueError(
            f"hf:{text} must be hf:owner/name, with @revision and :file behind it where need be, for example "
            f"hf:openmmlab/upernet-swin-tiny; correct it."
        )
    return _Repository(parts["name"], parts["revision"], parts["file"]).path()


class _Repository:
    def __init__(self, name: str, revision: str | None, file: str | None) -> None:
        self.name, self.revision, self.file = name, revision, file

    def __str__(self) -> str:
        revision, file = (f"{mark}{part}" if part else "" for mark, part in (("@", self.revision), (":", self.file)))
        return f"hf:{self.name}{revision}{file}"

    def path(self) -> Path:
        from huggingface_hub import HfApi, snapshot_download

        try:
            listing = HfApi().model_info(self.name, revision=self.revision).siblings or []
        except Exception as error:  # what a broken connection raises is up to the library beneath
            return self._kept(error) / (self.file or "")
        patterns = self._wanted([entry.rfilename for entry in listing])
        try:
            folder = snapshot_download(self.name, revision=self.revision, allow_patterns=patterns)
        except Exception as error:
            raise self._told(error) from error
        return Path(folder) / (self.file or "")

    def _wanted(self, names: Sequence[str]) -> list[str]:
        """Patterns of the files to fetch."""
        if self.file:
            if self.file not in names:
                raise ValueError(f"{self} must be a file of the repository; {_listed(names)}.")
            return [_CONFIG, glob.escape(self.file)]
        for whole, index, shards in _WHOLE:
            if whole in names or index in names:
                return [_CONFIG, whole] if whole in names else [_CONFIG, index, shards]
        single = [name for name in names if name.endswith(_WEIGHTS) and "/" not in name]
        if len(single) != 1:
            raise ValueError(
                f"{self} does not tell which of its files is meant; give one as hf:{self.name}:file; {_listed(names)}."
            )
        return [_CONFIG, glob.escape(single[0])]

    def _kept(self, error: Exception) -> Path:
        """What has been fetched before, where the Hub cannot be reached."""
        from huggingface_hub import snapshot_download

        told = self._told(error)
        if isinstance(told, FileNotFoundError):
            try:
                kept = snapshot_download(self.name, revision=self.revision, local_files_only=True, allow_patterns=[])
                folder = Path(kept)
                self._wanted([path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()])
                return folder
            except (OSError, ValueError):  # it is not there, or not all of it
                pass
        raise told from error

    def _told(self, error: Exception) -> ValueError | FileNotFoundError:
        """The error in plain words; a FileNotFoundError where the connection may be to blame."""
        from huggingface_hub import constants, errors

        broken = isinstance(error, ConnectionError | TimeoutError | errors.LocalEntryNotFoundError)
        if isinstance(error, errors.GatedRepoError):
            reason = f"its owner asks for consent: give it at {_page(self.name)} and log in with `hf auth login`"
        elif isinstance(error, errors.RevisionNotFoundError):
            reason = f"it has no revision {self.revision}; {_page(self.name)} lists them"
        elif isinstance(error, errors.RepositoryNotFoundError):
            reason = "there is none of this name, or it is private; check the name, or log in with `hf auth login`"
        elif isinstance(error, errors.HFValidationError):
            reason = "no repository can have this name; check it"
        elif isinstance(error, OSError) and error.errno and not broken:
            reason = f"it cannot be written ({error.strerror}); make room, or set HF_HOME to another folder"
        else:
            remedy = "unset HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else "connect"
            return FileNotFoundError(
                f"{self} is not on this machine and the Hub cannot be reached ({printable(error)[:200]}); {remedy}, or "
                f"run `hf download {self.name} --local-dir FOLDER` where there is a connection, bring FOLDER here and "
                f"give it in place of {self}."
            )
        return ValueError(f"{self} cannot be fetched: {reason}.")


def _page(name: str) -> str:
    return f"https://huggingface.co/{name}"


def _listed(names: Sequence[str]) -> str:
    weights = [name for name in names if name.endswith(_WEIGHTS)]
    return f"it has {', '.join(weights[:10])}" if weights else "it has no weights"
