import pytest
import torch

from src.models.size_groups import group_by_size, put_together, take


def test_groups_keep_the_order_of_the_images():
    groups = group_by_size([(3, 4), (2, 2), (3, 4)], 3, (4, 4))
    assert groups == {(3, 4): [0, 2], (2, 2): [1]}


def test_taking_and_putting_together_gives_the_batch_without_its_padding():
    batch = torch.arange(3.0 * 4 * 4).reshape(3, 1, 4, 4) + 1
    groups = group_by_size([(3, 4), (2, 2), (3, 4)], 3, (4, 4))
    parts = [take(batch, members, size) for size, members in groups.items()]
    result = put_together(parts, groups, (4, 4))
    for index, (height, width) in enumerate([(3, 4), (2, 2), (3, 4)]):
        assert torch.equal(result[index, :, :height, :width], batch[index, :, :height, :width])
        assert result[index].count_nonzero() == height * width


def test_a_single_group_of_full_size_is_not_copied():
    batch = torch.zeros(2, 1, 4, 4)
    assert put_together([batch], {(4, 4): [0, 1]}, (4, 4)) is batch


@pytest.mark.parametrize("size", [(0, 4), (5, 4), (4, 5)])
def test_sizes_beyond_the_batch_are_refused(size):
    with pytest.raises(ValueError, match=r"sizes\[1\] must be between"):
        group_by_size([(4, 4), size], 2, (4, 4))


def test_a_missing_size_is_refused():
    with pytest.raises(ValueError, match="for each of 2 images, got 1"):
        group_by_size([(4, 4)], 2, (4, 4))
