import errno
import gc
import os
import weakref
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from lightning.pytorch import Trainer
from PIL import Image
from small_jobs import draw_images, run_job
from torch.nn.functional import one_hot

from src.callbacks import PredictionWriter
from src.classes import ClassList
from src.data import ImageFolder, Pair
from src.image_io import read_image, read_mask
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation


def predict(task: SemanticSegmentation, images: Path, writer: PredictionWriter) -> object:
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[writer])
    return trainer.predict(task, ImageFolder(str(images), num_workers=0), return_predictions=False)


@pytest.fixture
def task(tiny_segmenter):
    return SemanticSegmentation(tiny_segmenter(3), ClassList(tuple("abc"), ((1, 2, 3), (40, 50, 60), (7, 8, 9))))


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    for name, size in {"97x143.png": (97, 143), "deep/er/500x33.jpg": (500, 33), "1x1.PNG": (1, 1)}.items():
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)
    return tmp_path / "images"


def test_each_mask_has_the_images_size_and_path_and_the_palette(task, images, tmp_path):
    assert predict(task, images, PredictionWriter(str(tmp_path / "out"))) is None
    written = {
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert written == {"97x143.png", "deep/er/500x33.png", "1x1.png", "classes.txt", ".predict.json"}
    for name, size in {"97x143.png": (97, 143), "deep/er/500x33.png": (500, 33), "1x1.png": (1, 1)}.items():
        with Image.open(tmp_path / "out" / name) as mask:
            assert (mask.mode, (mask.height, mask.width)) == ("P", size)
            assert mask.getpalette()[:9] == [1, 2, 3, 40, 50, 60, 7, 8, 9]
            assert set(np.unique(np.asarray(mask))) <= {0, 1, 2}


def test_overlays_on_request_show_image_and_mask(task, images, tmp_path):
    predict(task, images, PredictionWriter(str(tmp_path / "out"), overlay=True))
    with Image.open(tmp_path / "out" / "97x143_overlay.jpg") as overlay:
        assert overlay.size == (143, 97)
    assert (tmp_path / "out" / "deep" / "er" / "500x33_overlay.jpg").is_file()


class Inverted(ImageFolder):
    """A data set with a reader of its own."""

    @staticmethod
    def read_image(path, channels=3):
        return 255 - read_image(path, channels)


def test_overlays_show_what_the_data_sets_own_reader_reads(task, images, tmp_path):
    for data, name in ((ImageFolder, "plain"), (Inverted, "inverted")):
        writer = PredictionWriter(str(tmp_path / name), overlay=True)
        trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[writer])
        trainer.predict(task, data(str(images), num_workers=0), return_predictions=False)
    image = read_image(images / "97x143.png")
    for name, expected in (("plain", image), ("inverted", 255 - image)):
        overlay = read_image(tmp_path / name / "97x143_overlay.jpg").astype(int)
        assert np.corrcoef(overlay.ravel(), expected.ravel())[0, 1] > 0.3


@pytest.mark.parametrize("place", ["", "masks", "deep/er"])
def test_writes_nothing_among_the_images(task, images, place):
    with pytest.raises(ValueError, match="output must not lie in the folder of the images"):
        predict(task, images, PredictionWriter(str(images / place), overlay=True))


def test_a_folder_that_cannot_be_written_is_named_before_the_first_image(task, images, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"output must be a folder to write to, got .*file"):
        predict(task, images, PredictionWriter(str(tmp_path / "file")))


def test_an_output_without_a_name_is_refused():
    with pytest.raises(ValueError, match="output must be a folder for the masks, got an empty name"):
        PredictionWriter("")


def test_masks_may_lie_beside_single_images_and_around_their_folder(task, images, tmp_path):
    run_job(f"{images}/*.png", images / "masks", task)
    assert (images / "masks" / "97x143.png").is_file()
    run_job(images / "deep", tmp_path, task)
    assert (tmp_path / "er" / "500x33.png").is_file()


@pytest.mark.parametrize("pattern", ["deep/**", "**/*.jpg"])
def test_masks_may_not_lie_where_a_pattern_would_find_them(task, images, pattern):
    with pytest.raises(ValueError, match="output must not lie in the folder of the images"):
        run_job(f"{images}/{pattern}", images / "deep" / "masks", task)


def test_no_mask_replaces_an_image_even_when_asked_to_overwrite(task, images):
    before = (images / "97x143.png").read_bytes()
    with pytest.raises(ValueError, match=r"output must not hold the images, got .*97x143\.png"):
        run_job(images / "97x143.png", images, task, writer={"overwrite": True})
    assert (images / "97x143.png").read_bytes() == before


@pytest.mark.parametrize(
    ("code", "said"),
    [(errno.ENOSPC, r"No space left on device; \d+ bytes are free"), (errno.EROFS, "Read-only file system")],
)
def test_a_folder_that_takes_no_more_ends_the_job_without_half_a_file(task, images, tmp_path, monkeypatch, code, said):
    def broken(self, data):
        with self.open("wb") as file:
            file.write(data[:9])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(ValueError, match=rf"output must be a folder to write to, got .*1x1.png cannot be .*{said}"):
        run_job(images, tmp_path / "out", task)
    left = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert left == {".predict.json", "classes.txt"}


def test_images_that_cannot_be_read_are_named_and_the_rest_is_done(task, tmp_path, capsys):
    images = draw_images(tmp_path / "images", {f"{index}.jpg": (20, 30) for index in range(5)})
    (images / "1.jpg").write_bytes((images / "0.jpg").read_bytes()[:300])
    for name in ("3.jpg", "4.jpg"):
        (images / name).write_bytes(b"")
    output = tmp_path / "out"
    writer = run_job(images, output, task, eval_batch_size=2)  # one readable, one readable, none readable
    assert list(writer.failures) == ["1.jpg", "3.jpg", "4.jpg"]
    assert {path.name for path in output.glob("*.png")} == {"0.png", "2.png"}
    assert f"2 masks: {output} (3 images failed, see {output / 'failed.txt'}; " in (printed := capsys.readouterr().out)
    listed = (output / "failed.txt").read_text().splitlines()
    assert [line.partition(": ")[0] for line in listed] == list(writer.failures)
    assert all(f"failed: {line}" in printed for line in listed)
    draw_images(images, dict.fromkeys(writer.failures, (20, 30)))
    assert run_job(images, output, task).failures == {}
    assert not (output / "failed.txt").exists()
    assert len(list(output.glob("*.png"))) == 5


def test_a_name_too_long_for_the_file_system_fails_alone(task, tmp_path):
    longest = "x" * 251
    images = draw_images(tmp_path / "images", {f"{longest}.png": (9, 9), "a.png": (9, 9)})
    assert run_job(images, tmp_path / "out", task).failures == {}
    writer = run_job(images, tmp_path / "out", task, writer={"overlay": True})
    assert list(writer.failures) == [f"{longest}.png"]
    assert "x_overlay.jpg is too long to be written" in writer.failures[f"{longest}.png"]
    assert (tmp_path / "out" / "a_overlay.jpg").is_file()


class Vanishing(ImageFolder):
    """Images that can be read once."""

    read: ClassVar[set[Path]] = set()

    @staticmethod
    def read_image(path, channels=3):
        if path in Vanishing.read:
            raise FileNotFoundError(f"{path} is gone")
        Vanishing.read.add(path)
        return read_image(path, channels)


def test_an_image_that_is_gone_before_its_overlay_fails_and_keeps_its_mask(task, images, tmp_path):
    writer = run_job(images, tmp_path / "out", task, data=Vanishing, writer={"overlay": True})
    assert len(writer.failures) == 3
    assert writer.failures["1x1.PNG"].endswith("1x1.PNG is gone")
    assert (tmp_path / "out" / "1x1.png").is_file()


def test_loaders_without_their_data_module_are_refused(task, images, tmp_path):
    trainer = Trainer(accelerator="cpu", logger=False, callbacks=[PredictionWriter(str(tmp_path / "out"))])
    loader = ImageFolder(str(images), num_workers=0).predict_dataloader()
    with pytest.raises(ValueError, match="must be given a SegmentationDataModule to write masks, got None"):
        trainer.predict(task, loader)


def test_errors_that_are_not_of_the_images_end_the_job(task, images, tmp_path, monkeypatch):
    monkeypatch.setattr(task, "predict_labels", lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_job(images, tmp_path / "out", task)


def test_only_what_was_written_is_counted(task, images, tmp_path, capsys):
    run_job(images, tmp_path / "out", task, trainer={"limit_predict_batches": 2})
    assert f"2 masks: {tmp_path / 'out'} (" in capsys.readouterr().out
    assert len(list((tmp_path / "out").rglob("*.png"))) == 2


class Named(ImageFolder):
    """A data set that gives names of its own."""

    names: tuple[str, ...] = ()

    def pairs(self, split):
        return [Pair(name, pair.image) for name, pair in zip(self.names, super().pairs(split), strict=False)]


def test_a_data_set_may_name_its_images_as_it_likes(task, images, tmp_path, monkeypatch):
    monkeypatch.setattr(Named, "names", ("far/away/from/where/it/lies/on/any/disk/a.tif", "b"))
    monkeypatch.chdir(images)
    run_job(".", tmp_path / "out", task, data=Named)
    assert (tmp_path / "out" / "far/away/from/where/it/lies/on/any/disk/a.png").is_file()
    assert (tmp_path / "out" / "b.png").is_file()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a.png", "../b.png"), "must lie inside their folder, got '../b.png'"),
        (("a.png", "a.png"), "must be unique, got 'a.png'"),
    ],
)
def test_names_that_leave_the_folder_or_come_twice_are_refused_before_anything_is_written(
    task, images, tmp_path, monkeypatch, names, said
):
    monkeypatch.setattr(Named, "names", names)
    with pytest.raises(ValueError, match=said):
        run_job(images, tmp_path / "new" / "out", task, data=Named)
    assert not (tmp_path / "new").exists()


def test_every_mask_belongs_to_the_image_of_its_name_in_batches_of_three(task, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for value in range(7):
        Image.new("RGB", (9 + value, 8), (value, 0, 0)).save(tmp_path / "in" / f"image {value}.png")
    task.classes = ClassList.from_names(list("abcdefg"))
    by_colour = lambda images, sizes: one_hot(images[:, 0].long(), 7).permute(0, 3, 1, 2).float()  # noqa: E731
    monkeypatch.setattr(task, "forward", by_colour)
    monkeypatch.setattr(task.model, "true_region", lambda logits, size: logits[:, :, : size[0], : size[1]])
    unchanged = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
    run_job(tmp_path / "in", tmp_path / "out", task, eval_batch_size=3, preprocessing=unchanged)
    for value in range(7):
        mask = np.asarray(Image.open(tmp_path / "out" / f"image {value}.png"))
        assert mask.shape == (8, 9 + value)
        assert (mask == value).all()


def test_no_logits_are_left_in_memory(task, images, tmp_path, monkeypatch):
    logits, forward = [], SemanticSegmentation.forward
    monkeypatch.setattr(
        SemanticSegmentation,
        "forward",
        lambda *inputs: logits.append(weakref.ref(result := forward(*inputs))) or result,
    )
    run_job(images, tmp_path / "out", task)
    gc.collect()
    assert len(logits) == 3
    assert [reference() for reference in logits] == [None] * 3


def test_classes_txt_beside_the_masks_reads_as_the_class_list(task, images, tmp_path):
    task.classes = ClassList(("sky", "a road", "x"), ((1, 2, 3), (9, 9, 9), (0, 0, 0)), (3, 255, 0), (("s",), (), ()))
    run_job(images, tmp_path / "out", task)
    assert ClassList.from_file(tmp_path / "out" / "classes.txt") == task.classes
    assert set(np.unique(read_mask(tmp_path / "out" / "97x143.png"))) <= {3, 255, 0}


def test_classes_that_no_mask_can_hold_are_refused_before_the_first_image(task, images, tmp_path):
    task.classes = ClassList(tuple("abc"), ((0, 0, 0),) * 3, (0, 1, 70000))
    with pytest.raises(ValueError, match="class ids must be at most 65535"):
        run_job(images, tmp_path / "out", task)
    assert not (tmp_path / "out").exists()


def test_a_name_with_control_characters_stays_one_line_and_steers_no_terminal(task, tmp_path, capsys):
    images = draw_images(tmp_path / "images", {"a.png": (9, 9)})
    for name in ("two\nlines.png", "red\x1b[31m.png", "return\r.png", "parted\u2028.png", "größer 图.png"):
        (images / name).write_bytes(b"")
    run_job(images, tmp_path / "out", task)
    lines = (tmp_path / "out" / "failed.txt").read_text("utf-8").splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "größer 图.png",
        r"parted\u2028.png",
        r"red\x1b[31m.png",
        r"return\r.png",
        r"two\nlines.png",
    ]
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
