"""Where an archive lies: a folder, or a bucket of S3's kind.

Rule of this file: a door. A file is there whole or not at all, and a manifest is created, never replaced: of two that
write the same version, one is told so. Nothing outside the archive's own folders is looked at.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from paceline.install import install

from . import manifest as manifests
from .manifest import DATA, MANIFESTS, Manifest, ManifestError

#: Attempts to read the newest manifest while it is replaced by newer ones.
_ATTEMPTS = 5


class StoreError(Exception):
    """An archive that cannot be read or written: where it is, why, and the fix."""


class ConflictError(StoreError):
    """Somebody else has written this version of the manifest."""


class Files(Protocol):
    """Files below one root, by relative path with ``/``."""

    #: Where it is, for a person; never with a secret.
    where: str

    def read(self, path: str) -> bytes:
        """What is in the file.

        Raises:
            FileNotFoundError, OSError: it is not there, or cannot be read.
        """

    def create(self, path: str, data: bytes) -> None:
        """Write a file that is not there yet, whole.

        Raises:
            FileExistsError, OSError: it is there, or cannot be written.
        """

    def remove(self, path: str) -> None:
        """Delete the file; nothing happens where there is none."""

    def names(self, folder: str) -> list[str]:
        """The names in ``folder`` itself."""

    def walk(self, folder: str) -> Iterator[str]:
        """Every file below ``folder``, by path."""

    def address(self, path: str) -> str:
        """What DuckDB calls the file."""

    def filesystem(self) -> Any:
        """What DuckDB reads it through, None where it can by itself."""


class LocalFiles:
    """A folder on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.where = str(root)

    def read(self, path: str) -> bytes:
        """What is in the file."""
        return (self._root / path).read_bytes()

    def create(self, path: str, data: bytes) -> None:
        """Write the file beside its place, bring it to disk, then link it there: whole, and never over another."""
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        draft = target.parent / f".{secrets.token_hex(8)}"
        try:
            with open(draft, "xb", opener=_private) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, target)
            _sync_folder(target.parent)
        finally:
            draft.unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        """Delete the file, and folders that it leaves empty."""
        target = self._root / path
        target.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in target.parents:
                if folder == self._root or folder.parent == self._root:
                    break
                folder.rmdir()

    def names(self, folder: str) -> list[str]:
        """The names in ``folder``."""
        try:
            return os.listdir(self._root / folder)
        except FileNotFoundError:
            return []

    def walk(self, folder: str) -> Iterator[str]:
        """Every file below ``folder``."""
        for at, _, names in os.walk(self._root / folder):
            for name in names:
                yield (Path(at) / name).relative_to(self._root).as_posix()

    def address(self, path: str) -> str:
        """Its absolute path."""
        return str((self._root / path).absolute())

    def filesystem(self) -> Any:
        """None: DuckDB reads files itself."""
        return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o640)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BucketFiles:
    """A prefix of a bucket, through fsspec; what creates a manifest asks the store to refuse one that is there."""

    def __init__(self, filesystem: Any, protocol: str, prefix: str) -> None:
        self._fs, self._protocol, self._prefix = filesystem, protocol, prefix.rstrip("/")
        self.where = f"{protocol}://{self._prefix}"

    def read(self, path: str) -> bytes:
        """What is in the object."""
        data: bytes = self._fs.cat_file(f"{self._prefix}/{path}")
        return data

    def create(self, path: str, data: bytes) -> None:
        """Put the object where there is none (``If-None-Match: *``)."""
        self._fs.pipe_file(f"{self._prefix}/{path}", data, mode="create")

    def remove(self, path: str) -> None:
        """Delete the object."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._prefix}/{path}")

    def names(self, folder: str) -> list[str]:
        """The names below ``folder``."""
        self._fs.invalidate_cache()
        try:
            return [str(one).rsplit("/", 1)[-1] for one in self._fs.ls(f"{self._prefix}/{folder}", detail=False)]
        except FileNotFoundError:
            return []

    def walk(self, folder: str) -> Iterator[str]:
        """Every object below ``folder``."""
        self._fs.invalidate_cache()
        for one in self._fs.find(f"{self._prefix}/{folder}"):
            yield str(one).removeprefix(self._prefix + "/")

    def address(self, path: str) -> str:
        """Its address, with the protocol."""
        return f"{self._protocol}://{self._prefix}/{path}"

    def filesystem(self) -> Any:
        """The file system itself."""
        return self._fs


class Store:
    """An archive's manifests and files."""

    def __init__(self, files: Files) -> None:
        self.files = files

    @property
    def where(self) -> str:
        """Where it is, for a person."""
        return self.files.where

    def newest(self) -> Manifest | None:
        """The newest manifest; None where there is no archive yet.

        Raises:
            StoreError: it cannot be read.
        """
        for attempt in range(_ATTEMPTS):
            versions = self.versions()
            if not versions:
                return None
            try:
                return manifests.decode(self.read(manifests.manifest_path(versions[-1])))
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise StoreError(f"the archive at {self.where}: its manifests vanish while they are read") from None
            except ManifestError as error:
                raise StoreError(f"the archive at {self.where}, manifest {versions[-1]}: {error}") from error
        return None

    def versions(self) -> list[int]:
        """The versions of the manifest that are there, oldest first."""
        with self.explained():
            names = self.files.names(MANIFESTS)
        return sorted(version for name in names if (version := manifests.version_of(name)) is not None)

    def commit(self, manifest: Manifest) -> None:
        """Make ``manifest`` the newest.

        Raises:
            ConflictError: this version is there already: somebody else writes here.
            StoreError: it cannot be written.
        """
        try:
            with self._created():
                self.files.create(manifests.manifest_path(manifest.version), manifests.encode(manifest))
        except FileExistsError:
            raise ConflictError(
                f"the archive at {self.where}: somebody else has written version {manifest.version}; "
                "one `paceline archive` at a time may write it"
            ) from None

    def write(self, path: str, data: bytes) -> None:
        """Write a file of rows, not yet part of the archive.

        Raises:
            StoreError: it cannot be written.
        """
        with self._created():
            self.files.create(path, data)

    def read(self, path: str) -> bytes:
        """What is in a file of rows.

        Raises:
            FileNotFoundError: it is gone.
            StoreError: it cannot be read.
        """
        with self.explained():
            return self.files.read(path)

    def remove(self, path: str) -> None:
        """Delete a file that no manifest names.

        Raises:
            StoreError: it cannot be deleted.
        """
        with self.explained():
            self.files.remove(path)

    def data_paths(self) -> list[str]:
        """Every file of rows that is there, committed or not.

        Raises:
            StoreError: it cannot be read.
        """
        with self.explained():
            return list(self.files.walk(DATA))

    @contextlib.contextmanager
    def _created(self) -> Iterator[None]:
        """Where a file is to be created, what is not found is its bucket."""
        try:
            with self.explained():
                yield
        except FileNotFoundError as error:
            raise StoreError(f"the archive at {self.where}: {error.strerror or error}") from error

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the disk or the bucket says into a StoreError; whether a file is there is reported as it is."""
        try:
            yield
        except (FileNotFoundError, FileExistsError, ManifestError):
            raise
        except Exception as error:  # Clients of buckets have errors of their own, of no common kind.
            if not isinstance(error, OSError) and not type(error).__module__.startswith(("botocore", "aiohttp")):
                raise
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StoreError(f"the archive at {self.where}: {reason}") from error


def open_store(url: str, environ: Mapping[str, str]) -> Store:
    """The store at ``url``: a folder, or ``s3://BUCKET/PREFIX``.

    A bucket's login, region and address come from where its client looks for them (``AWS_ACCESS_KEY_ID``,
    ``AWS_ENDPOINT_URL``, an instance's role).

    Raises:
        StoreError: the address is of no kind that is known, or what reads it is not installed.
    """
    protocol, separator, rest = url.partition("://")
    if not separator:
        return Store(LocalFiles(Path(url).expanduser()))
    if protocol == "file":
        return Store(LocalFiles(Path(rest)))
    if protocol != "s3" or "@" in rest or not rest.strip("/"):
        raise StoreError(f"{protocol}://…: an archive is a folder or s3://BUCKET/PREFIX, without a login in it")
    try:
        import s3fs
    except ImportError as error:
        raise StoreError(f"s3://…: reading it needs {install('history')}") from error
    endpoint = environ.get("AWS_ENDPOINT_URL") or None
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise StoreError("AWS_ENDPOINT_URL: an address begins with http:// or https://")
    return Store(BucketFiles(s3fs.S3FileSystem(endpoint_url=endpoint, use_listings_cache=False), "s3", rest))
