"""A store: files whole or not at all, manifests created and never replaced, in a folder as in a bucket."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.history import manifest as manifests
from paceline.history.manifest import Manifest
from paceline.history.store import ConflictError, Store, StoreError, open_store

PATH = manifests.data_path("op", "2026-11-25", "lab/2", "1-0")


@pytest.mark.slow
def test_what_is_committed_is_the_newest(any_store: Callable[[], Store]):
    store = any_store()
    assert store.newest() is None
    for version in (1, 2, 10):
        store.commit(Manifest(version=version, time_s=float(version)))
    assert any_store().newest() == Manifest(version=10, time_s=10.0)
    assert store.versions() == [1, 2, 10]


@pytest.mark.long
def test_of_two_that_write_the_same_version_the_second_is_told(any_store: Callable[[], Store]):
    any_store().commit(Manifest(version=1, time_s=1.0))
    with pytest.raises(ConflictError, match="somebody else has written version 1; one `paceline archive` at a time"):
        any_store().commit(Manifest(version=1, time_s=2.0))
    assert any_store().newest() == Manifest(version=1, time_s=1.0)


@pytest.mark.long
def test_files_are_written_read_listed_and_deleted(any_store: Callable[[], Store]):
    store = any_store()
    assert store.data_paths() == []
    store.write(PATH, b"rows")
    assert store.files.read(PATH) == b"rows"
    assert store.data_paths() == [PATH]
    with pytest.raises(FileExistsError):
        store.write(PATH, b"others")
    store.remove(PATH)
    store.remove(PATH)
    assert store.data_paths() == []


def test_a_damaged_manifest_is_told_with_its_place(any_store: Callable[[], Store]):
    store = any_store()
    store.files.create(manifests.manifest_path(3), b"torn")
    with pytest.raises(StoreError, match=r"archive.*manifest 3: it is damaged"):
        store.newest()


def test_an_address_of_a_bucket_without_its_scheme_is_named():
    with pytest.raises(StoreError, match=r"AWS_ENDPOINT_URL: an address begins with http:// or https://"):
        open_store("s3://archive/a", {"AWS_ENDPOINT_URL": "minio.example:9000"})


def test_a_folder_is_for_its_user_and_group(tmp_path: Path):
    store = open_store(str(tmp_path / "archive"), {})
    store.write(PATH, b"rows")
    written = tmp_path / "archive" / PATH
    assert stat.S_IMODE(written.stat().st_mode) == 0o640
    assert [one.name for one in written.parent.iterdir()] == [written.name]


def test_nothing_is_left_of_a_write_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = open_store(str(tmp_path), {})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.write(PATH, b"rows")
    assert store.data_paths() == []


def test_folders_that_deleting_leaves_empty_go_and_the_rest_stays(tmp_path: Path):
    store = open_store(str(tmp_path), {})
    other = manifests.data_path("op", "2026-11-26", "lab", "1-0")
    store.write(PATH, b"a")
    store.write(other, b"b")
    store.remove(PATH)
    assert not (tmp_path / "data/op/date=2026-11-25").exists()
    assert store.data_paths() == [other]


@pytest.mark.parametrize("url", ["http://host/x", "s3://", "s3://key:secret@bucket/x", "gs://bucket"])
def test_an_address_of_no_known_kind_is_refused_without_its_login(url: str):
    with pytest.raises(StoreError, match="a folder or s3://BUCKET/PREFIX") as told:
        open_store(url, {})
    assert "secret" not in str(told.value)


def test_a_bucket_that_is_not_there_is_told(s3_address: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    store = open_store("s3://nowhere/x", {"AWS_ENDPOINT_URL": s3_address})
    with pytest.raises(StoreError, match="s3://nowhere/x"):
        store.commit(Manifest(version=1, time_s=1.0))
