"""What has arrived of a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Part:
    """What has arrived of a file, and beside it a record of which file that was.

    Args:
        url: address of the file.
        target: where the whole file belongs.
    """

    url: str
    target: Path

    @property
    def path(self) -> Path:
        """Where the bytes are."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def record(self) -> Path:
        """What tells which file they are of."""
        return self.target.with_name(f"{self.target.name}.part.json")

    @property
    def by_hand(self) -> str:
        """What a user can do in place of this program, in words."""
        return f"or fetch it by hand and save it as {self.target.absolute()}"

    def size(self) -> int:
        """How many bytes have arrived."""
        return self.path.stat().st_size if self.path.exists() else 0

    def version(self) -> dict[str, Any] | None:
        """Mark and length of the file that the bytes belong to; None where they cannot be continued."""
        try:
            version = json.loads(self.record.read_text())
            known = version["mark"] or version["length"]
            return version if version["url"] == self.url and known and self.path.exists() else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def begin(self, mark: str | None, length: int | None) -> None:
        """Starts anew with a file.

        Args:
            mark: what tells it from other versions.
            length: in bytes.
        """
        self.forget()
        self.record.write_text(json.dumps({"url": self.url, "mark": mark, "length": length}))

    def forget(self) -> None:
        """Removes what has arrived."""
        self.path.unlink(missing_ok=True)
        self.record.unlink(missing_ok=True)
