from pathlib import Path

import pytest
from drawn_files import save, texture

from src.data import ImageFolder


def test_images_of_all_folders_come_once_with_their_names(tmp_path: Path):
    for name, size in (("a.png", (9, 7)), ("b/c.jpg", (5, 8)), ("._a.png", (2, 2))):
        save(tmp_path / name, texture(size))
    data = ImageFolder(str(tmp_path), num_workers=0, eval_batch_size=2)
    data.setup("predict")
    (batch,) = data.predict_dataloader()
    assert batch["names"] == ["a.png", "b/c.jpg"]
    assert batch["sizes"] == batch["original_sizes"] == [(9, 7), (5, 8)]
    assert batch["images"].shape == (2, 3, 9, 8)
    assert "masks" not in batch


def test_it_serves_predict_only(tmp_path: Path):
    save(tmp_path / "a.png", texture((4, 4)))
    data = ImageFolder(str(tmp_path))
    assert data.num_classes == 0
    for use in (lambda: data.setup("fit"), lambda: data.setup("validate"), data.train_dataloader, data.val_dataloader):
        with pytest.raises(ValueError, match="ImageFolder has no masks and serves predict only"):
            use()


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"data.images must be a folder of images.*absent"):
        ImageFolder(str(tmp_path / "absent")).setup("predict")
