import torch

from src.data.batch import Item, UnreadableImage, collate_evaluation, collate_prediction, collate_training


def item(height: int, width: int, with_mask: bool = True) -> Item:
    values = Item(
        image=torch.rand(3, height, width) + 1,
        size=(height, width),
        original_size=(2 * height, 2 * width),
        name=f"{height}x{width}.jpg",
    )
    if with_mask:
        values["mask"] = torch.full((2 * height, 2 * width), 5)
    return values


def test_images_of_several_sizes_are_padded_with_zeros_at_the_right_and_bottom():
    items = [item(32, 48), item(48, 32)]
    batch = collate_evaluation(items)
    assert batch["images"].shape == (2, 3, 48, 48)
    assert torch.equal(batch["images"][0, :, :32], items[0]["image"])
    assert torch.equal(batch["images"][1, :, :, :32], items[1]["image"])
    assert (batch["images"][0, :, 32:] == 0).all()
    assert (batch["images"][1, :, :, 32:] == 0).all()
    assert batch["sizes"] == [(32, 48), (48, 32)]
    assert batch["original_sizes"] == [(64, 96), (96, 64)]
    assert batch["names"] == ["32x48.jpg", "48x32.jpg"]


def test_masks_keep_their_own_size_in_evaluation():
    batch = collate_evaluation([item(32, 48), item(40, 40)])
    assert [tuple(mask.shape) for mask in batch["masks"]] == [(64, 96), (80, 80)]


def test_masks_are_absent_in_prediction():
    assert "masks" not in collate_prediction([item(3, 4, with_mask=False)])


def test_images_that_cannot_be_read_are_told_beside_the_others():
    bad = UnreadableImage("bad.jpg", "it is cut")
    good = [item(8, 9, with_mask=False), item(7, 10, with_mask=False)]
    batch = collate_prediction([good[0], bad, good[1]])
    assert batch["unreadable"] == {"bad.jpg": "it is cut"}
    assert {key: batch[key] for key in ("names", "sizes")} == {
        "names": ["8x9.jpg", "7x10.jpg"],
        "sizes": [(8, 9), (7, 10)],
    }
    assert torch.equal(batch["images"], collate_prediction(good)["images"])


def test_a_batch_may_hold_no_image_that_can_be_read():
    batch = collate_prediction([UnreadableImage("a", "cut"), UnreadableImage("b", "empty")])
    assert batch["images"].shape[0] == len(batch["names"]) == len(batch["sizes"]) == 0
    assert batch["unreadable"] == {"a": "cut", "b": "empty"}


def test_masks_are_one_tensor_in_training():
    batch = collate_training([item(8, 8), item(8, 8)])
    assert isinstance(batch["masks"], torch.Tensor)
    assert batch["masks"].shape == (2, 16, 16)
    assert batch["masks"].dtype == torch.int64
