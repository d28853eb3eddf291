import numpy as np
import pytest
import torch
from torch.nn import functional as F

from src.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing


def picture(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((512, 683), (512, 683)),
        ((256, 341), (512, 682)),
        ((1000, 500), (1024, 512)),
        ((100, 2000), (102, 2048)),
        ((500, 333), (769, 512)),
        ((1, 5000), (1, 2048)),
    ],
)
def test_keep_ratio_sizes(size: tuple[int, int], expected: tuple[int, int]):
    assert Preprocessing(resize=(2048, 512)).input_size(size) == expected
    assert Preprocessing(resize=(512, 2048)).input_size(size) == expected
    assert Preprocessing().input_size(size) == size


def test_normalises_each_channel():
    image = picture(7, 5)
    expected = (image.astype(np.float64) - IMAGENET_MEAN) / IMAGENET_STD
    tensor = Preprocessing()(image)
    assert tensor.dtype == torch.float32
    assert tensor.shape == (3, 7, 5)
    np.testing.assert_allclose(tensor.permute(1, 2, 0).numpy(), expected, atol=1e-5)


def test_resizes_bilinearly_between_pixel_centres():
    image = np.array([[[0], [100]]], np.uint8)
    tensor = Preprocessing(resize=(4, 2), mean=(0.0,), std=(1.0,))(image)
    assert tensor.shape == (1, 2, 4)
    np.testing.assert_allclose(tensor[0, 0].numpy(), [0, 25, 75, 100])


def test_arrays_tensors_and_mirrored_views_agree():
    image = picture(6, 9)
    preprocessing = Preprocessing(resize=(20, 10))
    image.flags.writeable = False
    expected = preprocessing(image)
    assert torch.equal(preprocessing(torch.tensor(image)), expected)
    assert torch.equal(preprocessing(image[:, ::-1][:, ::-1]), expected)


def test_channels_follow_the_mean():
    grey = Preprocessing(mean=(100.0,), std=(50.0,))
    assert grey.channels == 1
    assert grey(picture(3, 4, 1)).shape == (1, 3, 4)
    with pytest.raises(ValueError, match=r"image must be \(H, W, 1\) of uint8, got \(3, 4, 3\)"):
        grey(picture(3, 4))


@pytest.mark.parametrize("image", [np.zeros((4, 4, 3), np.float32), np.zeros((4, 4), np.uint8)])
def test_other_types_and_shapes_are_refused(image: np.ndarray):
    with pytest.raises(ValueError, match="image must be"):
        Preprocessing()(image)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resize": (0, 5)}, "preprocessing.resize must be two sizes"),
        ({"resize": (5,)}, "preprocessing.resize must be two sizes"),
        ({"mean": (1.0,)}, "preprocessing.mean and preprocessing.std"),
        ({"std": (1.0, 0.0, 1.0)}, "preprocessing.std must be above 0"),
    ],
)
def test_bad_settings_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Preprocessing(**arguments)


def test_dict_has_plain_types_and_comes_back():
    preprocessing = Preprocessing(resize=(2048, 512), mean=(1.0, 2.0), std=(3.0, 4.0))
    assert preprocessing.to_dict() == {"resize": [2048, 512], "mean": [1.0, 2.0], "std": [3.0, 4.0]}
    assert Preprocessing.from_dict(preprocessing.to_dict()) == preprocessing
    assert Preprocessing.from_dict(Preprocessing().to_dict()) == Preprocessing()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [(1, 1), (1, 53), (61, 2), (37, 90), (300, 7)])
def test_resizing_gives_the_numbers_of_the_plain_order_of_memory(size: tuple[int, int], channels: int):
    image = picture(*size, channels)
    preprocessing = Preprocessing(
        resize=(100, 40), mean=(100.0, 110.0, 90.0, 5.0, 7.0)[:channels], std=(50.0,) * channels
    )
    planes = torch.tensor(image).permute(2, 0, 1).float().contiguous()
    expected = F.interpolate(planes[None], preprocessing.input_size(size), mode="bilinear", align_corners=False)[0]
    expected = (expected - torch.tensor(preprocessing.mean)[:, None, None]) / 50
    given = preprocessing(image)
    assert torch.equal(given, expected)
    assert given.is_contiguous()


@pytest.mark.parametrize("size", [(1, 6), (6, 1), (1, 1), (5, 6)])
def test_mirrored_views_of_one_row_or_column_are_taken(size: tuple[int, int]):
    image = picture(*size)
    for view in (image[:, ::-1], image[::-1], image[::-1, ::-1]):
        assert torch.equal(Preprocessing()(view), Preprocessing()(view.copy()))


@pytest.mark.parametrize("resize", [None, (20, 10)])
def test_the_given_pixels_stay_as_they_are(resize: tuple[int, int] | None):
    image = torch.tensor(picture(6, 9, 1))
    before = image.clone()
    Preprocessing(resize=resize, mean=(9.0,), std=(2.0,))(image)
    Preprocessing(mean=(9.0,), std=(2.0,)).normalise(image)
    assert torch.equal(image, before)
