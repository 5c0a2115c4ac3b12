"""A session's folder: what a crash leaves, who holds its lock, and what is read of it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from control.sessions import folder as folders
from control.sessions import store as stores
from control.sessions.folder import SessionFolder
from control.sessions.manifest import Definition, Manifest, read_manifest
from control.sessions.store import SessionStore

Begun = Callable[..., SessionFolder]


class CrashError(BaseException):
    """The process ends here."""


def test_a_crash_while_a_session_is_made_leaves_its_name_free(
    store: SessionStore, define: Callable[..., Definition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step in turn, by each call that changes the disk."""
    for step in ("mkdir", "open", "posix_fallocate", "fsync", "write"):
        with monkeypatch.context() as patched:

            def crash(*_: object, **__: object) -> None:
                raise CrashError

            store.root.mkdir(exist_ok=True)
            owner = Path if step == "mkdir" else os
            patched.setattr(owner, step, crash)
            with pytest.raises(CrashError):
                store.create(define(), "here")
        assert store.names() == []
    store.create(define(), "here")
    assert store.names() == ["s"]
    store.clear()
    assert {path.name for path in store.root.iterdir()} == {"s", ".making"}


def test_half_a_session_that_was_left_takes_no_name(store: SessionStore, define: Callable[..., Definition]) -> None:
    """As older versions left it: a folder with a reserve and no definition."""
    (store.root / "s").mkdir(parents=True)
    (store.root / "s" / "reserve").write_bytes(b"")
    store.create(define(), "here")
    assert read_manifest(store.folder("s").manifest).state.state == "starting"


def test_a_session_that_is_there_is_not_replaced(store: SessionStore, define: Callable[..., Definition]) -> None:
    store.create(define(), "here")
    before = store.folder("s").definition.read_bytes()
    with pytest.raises(FileExistsError):
        store.create(define(), "here")
    assert store.folder("s").definition.read_bytes() == before
    assert not list(store.root.glob(".new-*"))


def test_of_many_who_make_one_session_one_does(store: SessionStore, define: Callable[..., Definition]) -> None:
    made, refused = [], []

    def make() -> None:
        try:
            made.append(store.create(define(), "here"))
        except FileExistsError as error:
            refused.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)


def test_a_crash_in_a_delete_blocks_no_other(begun: Begun, store: SessionStore) -> None:
    """Also with the process id of the one that crashed, as in a container."""
    left = begun().path.with_name(f".deleted-s-{os.getpid()}")
    left.mkdir()
    (left / "segment-000001.jsonl.gz").write_bytes(b"x")
    store.folder("s").remove()
    assert store.names() == []


def test_what_a_crash_left_is_removed_and_nothing_else(begun: Begun, store: SessionStore, tmp_path: Path) -> None:
    """A link is not followed, and what has another name stays."""
    begun()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"x")
    for name in (".new-a-1", ".deleted-b-2"):
        (store.root / name).mkdir()
        (store.root / name / "file").write_bytes(b"x")
    (store.root / ".export-abc").write_bytes(b"x")
    (store.root / ".new-link").symlink_to(elsewhere)
    (store.root / "another").mkdir()
    assert store.clear() == [".deleted-b-2", ".export-abc", ".new-a-1"]
    assert (elsewhere / "kept").exists()
    assert {path.name for path in store.root.iterdir()} == {"s", "another", ".making", ".new-link"}
    assert SessionStore(tmp_path / "none").clear() == []


def test_asking_whether_a_recorder_lives_keeps_nobody_from_starting_one(begun: Begun) -> None:
    """Three who ask without a pause, and one who takes the lock again and again."""
    folder = begun()
    enough, seen = threading.Event(), []

    def ask() -> None:
        while not enough.is_set():
            seen.append(folder.is_locked())

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        os.close(folder.take_lock())
    enough.set()
    for thread in threads:
        thread.join()
    assert not folder.is_locked()


def test_who_asks_sees_no_recorder_where_others_ask(begun: Begun) -> None:
    """Nobody holds it: not one of them is told that somebody does."""
    folder = begun()
    os.close(folder.take_lock())
    seen: list[bool] = []
    threads = [threading.Thread(target=lambda: seen.extend(folder.is_locked() for _ in range(300))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 900
    assert not any(seen)


def test_the_lock_lives_as_long_as_any_copy_of_it(begun: Begun) -> None:
    """A recorder that inherits it holds it when who took it has closed it."""
    folder = begun()
    lock = folder.take_lock()
    copy = os.dup(lock)
    os.close(lock)
    assert folder.is_locked()
    with pytest.raises(BlockingIOError):
        folder.take_lock()
    os.close(copy)
    assert not folder.is_locked()


def test_a_manifest_is_read_once_for_as_many_as_ask(
    begun: Begun, store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again when it is another."""
    folder = begun()
    lock = folder.take_lock()
    read: list[Path] = []

    def counted(path: Path) -> Manifest:
        read.append(path)
        return read_manifest(path)

    monkeypatch.setattr(stores, "read_manifest", counted)
    assert {store.state("s").state for _ in range(100)} == {"starting"}
    assert len(read) == 1
    manifest = read_manifest(folder.manifest)
    manifest.state = msgspec.structs.replace(manifest.state, state="recording")
    folder.replace(folder.manifest, msgspec.json.encode(manifest))
    assert {store.state("s").state for _ in range(100)} == {"recording"}
    assert len(read) == 2
    os.close(lock)
    assert store.state("s").state == "interrupted"


def test_states_that_are_kept_are_bounded(begun: Begun, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_KEPT", 3)
    locks = [begun(f"s{number}").take_lock() for number in range(6)]
    assert [store.state(name).name for name in store.names()] == [f"s{number}" for number in range(6)]
    assert len(store._states) == 3
    for lock in locks:
        os.close(lock)


def test_the_name_of_a_new_session_is_on_disk(
    store: SessionStore, define: Callable[..., Definition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that holds it is synced, after it has its name."""
    synced: list[tuple[str, list[str]]] = []
    sync = folders._sync

    def watched(folder: Path) -> None:
        synced.append((folder.name, store.names()))
        sync(folder)

    monkeypatch.setattr(folders, "_sync", watched)
    store.create(define(), "here")
    assert synced[-1] == (store.root.name, ["s"])
