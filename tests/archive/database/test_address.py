"""Where the database is: read from a setting, refused in a sentence, and shown without its login."""

from pathlib import Path

import pytest

from archive.database.address import LIBPQ_DEFAULTS, address, in_folder
from paceline.settings import DATABASE, SettingError

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://a/b",
        "postgresql+psycopg://a/b",
        "sqlite://",
        "sqlite:///",
        "sqlite:///file?mode=ro",
        "database.sqlite",
        f"postgresql://ada:{SECRET}/x@host/db",
        f"postgresql://ada:12?{SECRET}@host/db",
        f"postgresql://ada:a@{SECRET}@host/db",
        f"postgresql://ada:{SECRET}@host:port/db",
        f"postgresql://ada:{SECRET}@host:70000/db",
        f"postgresql://ada:{SECRET}%zz@host/db",
        f"postgresql://ada:{SECRET}@host/db?sslmod=require",
        f"postgresql://ada:{SECRET}@host/db\n",
        f"postgresql://ada:{SECRET}@[::1/db",
    ],
)
def test_what_is_no_address_is_refused_in_a_line_without_the_secret(url: str) -> None:
    with pytest.raises(SettingError, match=r"^PACELINE_DATABASE=\(secret\): .*allowed: sqlite:///FILE") as refused:
        address(url)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://ada:{SECRET}@db.example/history", "postgresql://db.example/history"),
        (f"postgres://ada:{SECRET}@db.example:5433/history", "postgresql://db.example:5433/history"),
        (f"postgresql://ada:{SECRET}@[::1]:5432/h", "postgresql://::1:5432/h"),
        (f"postgresql://ada:{SECRET}@a:1,b:2/h?target_session_attrs=read-write", "postgresql://a:1,b:2/h"),
        (f"postgresql://ada@/h?host=/run/postgresql&password={SECRET}", "postgresql:///run/postgresql/h"),
        (f"postgresql://ada:p%2F%40{SECRET}@db/h?sslmode=verify-full&sslrootcert=/ca.pem", "postgresql://db/h"),
        ("postgresql://ada@db", "postgresql://db/ada"),
        ("sqlite:////var/lib/history.sqlite", "sqlite:////var/lib/history.sqlite"),
        ("sqlite:///history.sqlite", "sqlite:///history.sqlite"),
    ],
)
def test_it_is_shown_without_its_login(url: str, shown: str) -> None:
    assert address(url).shown == shown
    assert SECRET not in repr(address(url))


def test_options_are_libpqs_own_and_win_over_ours() -> None:
    """TLS by sslmode and its like; a connection that died is noticed unless the address says otherwise."""
    held = dict(address("postgresql://db/h?sslmode=verify-full&connect_timeout=3&sslcert=%2Fa%20b.pem").options)
    assert held["sslmode"] == "verify-full"
    assert held["sslcert"] == "/a b.pem"
    assert held["connect_timeout"] == "3"
    assert held["tcp_user_timeout"] == LIBPQ_DEFAULTS["tcp_user_timeout"]


def test_it_may_lie_in_a_file(tmp_path: Path) -> None:
    """For it may hold a password."""
    file = tmp_path / "database.url"
    file.write_text(f"postgresql://ada:{SECRET}@db/h\n")
    assert DATABASE.read({"PACELINE_DATABASE_FILE": str(file)}) == f"postgresql://ada:{SECRET}@db/h"
    assert DATABASE.read({}) == ""


def test_the_embedded_one_lies_in_the_archives_folder(tmp_path: Path) -> None:
    assert address(in_folder(tmp_path)).file == tmp_path / "database.sqlite"
