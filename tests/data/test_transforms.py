import colorsys
import random

import cv2
import numpy as np
import pytest
from drawn_files import labels, texture

from src.data.transforms import BalancedCrop, PhotometricDistortion, RandomScale, RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing

PLAIN = RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=0, photometric=False)


def transform(
    settings: RecipeAugmentation = PLAIN, crop: int = 64, resize: tuple[int, int] | None = None, seed: int = 0
) -> TrainingTransform:
    return TrainingTransform(settings, Preprocessing(resize=resize), (crop, crop), seed)


def applied(step: object, image: np.ndarray, mask: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    step.set_random_state(np.random.default_rng(seed), random.Random(seed))
    result = step(image=image, mask=mask)
    return result["image"], result["mask"]


def test_scale_multiplies_the_resize_limits_and_keeps_the_aspect():
    step = RandomScale(Preprocessing(resize=(2048, 512)), (0.5, 2.0))
    sizes = [applied(step, texture((100, 150)), labels((100, 150), [0, 1]), seed)[0].shape[:2] for seed in range(60)]
    heights = [height for height, _ in sizes]
    assert 256 <= min(heights) < 300
    assert 950 < max(heights) <= 1024
    assert all(width == pytest.approx(1.5 * height, abs=1) for height, width in sizes)


@pytest.mark.parametrize("resize", [None, (80, 40)])
def test_the_scaled_size_is_known_before_the_image(resize: tuple[int, int] | None):
    settings = RecipeAugmentation(max_class_share=1)
    vary, sizes = transform(settings, crop=1000, resize=resize), set()
    for epoch in range(2):
        for index in range(10):
            sizes.add(vary.scaled_size((40, 50), epoch, index))
            pixels, mask = vary(texture((40, 50)), labels((40, 50), [0, 1]), epoch, index)
            assert vary.scaled_size((40, 50), epoch, index) == mask.shape == pixels.shape[:2]
    assert len(sizes) > 10


def test_an_image_at_a_part_of_its_size_changes_no_draw():
    vary, mask = transform(RecipeAugmentation(photometric=False), crop=32), labels((80, 100), range(4))
    for index in range(10):
        whole, reduced = (vary(np.full((*size, 3), 9, np.uint8), mask, 0, index) for size in ((80, 100), (40, 50)))
        assert all(np.array_equal(one, other) for one, other in zip(whole, reduced, strict=True))


def test_scale_multiplies_the_own_size_without_resize():
    step = RandomScale(Preprocessing(), (2.0, 2.0))
    image, mask = applied(step, texture((30, 41)), labels((30, 41), [0, 1]))
    assert image.shape == (60, 82, 3)
    assert mask.shape == (60, 82)


@pytest.mark.parametrize("size", [(17, 23), (64, 64)])
def test_resized_masks_hold_no_new_values(size: tuple[int, int]):
    step = RandomScale(Preprocessing(), (1, 1))
    rows, columns = np.indices((30, 40))
    checker = np.array([0, 2, 10], np.uint8)[(rows + columns) % 3]
    assert set(np.unique(step.apply_to_mask(checker, size))) <= {0, 2, 10}


def test_crop_avoids_crops_of_one_class():
    mask = np.zeros((200, 200), np.uint8)
    mask[:, 150:] = 1
    image = texture((200, 200))
    shares = {}
    for share in (0.75, 1.0):
        step = BalancedCrop((50, 50), share, tries=10)
        shares[share] = [np.bincount(applied(step, image, mask, seed)[1].ravel()).max() / 2500 for seed in range(40)]
    assert np.mean(np.array(shares[0.75]) <= 0.75) > 0.6
    assert np.mean(np.array(shares[1.0]) <= 0.75) < 0.4


def test_crop_counts_labelled_pixels_only():
    mask = np.full((60, 60), 255, np.uint8)
    mask[20:40, 20:40] = 0
    mask[20:40, 30:34] = 1
    step = BalancedCrop((30, 30), 0.75, tries=200)
    for seed in range(20):
        cut = applied(step, texture((60, 60)), mask, seed)[1]
        counts = np.bincount(cut[cut != 255])
        assert counts.max() <= 0.75 * counts.sum()


def test_crop_gives_up_after_its_tries():
    mask = np.zeros((60, 60), np.uint8)
    image, cut = applied(BalancedCrop((30, 30), 0.75, tries=3), texture((60, 60)), mask)
    assert image.shape == (30, 30, 3)
    assert cut.shape == (30, 30)


def test_more_tries_find_more_balanced_crops():
    mask = np.zeros((100, 100), np.uint8)
    mask[:20, :20] = 1
    found = {}
    for tries in (1, 50):
        step = BalancedCrop((20, 20), 0.75, tries)
        found[tries] = sum(applied(step, texture((100, 100)), mask, seed)[1].mean() > 0.25 for seed in range(20))
    assert found[1] < found[50]


def test_small_images_are_not_enlarged_by_the_crop():
    image, mask = transform()(texture((20, 30)), labels((20, 30), [0, 1]), 0, 0)
    assert image.shape == (20, 30, 3)
    assert mask.shape == (20, 30)


@pytest.mark.parametrize(("flip", "flipped"), [(0.0, 0), (1.0, 20)])
def test_flip_has_the_given_probability(flip: float, flipped: int):
    image, mask = texture((8, 9)), labels((8, 9), [0, 1])
    vary = transform(RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=flip, photometric=False))
    results = [vary(image, mask, 0, index) for index in range(20)]
    assert sum(np.array_equal(pixels, image[:, ::-1]) for pixels, _ in results) == flipped
    assert sum(np.array_equal(pixels, image) for pixels, _ in results) == 20 - flipped


def test_photometric_changes_the_image_and_not_the_mask():
    image, mask = texture((8, 9)), labels((8, 9), [0, 1])
    vary = transform(RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=0))
    results = [vary(image, mask, 0, index) for index in range(30)]
    assert sum(np.array_equal(pixels, image) for pixels, _ in results) < 8
    assert all(np.array_equal(varied, mask) for _, varied in results)
    assert np.array_equal(transform()(image, mask, 0, 0)[0], image)


def test_image_and_mask_stay_aligned():
    mask = np.kron(labels((12, 15), range(5), seed=1), np.ones((10, 10), np.uint8))
    image = np.repeat(mask[:, :, None] * 50, 3, axis=2)
    vary = transform(RecipeAugmentation(photometric=False))
    for index in range(10):
        pixels, varied = vary(image, mask, 0, index)
        kernel = np.ones((3, 3), np.uint8)
        inner = cv2.erode(varied, kernel) == cv2.dilate(varied, kernel)
        assert inner.mean() > 0.3
        assert np.array_equal(pixels[inner][:, 0], varied[inner] * 50)


def test_grey_images_keep_their_channel_axis():
    vary = TrainingTransform(RecipeAugmentation(), Preprocessing(mean=(0.0,), std=(1.0,)), (16, 16), 0)
    shapes = {vary(texture((30, 40), channels=1)[:, :, None], labels((30, 40), [0, 1]), 0, i)[0].ndim for i in range(9)}
    assert shapes == {3}


def naive_distortion(pixel: tuple[int, int, int], draws: dict) -> np.ndarray:
    """The published steps for one pixel, with each intermediate image in uint8 as there."""

    def changed(values: np.ndarray, factor: float = 1, offset: float = 0) -> np.ndarray:
        return np.array(
            [int(min(max(np.float32(v) * np.float32(factor) + np.float32(offset), 0), 255)) for v in values]
        )

    def through_hsv(values: np.ndarray, change: str) -> np.ndarray:
        hsv = cv2.cvtColor(np.uint8([[values]]), cv2.COLOR_RGB2HSV)[0, 0]
        if change == "saturation":
            hsv[1] = changed(hsv[1:2], draws["saturation"])[0]
        else:
            hsv[0] = (int(hsv[0]) + draws["hue"]) % 180
        return cv2.cvtColor(hsv[None, None], cv2.COLOR_HSV2RGB)[0, 0]

    values = np.array(pixel)
    if draws["brightness"] is not None:
        values = changed(values, offset=draws["brightness"])
    if draws["contrast"] is not None and not draws["contrast_last"]:
        values = changed(values, draws["contrast"])
    for change in ("saturation", "hue"):
        if draws[change] is not None:
            values = through_hsv(values, change)
    if draws["contrast"] is not None and draws["contrast_last"]:
        values = changed(values, draws["contrast"])
    return values


def test_photometric_distortion_equals_the_naive_steps():
    step = PhotometricDistortion()
    image = texture((4, 5))
    seen = set()
    for seed in range(60):
        step.set_random_state(np.random.default_rng(seed), random.Random(0))
        draws = step.get_params()
        seen.add(tuple(value is not None and value is not False for value in draws.values()))
        expected = [[naive_distortion(pixel, draws) for pixel in row] for row in image]
        assert np.array_equal(step.apply(image, **draws), np.array(expected))
    assert len(seen) > 20


def test_hue_turns_colours_and_saturation_greys_them():
    image = np.full((1, 1, 3), (200, 50, 50), np.uint8)
    still = {"brightness": None, "contrast": None, "saturation": None, "hue": None, "contrast_last": False}
    step = PhotometricDistortion()
    red, green, blue = (int(part) for part in step.apply(image, **still | {"hue": 18})[0, 0])
    assert colorsys.rgb_to_hsv(red, green, blue)[0] == pytest.approx(36 / 360, abs=0.01)
    greyer = step.apply(image, **still | {"saturation": 0.5})[0, 0]
    assert np.ptp(greyer) == pytest.approx(75, abs=2)
    assert np.array_equal(step.apply(image, **still), image)


def test_photometric_draws_span_the_published_ranges():
    step = PhotometricDistortion()
    step.set_random_state(np.random.default_rng(0), random.Random(0))
    draws = [step.get_params() for _ in range(2000)]
    for key, low, high in (("brightness", -32, 32), ("contrast", 0.5, 1.5), ("saturation", 0.5, 1.5), ("hue", -18, 18)):
        values = [draw[key] for draw in draws if draw[key] is not None]
        assert len(values) == pytest.approx(1000, abs=120)
        assert min(values) == pytest.approx(low, abs=0.02 * (high - low))
        assert max(values) == pytest.approx(high, abs=0.02 * (high - low))
    assert sum(draw["contrast_last"] for draw in draws) == pytest.approx(1000, abs=120)


def test_draws_are_independent_of_one_another():
    vary = transform(RecipeAugmentation(max_class_share=1), crop=1000)
    drawn = []
    for index in range(400):
        vary(texture((20, 30)), labels((20, 30), [0, 1]), 0, index)
        scale, _, flip, colours = vary._compose.transforms
        drawn.append(
            [scale.params["size"][0], bool(flip.params), colours.params["contrast_last"]]
            + [colours.params[key] is not None for key in ("brightness", "contrast", "saturation", "hue")]
        )
    correlation = np.corrcoef(np.array(drawn, float).T)
    assert np.abs(correlation - np.eye(7)).max() < 0.2


def test_draws_follow_from_seed_epoch_and_index():
    image, mask = texture((40, 50)), labels((40, 50), [0, 1])
    vary = transform(RecipeAugmentation(), crop=32)
    first = vary(image, mask, 3, 7)
    vary(image, mask, 0, 0)
    for pixels, same in zip(vary(image, mask, 3, 7), first, strict=True):
        assert np.array_equal(pixels, same)
    others = [transform(RecipeAugmentation(), 32, seed=1)(image, mask, 3, 7), vary(image, mask, 4, 7)]
    assert all(not np.array_equal(pixels, first[0]) for pixels, _ in [*others, vary(image, mask, 3, 8)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale_range": (2.0, 0.5)}, "data.augmentation.scale_range must rise"),
        ({"scale_range": (0.0, 0.5)}, "data.augmentation.scale_range must rise"),
        ({"max_class_share": 75}, "data.augmentation.max_class_share must be in 0..1, got 75"),
        ({"flip": -1}, "data.augmentation.flip must be in 0..1"),
        ({"crop_tries": 0}, "data.augmentation.crop_tries must be at least 1"),
    ],
)
def test_bad_settings_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        RecipeAugmentation(**arguments)
