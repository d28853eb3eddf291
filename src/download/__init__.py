"""Fetching what is not here: what has arrived is kept, and only a whole file gets its name."""

from src.download.fetch import download
from src.download.lock import one_at_a_time

__all__ = ["download", "one_at_a_time"]
