"""What this toolkit wrote beside the weights of a model of its own."""

from collections.abc import Mapping
from typing import Any

from src.models.section import SECTION


def own_section(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """What this toolkit wrote about a model of its own, empty for weights of others.

    Args:
        facts: plain values of a file.
    """
    for section in (facts.get(SECTION), facts.get("config")):
        if isinstance(section, Mapping) and isinstance(section.get("model"), Mapping) and "format_version" in section:
            return section
    return {}
