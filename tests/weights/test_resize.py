"""Fitting weights to another window, grid or number of channels."""

import pytest
import torch
import torch.nn.functional as F

from src.weights.resize import resized_channels, resized_embedding, resized_table


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "geometric"])
def test_a_constant_table_stays_constant(method):
    resized = resized_table(torch.full((169, 3), 0.25), (7, 7), (12, 5), method)
    assert resized.shape == (23 * 9, 3)
    assert torch.allclose(resized, torch.tensor(0.25), atol=1e-6)


def test_a_table_is_stretched_as_the_official_code_does():
    table = torch.randn(169, 3)
    grid = table.permute(1, 0).view(1, 3, 13, 13)
    expected = F.interpolate(grid, size=(23, 23), mode="bicubic").view(3, 529).permute(1, 0)
    assert torch.equal(resized_table(table, (7, 7), (12, 12), "bicubic"), expected)


def test_methods_differ():
    table = torch.randn(169, 1)
    first, second, third = (
        resized_table(table, (7, 7), (12, 12), method) for method in ("bicubic", "bilinear", "geometric")
    )
    assert not torch.allclose(first, second, atol=1e-3)
    assert not torch.allclose(first, third, atol=1e-3)


def test_a_table_of_half_precision_is_resized_in_single():
    assert resized_table(torch.ones(25, 1).half(), (3, 3), (4, 4), "bicubic").dtype == torch.float32


def test_an_embedding_is_stretched_along_both_axes():
    embed = torch.randn(1, 2, 4, 8)
    resized = resized_embedding(embed, (6, 16))
    assert resized.shape == (1, 2, 6, 16)
    assert torch.allclose(resized_embedding(torch.full((1, 2, 4, 8), 3.0), (6, 16)), torch.tensor(3.0), atol=1e-5)
    rising = resized_embedding(torch.arange(8.0).view(1, 1, 1, 8).expand(1, 2, 4, 8), (4, 16))
    assert (rising.diff(dim=3) > 0).all()


def convolved(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv2d(images, weight, stride=4)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 6, 7, 13])
def test_images_of_repeated_channels_give_what_they_gave(channels):
    weight = torch.randn(8, 3, 4, 4).double().float()
    image = torch.randn(2, 3, 16, 16)
    if channels == 1:
        image = image[:, :1].expand(2, 3, 16, 16)
        given = image[:, :1]
    else:
        given = image[:, torch.arange(channels) % 3]
    resized = resized_channels(weight, channels)
    assert resized.shape == (8, channels, 4, 4)
    assert torch.allclose(convolved(given, resized), convolved(image, weight), atol=1e-5)


def test_a_grey_weight_serves_colour():
    weight = torch.randn(8, 1, 4, 4)
    image = torch.randn(2, 1, 16, 16)
    assert torch.allclose(
        convolved(image.expand(2, 3, 16, 16), resized_channels(weight, 3)), convolved(image, weight), atol=1e-5
    )


def test_fewer_channels_keep_the_first_and_their_sum():
    weight = torch.rand(8, 4, 4, 4)
    assert torch.allclose(resized_channels(weight, 2), 2 * weight[:, :2])
