"""The manifest: what is read was written elsewhere, by an older version, a later one, or somebody who means harm."""

import gzip
from typing import Any

import msgspec
import pytest

from paceline.history import manifest as manifests
from paceline.history.manifest import DataFile, Gap, Gone, Manifest, ManifestError


def file(**also: Any) -> DataFile:
    path = manifests.data_path("op", "2026-11-25", "lab", "1-0a")
    told = {"table": "op", "path": path, "date": "2026-11-25", "cluster": "lab", "rows": 3, "bytes": 9}
    return DataFile(**{**told, "first_s": 1.0, "last_s": 2.0, **also})


def test_it_is_read_as_it_was_written():
    gap = Gap(topic="t", partition=3, expected=5, first=9, time_s=1.0, remade=True)
    whole = Manifest(
        version=7,
        time_s=1.5,
        offsets={"paceline.op.v2/11": 2**40},
        topic_ids={"paceline.op.v2": "id"},
        files=[file(merged=2, coarse=True, low="a", high="b")],
        gone=[Gone(path=manifests.data_path("op", "2026-11-25", "lab", "0-1"), since_s=3.0)],
        gaps=[gap],
        gap_count=12,
        unusable={"op": 1},
    )
    assert manifests.decode(manifests.encode(whole)) == whole
    assert whole.places() == {("paceline.op.v2", 11): 2**40}


def test_one_of_a_later_version_is_refused_with_the_mend():
    later = msgspec.structs.replace(Manifest(version=1, time_s=0.0), format=2)
    with pytest.raises(ManifestError, match="format 2, and this version of Paceline reads 1: use the version"):
        manifests.decode(manifests.encode(later))


def test_fields_of_a_later_version_of_the_same_format_are_passed_over():
    data = gzip.compress(b'{"format":1,"version":3,"time_s":1.0,"index":{"a":[1]}}')
    assert manifests.decode(data).version == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        gzip.compress(b"{}"),
        gzip.compress(b"[" * 100_000),
        gzip.compress(b'{"format":1,"version":-1,"time_s":0}'),
        gzip.compress(b'{"format":1,"version":1,"time_s":"x"}'),
        gzip.compress(b"\xff\xfe"),
        manifests.encode(Manifest(version=1, time_s=0.0))[:-4],
    ],
    ids=["empty", "no-gzip", "no-fields", "deep", "negative", "wrong-type", "no-text", "cut-off"],
)
def test_what_is_damaged_is_told_as_damaged(data: bytes):
    with pytest.raises(ManifestError):
        manifests.decode(data)


def test_one_that_unpacks_without_end_is_not_unpacked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifests, "MOST_BYTES", 10_000)
    with pytest.raises(ManifestError, match="too large"):
        manifests.decode(gzip.compress(b" " * 1_000_000))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "data/../../secret.parquet",
        "data/op/date=2026-11-25/cluster=../../x/1-0.parquet",
        "data/op/date=2026-11-25/cluster=a\\b/1-0.parquet",
        "s3://else/data/op/date=2026-11-25/cluster=a/1-0.parquet",
        "data/op/date=2026-11-25/cluster=a/1-0.parquet\n",
        "manifest/000000000001.json.gz",
    ],
)
@pytest.mark.parametrize("where", ["files", "gone"])
def test_it_names_no_file_outside_the_archive(path: str, where: str):
    """Files of a manifest are read, and those that are gone deleted."""
    named = file(path=path) if where == "files" else Gone(path=path, since_s=0.0)
    data = manifests.encode(Manifest(version=1, time_s=0.0, **{where: [named]}))  # type: ignore[arg-type]
    with pytest.raises(ManifestError, match="none of an archive's"):
        manifests.decode(data)


@pytest.mark.parametrize("name", ["", "topic", "topic/x", "/3", "topic/-1"])
def test_a_partition_that_is_none_is_refused(name: str):
    with pytest.raises(ManifestError, match="partition"):
        manifests.decode(manifests.encode(Manifest(version=1, time_s=0.0, offsets={name: 1})))


@pytest.mark.parametrize("cluster", ["", "lab", "..", "a/b", "*", "%", "é", "\0", "x" * 5000, "日本" * 200])
def test_a_cluster_is_one_folder_whatever_it_is_called(cluster: str):
    path = manifests.data_path("op", "2026-11-25", cluster, "1-0")
    assert path.count("/") == 4
    assert len(path) < 450
    assert manifests.decode(manifests.encode(Manifest(version=1, time_s=0.0, files=[file(path=path)]))).files
    assert manifests.written_for(path) == 1
