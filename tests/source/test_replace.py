"""Writing files: whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from modellint.atomic_write import ReplaceError, remove_leftovers, replace_file

OLD, NEW = b"old\r\n" * 3, b"new\n" * 5
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_bytes(OLD)
    return path


def test_the_bytes_are_replaced_and_nothing_else_is_left(file: Path) -> None:
    replace_file(file, OLD, NEW)
    assert file.read_bytes() == NEW
    assert os.listdir(file.parent) == ["net.py"]  # noqa: PTH208
    replace_file(str(file), NEW, b"")
    assert file.read_bytes() == b""


def test_a_file_that_has_changed_since_is_left_alone(file: Path) -> None:
    file.write_bytes(b"someone else's")
    with pytest.raises(ReplaceError, match="changed since"):
        replace_file(file, OLD, NEW)
    assert file.read_bytes() == b"someone else's"
    assert len(list(file.parent.iterdir())) == 1


def test_a_file_that_changes_while_it_is_written_is_left_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        file.write_bytes(b"just saved")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ReplaceError, match="changed since"):
        replace_file(file, OLD, NEW)
    assert file.read_bytes() == b"just saved"
    assert len(list(file.parent.iterdir())) == 1


@pytest.mark.parametrize("step", ["write", "fsync", "open"])
def test_an_error_on_the_way_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, OLD, NEW)
    monkeypatch.undo()
    assert file.read_bytes() == OLD
    assert len(list(file.parent.iterdir())) == 1


@posix
@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_the_mode_is_kept(file: Path, mode: int) -> None:
    file.chmod(mode)
    replace_file(file, OLD, NEW)
    assert stat.S_IMODE(file.stat().st_mode) == mode


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(file: Path) -> None:
    os.chown(file, 1234, 5678)
    replace_file(file, OLD, NEW)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 5678)


@posix
def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link, second = folder / "link.py", folder / "second.py"
    link.symlink_to(file)
    second.symlink_to("link.py")
    replace_file(second, OLD, NEW)
    assert link.is_symlink()
    assert second.is_symlink()
    assert file.read_bytes() == NEW
    assert sorted(path.name for path in folder.iterdir()) == ["link.py", "second.py"]


@posix
def test_read_only_and_irregular_files_are_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReplaceError, match="regular"):
        replace_file(tmp_path, OLD, NEW)
    # Root may write any file: what the system would tell another user.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ReplaceError, match="read-only"):
        replace_file(file, OLD, NEW)
    assert file.read_bytes() == OLD


def test_a_file_that_is_gone_stays_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "gone.py", OLD, NEW)
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_very_long_name_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".py")
    path.write_bytes(OLD)
    replace_file(path, OLD, NEW)
    assert path.read_bytes() == NEW


LEFTOVER = ".modellint-12-0123456789abcdef.tmp"


def test_leftovers_are_removed_and_nothing_that_only_looks_like_one(file: Path) -> None:
    names = {".modellint-12-xyz.tmp", "modellint-1-0123456789abcdef.tmp", LEFTOVER + ".py", ".modellint.tmp"}
    for name in {*names, LEFTOVER}:
        (file.parent / name).write_bytes(b"half")
    replace_file(file, OLD, NEW)
    assert {path.name for path in file.parent.iterdir()} == {*names, "net.py"}


@posix
def test_what_another_run_is_writing_is_not_a_leftover(tmp_path: Path) -> None:
    import fcntl

    (tmp_path / LEFTOVER).write_bytes(b"half")
    (tmp_path / LEFTOVER.replace("12", "13")).symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_bytes(b"")
    with (tmp_path / LEFTOVER).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
        assert (tmp_path / LEFTOVER).exists()
    remove_leftovers(tmp_path)
    assert not (tmp_path / LEFTOVER).exists()
    assert (tmp_path / "precious").exists()
