"""Images of several sizes in one padded batch: groups of one size, and their maps put together again."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from src.layers.size import Size


def group_by_size(sizes: Sequence[Size], count: int, whole: Size) -> dict[Size, list[int]]:
    """The indices of the images of each size, in the order in which the sizes occur.

    Args:
        sizes: height and width of each image without its padding, in pixels.
        count: number of images in the batch.
        whole: height and width of the padded images, in pixels.

    Raises:
        ValueError: there is not one size per image, or a size is empty or larger than the padded images.
    """
    if len(sizes) != count:
        raise ValueError(f"sizes must have one (height, width) for each of {count} images, got {len(sizes)}; give all.")
    groups: dict[Size, list[int]] = {}
    for index, (height, width) in enumerate(sizes):
        if not (0 < height <= whole[0] and 0 < width <= whole[1]):
            raise ValueError(
                f"sizes[{index}] must be between (1, 1) and the batch's {whole}, got {(height, width)}; give the "
                f"image's size in pixels without its padding."
            )
        groups.setdefault((int(height), int(width)), []).append(index)
    return groups


def take(maps: Tensor, members: Sequence[int], size: Size) -> Tensor:
    """The members' part of a batch, without padding.

    Args:
        maps: a padded batch ``(B, C, H, W)``.
        members: indices into the batch, ascending.
        size: height and width of what is kept, from the top left.
    """
    maps = maps[..., : size[0], : size[1]]
    return maps if len(members) == len(maps) else maps[list(members)]


def put_together(parts: Sequence[Tensor], groups: Mapping[Size, Sequence[int]], size: Size) -> Tensor:
    """The batch whose groups were worked on apart, zero where a group's maps are smaller.

    Args:
        parts: maps ``(members, C, h, w)`` of each group, in the groups' order.
        groups: the members of each group.
        size: height and width of the padded maps.
    """
    if len(parts) == 1 and tuple(parts[0].shape[-2:]) == size:
        return parts[0]
    batch = parts[0].new_zeros(sum(map(len, parts)), parts[0].shape[1], *size)
    for part, members in zip(parts, groups.values(), strict=True):
        batch[list(members), :, : part.shape[-2], : part.shape[-1]] = part
    return batch
