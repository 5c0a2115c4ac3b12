"""Archives for tests: in a folder, and in a bucket of a real S3 server of the tests' own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.history.store import Store, open_store
from tests.s3_server import LOGIN
from tests.s3_server import s3_address as s3_address


@pytest.fixture(params=["folder", "bucket"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Store]:
    """Opens one and the same empty archive, as often as it is asked to: in a folder, then in a bucket."""
    if request.param == "folder":
        return lambda: open_store(str(tmp_path / "archive"), {})
    address = request.getfixturevalue("s3_address")
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    return lambda: open_store(f"s3://archive/{tmp_path.name}", {"AWS_ENDPOINT_URL": address})
