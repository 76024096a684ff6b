"""Writing of complete files: links, permissions, full disks, killed and concurrent writers."""

import errno
import multiprocessing
import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from structsvm import readers
from structsvm.common.files import beside, replacing
from structsvm.readers.store import check_store

LONG = "n" * 245  # with .npz and the like 249 bytes: legal everywhere, and 6 short of the limit


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "rows.txt"
    readers.write_letor(readers.make_ranking(12, 6, 3, random_state=0), path)
    return path


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", [LONG + ".npz", "é" * 120 + ".npz", "漢" * 85, "m"])
def test_every_name_that_a_file_can_have_can_be_written(name, tmp_path):
    path = tmp_path / name
    write(path, b"old")
    write(path)
    assert path.read_bytes() == b"new"
    data = readers.make_ranking(2, 3, 2, random_state=0)
    readers.write_store(data, tmp_path / "folder" if name == "m" else tmp_path / name[:-1])
    readers.write_store(data, tmp_path / "folder" if name == "m" else tmp_path / name[:-1])
    assert len(names(tmp_path)) == 2
    assert len(os.fsencode(beside(path, ".part").name)) <= 143


def test_a_disk_that_is_full_when_the_file_is_synchronised_leaves_the_old_file(tmp_path, monkeypatch):
    """Some file systems report a full disk only when the file is synchronised."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write(tmp_path / "m", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left.*m") as caught:
        write(tmp_path / "m")
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / "m").read_bytes() == b"old"
    assert names(tmp_path) == ["m"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "model.npz"
    (tmp_path / "second").symlink_to("there/model.npz")
    (tmp_path / "first.gz").symlink_to("second")
    write(tmp_path / "second", b"made")  # the target does not exist yet
    assert target.read_bytes() == b"made"
    write(tmp_path / "first.gz")  # the suffix of the name given decides
    assert target.read_bytes()[:2] == b"\x1f\x8b"
    assert (tmp_path / "first.gz").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert names(tmp_path / "there") == ["model.npz"]
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    with pytest.raises(OSError, match="not written; any earlier file is unchanged"):
        write(circle)


def test_a_link_to_a_store_stays_and_the_store_is_replaced(tmp_path, text):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/rows.store")
    for queries in (4, 5):
        readers.write_store(readers.make_ranking(queries, 3, 2, random_state=0), tmp_path / "link")
        assert readers.open_store(tmp_path / "there" / "rows.store").n_queries == queries
    readers.convert_letor(text, tmp_path / "link")
    assert readers.open_store(tmp_path / "link").n_queries == 12
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "there") == ["rows.store"]
    assert names(tmp_path) == ["link", "rows.txt", "there"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_permissions_survive(mode, tmp_path):
    path = tmp_path / "result"
    write(path)
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    made = tmp_path / "rows.store"
    data = readers.make_ranking(2, 3, 2, random_state=0)
    readers.write_store(data, made)
    for file in made.iterdir():
        file.chmod(mode)
    made.chmod(mode | 0o100)
    readers.write_store(data, made)
    assert stat.S_IMODE(made.stat().st_mode) == mode | 0o100
    assert {stat.S_IMODE(file.stat().st_mode) for file in made.iterdir()} == {mode}
    assert names(tmp_path) == ["result", "rows.store"]


def test_new_files_have_the_permissions_that_the_process_gives(tmp_path):
    earlier = os.umask(0o027)
    try:
        write(tmp_path / "result")
    finally:
        os.umask(earlier)
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o640


def test_a_folder_that_is_no_store_comes_back(tmp_path):
    path, part = tmp_path / "rows.store", tmp_path / "finished.part"
    readers.write_store(readers.make_ranking(2, 3, 2, random_state=0), part)
    path.mkdir()  # by somebody else, while the store was being written
    (path / "mine.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="expected a store to replace, got another file or folder"):
        readers.store_place.put_in_place(part, path, readers.store.is_store)
    assert (path / "mine.txt").read_text() == "kept"
    assert names(tmp_path) == ["finished.part", "rows.store"]


def endings(folder):
    return sorted(name[name.rindex(".") :] for name in names(folder))


def _killed(path, where):
    """Write a store in a process that is killed during a step of the replacement."""

    def kill(*args):
        os.kill(os.getpid(), signal.SIGKILL)

    rename = Path.rename
    if where == "between the renames":
        Path.rename = lambda self, to: kill() if to == path else rename(self, to)
    else:
        readers.store_place.discard = kill
    readers.write_store(readers.make_ranking(3, 3, 2, random_state=3), path)


@pytest.fixture
def kill_writer():
    context = multiprocessing.get_context("fork")

    def run(path, where):
        writer = context.Process(target=_killed, args=(path, where))
        writer.start()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL

    return run


@pytest.mark.parametrize("reader", [readers.open_store, readers.read_queries, check_store, "a writer"])
def test_a_store_is_back_after_a_writer_was_killed_between_two_renames(tmp_path, reader, kill_writer):
    path, like = tmp_path / f"{LONG[:40]}.store", tmp_path / f"{LONG[:40]}.other"
    readers.write_store(readers.make_ranking(2, 3, 2, random_state=2), path)
    kill_writer(path, "between the renames")
    assert not path.exists()
    assert endings(tmp_path) == [".old", ".part"]
    with pytest.raises(FileNotFoundError):
        readers.open_store(like)  # the same beginning of the name, but another store
    if reader == "a writer":
        readers.write_store(readers.make_ranking(4, 3, 2, random_state=4), path)
    else:
        reader(path)
    assert readers.open_store(path).n_queries == (4 if reader == "a writer" else 2)
    assert endings(tmp_path) == [".part", ".store"]


def test_what_a_killed_writer_set_aside_goes_with_a_later_one(tmp_path, kill_writer):
    path, like = tmp_path / f"{LONG[:40]}.store", tmp_path / f"{LONG[:40]}.other"
    for place in (path, like):
        readers.write_store(readers.make_ranking(2, 3, 2, random_state=2), place)
        kill_writer(place, "after them")
        assert readers.open_store(place).n_queries == 3
    assert endings(tmp_path).count(".old") == 2
    readers.write_store(readers.make_ranking(5, 3, 2, random_state=5), path)
    assert readers.open_store(path).n_queries == 5
    assert endings(tmp_path).count(".old") == 1
    readers.store_place.discard(like)
    assert readers.open_store(like).n_queries == 2


def test_threads_write_one_file(tmp_path):
    path = tmp_path / "result"
    threads = [threading.Thread(target=write, args=(path, bytes([65 + k]) * 100_000)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = path.read_bytes()
    assert len(content) == 100_000
    assert len(set(content)) == 1
    assert names(tmp_path) == ["result"]
