"""Values in masks that are neither ids of classes nor ignored."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from src.data.checks.facts import MaskFacts, Scan
from src.data.checks.finding import Finding
from src.data.labels import LabelEncoder
from src.data.source import Source
from src.wording import listed


def unknown_values(scan: Scan, sources: Sequence[Source]) -> Iterator[Finding]:
    """An error for each data set with such values: which, how often, where, and what may be meant.

    Args:
        scan: masks of one split.
        sources: what values mean; each mask says which of them is its own.
    """
    for index, source in enumerate(sources):
        if source.encoder is None:
            continue
        known = {*source.encoder.indices, *source.encoder.ignored_ids}
        masks = [mask for mask in scan.masks if mask.source == index]
        wrong = [mask for mask in masks if mask.pixels.keys() - known]
        if wrong:
            counts = _counted(wrong)
            unknown = sorted(counts.keys() - known)
            yield Finding(
                "error",
                f"masks must hold {source.encoder.allowed}, got "
                f"{listed([f'{value} ({counts[value]} pixels)' for value in unknown])} in {len(wrong)} of "
                f"{scan.looked_at}: {listed([mask.path for mask in wrong])}; "
                f"{_remedy(source.encoder, unknown, _counted(masks))}.",
            )


def _counted(masks: Sequence[MaskFacts]) -> Counter[int]:
    total: Counter[int] = Counter()
    for mask in masks:
        total.update(mask.pixels)
    return total


def _remedy(encoder: LabelEncoder, unknown: Sequence[int], found: Collection[int]) -> str:
    ids = [class_id - encoder.reduce_zero_label for class_id in encoder.classes.ids]  # as in data.classes
    free = next((class_id for class_id in ids if class_id not in found), None)
    if unknown == [255] and free is not None and {*found} == {0, 255}:
        return f"masks of 0 and 255 want {encoder.as_mapped(255, free)}, which makes 255 the class of id {free}"
    if unknown == [1] and ids == [0, 255] and 255 not in found:
        return f"masks of 0 and 1 want {encoder.as_mapped(1, 255)} or the ids 0 and 1 in data.classes"
    if unknown == [len(ids)] and sorted(ids) == list(range(len(ids))) and not encoder.reduce_zero_label:
        ignored = sorted({*encoder.ignored_ids, *unknown})
        return (
            f'if {unknown[0]} is no class, give --{encoder.key}.ignored_ids "{ignored}"; only if 0 means unlabelled '
            f"and the classes begin at 1 in the files, so that 1 is {encoder.classes.names[0]}, "
            f"--{encoder.key}.reduce_zero_label true; else add it to {encoder.options}"
        )
    if unknown == [0]:
        key = encoder.key
        return f"if 0 means unlabelled, add it to {key}.ignored_ids; else add it to {key}.classes or {key}.mapping"
    return f"add the values to {encoder.options}"
