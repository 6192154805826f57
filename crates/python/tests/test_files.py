"""Objects in files, whatever is under the path."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from samples import objects
from valkeybloom import Bloom


def test_files_that_are_not_there_or_hold_something_else(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    filter = Bloom(10, 0.1)
    for call, number, path in (
        (Bloom.load, errno.ENOENT, tmp_path / "none"),
        (Bloom.load, errno.EISDIR, tmp_path),
        (filter.save, errno.ENOENT, tmp_path / "none" / "file"),
        (filter.save, errno.EISDIR, tmp_path / "folder"),
        (filter.save, errno.ELOOP, tmp_path / "loop"),
    ):
        with pytest.raises(OSError) as caught:
            call(path)
        error = caught.value
        assert (error.errno, error.filename) == (number, str(path)) and type(error) is type(OSError(number, ""))
        assert str(error) == f"[Errno {number}] {os.strerror(number)}: {str(path)!r}"
    (tmp_path / "text").write_text("text")
    for one in objects():
        with pytest.raises(ValueError, match="^not a valkeybloom file, nor an encoded object$"):
            type(one).load(tmp_path / "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "loop", "text"]


def test_damage_to_a_file_is_noticed(tmp_path: Path) -> None:
    for one in objects():
        path = tmp_path / "file"
        # Files of earlier versions have these bytes.
        path.write_bytes(one.to_bytes())
        assert type(one).load(path) == one
        one.save(path)
        whole = path.read_bytes()
        for start in range(10, len(whole) - 8, 1 + len(whole) // 50):
            damaged = bytearray(whole)
            damaged[start] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="checksum"):
                type(one).load(path)
    seen = Bloom(100_000, 0.01)
    seen.update(range(100_000))
    seen.save(path)
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(bytes(4096))
    with pytest.raises(ValueError, match="checksum"):
        Bloom.load(path)


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    target, chain, whole = tmp_path / "data" / "file", tmp_path / "chain", tmp_path / "whole"
    (tmp_path / "link").symlink_to("data/file")
    chain.symlink_to(tmp_path / "link")
    whole.symlink_to(target)
    # At first there is nothing at its end.
    for link in (chain, tmp_path / "link", whole):
        one = Bloom(100, 0.01)
        one.save(link)
        assert link.is_symlink() and target.is_file() and not target.is_symlink()
        assert Bloom.load(link) == one == Bloom.load(target)
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for mode in (0o600, 0o664):
        path.chmod(mode)
        Bloom(100, 0.01).save(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    one = Bloom(100, 0.01)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # Open at both ends, so that nobody waits for the other end.
    with open(os.open(fifo, os.O_RDWR | os.O_NONBLOCK), "rb") as end:
        # As a shell names the pipe of `>(…)`.
        for name in (fifo, Path(f"/dev/fd/{end.fileno()}")):
            one.save(name)
            saved = os.read(end.fileno(), 2**16)
            (tmp_path / "file").write_bytes(saved)
            assert Bloom.load(tmp_path / "file") == one
    assert fifo.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "file"]


def test_an_open_file_is_written_to(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    one = Bloom(100, 0.01)
    with path.open("ab") as file:
        link.symlink_to(f"/dev/fd/{file.fileno()}")
        one.save(link)
    saved = path.read_bytes()
    assert saved.startswith(b"old") and Bloom.from_bytes(saved[3:]) == one
    assert link.is_symlink() and {path.name for path in tmp_path.iterdir()} == {"file", "link"}


def test_a_chain_of_links_is_as_long_as_the_system_allows(tmp_path: Path) -> None:
    links = [tmp_path / f"{number}" for number in range(42)]
    for before, link in zip(links, links[1:], strict=False):
        link.symlink_to(before)
    one = Bloom(100, 0.01)
    one.save(links[40])
    assert Bloom.load(links[0]) == one
    with pytest.raises(OSError) as raised:
        one.save(links[41])
    assert raised.value.errno == errno.ELOOP
    assert all(link.is_symlink() for link in links[1:])


SAVES = """
import sys
from valkeybloom import Bloom
one = Bloom.load(sys.argv[2])
for _ in range(200):
    one.save(sys.argv[1])
"""


def test_those_who_save_to_one_path_do_not_mix_their_files(tmp_path: Path) -> None:
    """Two threads, and two processes that are number 1 of their containers, where the system has those."""
    folder = tmp_path / "volume"
    folder.mkdir()
    path = folder / "file"
    objects = [Bloom(50_000 * number, 0.01) for number in range(1, 5)]
    for number, one in enumerate(objects):
        one.update(range(1000))
        one.save(tmp_path / f"source{number}")
    objects[0].save(path)
    contained = ["unshare", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*contained, "true"], capture_output=True).returncode:
        contained = []
    processes = [
        subprocess.Popen([*contained, sys.executable, "-c", SAVES, path, tmp_path / f"source{number}"])
        for number in (0, 1)
    ]
    threads = [threading.Thread(target=lambda one=one: [one.save(path) for _ in range(200)]) for one in objects[2:]]
    for thread in threads:
        thread.start()
    while any(process.poll() is None for process in processes) or any(thread.is_alive() for thread in threads):
        assert Bloom.load(path) in objects
    assert [process.returncode for process in processes] == [0, 0]
    assert [file.name for file in folder.iterdir()] == ["file"]


def test_files_may_have_any_name(tmp_path: Path) -> None:
    filter = Bloom(100, 0.01)
    filter.add("a")
    for name in ["x" * 226, "x" * 227, "x" * 255, "é" * 127, "x" + "漢" * 84, "\udcff" * 255]:
        for path in (tmp_path / name, os.fsencode(tmp_path / name), str(tmp_path / name)):
            for _ in range(2):
                filter.save(path)
                assert Bloom.load(path) == filter
            assert list(tmp_path.iterdir()) == [tmp_path / name]
        (tmp_path / name).unlink()
    with pytest.raises(OSError, match="File name too long"):
        filter.save(tmp_path / ("x" * 256))
    for wrong in (5, None, ["a"]):
        with pytest.raises(TypeError):
            filter.save(wrong)
