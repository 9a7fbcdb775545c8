"""What `--input` says, and the tensors that come of it."""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from modellint.live.inputs import input_spec
from modellint.live.inputs.input_spec import InputError, build, flexible, parse, parse_all

HERE = Path()


def tensor(text: str, seed: int = 0, device: str = "cpu") -> Any:
    made = build([parse(text, HERE)], seed, device)
    (value,) = [*made.args, *made.kwargs.values()]
    return value


def test_floats_are_normal() -> None:
    x = tensor("64x3x32x32")
    assert (x.shape, x.dtype) == ((64, 3, 32, 32), torch.float32)
    assert abs(float(x.mean())) < 0.05
    assert abs(float(x.std()) - 1) < 0.05


@pytest.mark.parametrize("dtype", list(input_spec.SIZES))
def test_every_type(dtype: str) -> None:
    x = tensor(f"x=2x3:{dtype}")
    assert x.dtype == getattr(torch, dtype)
    assert parse(f"2x3:{dtype}", HERE).size == x.numel() * x.element_size()


def test_ranges() -> None:
    ids = tensor("ids=1x4000:int64[5,8)")
    assert set(ids.unique().tolist()) == {5, 6, 7}
    assert set(tensor("100:int64").unique().tolist()) == {0, 1}
    assert set(tensor("100:bool").unique().tolist()) == {False, True}
    x = tensor("x=4000:float32[-2,0.5)")
    assert -2 <= float(x.min()) < -1.9
    assert 0.4 < float(x.max()) < 0.5
    assert int(tensor("4000:uint8[250,256)").max()) == 255


def test_seed_decides() -> None:
    assert torch.equal(tensor("2x3"), tensor("2x3"))
    assert not torch.equal(tensor("2x3"), tensor("2x3", seed=1))
    both = build(parse_all(["2x3", "2x3"], HERE), 0)
    assert not torch.equal(*both.args)


def test_drawing_leaves_the_random_state() -> None:
    state = torch.random.get_rng_state()
    tensor("2x3")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_names_and_positions_mix() -> None:
    made = build(parse_all(["1x2", "mask=1x2:bool", "1x3"], HERE), 0)
    assert [tuple(x.shape) for x in made.args] == [(1, 2), (1, 3)]
    assert list(made.kwargs) == ["mask"]


def test_flexible_dimensions() -> None:
    specs = parse_all(["1..8x3x224", "ids=2x4..16:int64"], HERE)
    assert flexible(specs) == {"0": {0: (1, 8)}, "ids": {1: (4, 16)}}
    made = build(specs, 0)
    assert made.args[0].shape == (1, 3, 224)
    assert made.kwargs["ids"].shape == (2, 4)


def test_meta_takes_no_memory() -> None:
    x = tensor("1024x3x65536x65536", device="meta")
    assert (x.device.type, x.shape) == ("meta", (1024, 3, 65536, 65536))


def test_files_of_tensors(tmp_path: Path) -> None:
    x, y = torch.ones(2), torch.zeros(3)
    for value in (x, (x, y), {"x": x, "y": y}):
        torch.save(value, tmp_path / "batch.pt")
        made = build([parse("@batch.pt", tmp_path)], 0)
        assert len(made.args) + len(made.kwargs) == (1 if value is x else 2)
        assert set(made.kwargs) == (set(value) if isinstance(value, dict) else set())
    named = build([parse("batch=@batch.pt", tmp_path)], 0)
    assert set(named.kwargs["batch"]) == {"x", "y"}


class Trap:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_pickled_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "batch.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(InputError, match=r"@batch\.pt: cannot be loaded with weights_only=True"):
        build([parse("@batch.pt", tmp_path)], 0)
    assert not (tmp_path / "sprung").exists()


def png(path: Path, width: int, height: int) -> None:
    rows = b"".join(b"\0" + b"\xff\x80\x00" * width for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def test_images(tmp_path: Path) -> None:
    png(tmp_path / "photo.png", 5, 4)
    spec = parse("photo.png:2x3x8x6", tmp_path)
    try:
        import PIL  # noqa: F401
    except ImportError:
        with pytest.raises(InputError, match="needs Pillow: pip install pillow"):
            build([spec], 0)
        return
    x = build([spec], 0).args[0]
    assert x.shape == (2, 3, 8, 6)
    assert x[1, :, 3, 3].tolist() == pytest.approx([1.0, 128 / 255, 0.0])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "nothing|no dimension|no shape"),
        ("x=", "nothing stands behind"),
        ("1x", "'' is no dimension"),
        ("1x-3", "'-3' is no dimension"),
        ("axb", "'a' is no dimension"),
        ("1x3:flaot32", "unknown type 'flaot32'; did you mean 'float32'"),
        ("1x3:", "unknown type ''"),
        ("8..1x3", "must end above its beginning"),
        ("4..4x3", "must end above its beginning"),
        ("1x3:int64[0,1000]", "not written as"),
        ("1x3:int64[5,5)", "is empty"),
        ("1x3:int64[0.5,2)", "whole ends"),
        ("1x3:int8[0,1000)", "wider than int8"),
        ("1x3:bool[0,1)", "takes no range"),
        ("@nowhere.pt", "no such file"),
        ("nowhere.png:1x3x2x2", "no such file"),
        ("photo.png", "needs the shape"),
        ("photo.png:1x2x2x2", "channels"),
        ("photo.png:1x3x2x2:int64", "cannot hold"),
    ],
)
def test_wrong_specs_say_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    png(tmp_path / "photo.png", 2, 2)
    with pytest.raises(InputError, match=why) as caught:
        parse(text, tmp_path)
    assert str(caught.value).startswith(f"--input {text}:")


def test_a_name_is_given_once() -> None:
    with pytest.raises(InputError, match="given twice"):
        parse_all(["x=1x2", "x=1x3"], HERE)
