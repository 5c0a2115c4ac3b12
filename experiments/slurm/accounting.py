"""Settings of Slurm's accounting: slurmdbd and its MariaDB, in the cluster's folder.

Rule of this file: both listen on loopback, with a password of this run, and keep nothing elsewhere.
"""

import subprocess
from pathlib import Path

from ..processes import RunError

#: Two cores that others use, too, make an empty database.
MADE_S = 120.0
_MARIADB = """\
[mariadbd]
datadir={folder}/mariadb
socket={folder}/mariadb.sock
pid-file={folder}/mariadb.pid
bind-address=127.0.0.1
port={port}
user=root
skip-name-resolve
innodb_buffer_pool_size=64M
innodb_log_file_size=32M
"""
_SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=paceline
StoragePass={password}
StorageLoc=slurm_acct
"""
_GRANT = """\
CREATE DATABASE slurm_acct;
CREATE USER 'paceline'@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct.* TO 'paceline'@'127.0.0.1';
"""


def write(folder: Path, host: str, ports: tuple[int, int], password: str) -> None:
    """The settings of both, and an empty database.

    Raises:
        RunError: MariaDB makes none.
    """
    database_port, port = ports
    (folder / "mariadb.cnf").write_text(_MARIADB.format(folder=folder, port=database_port))
    conf = folder / "slurmdbd.conf"
    conf.write_text(
        _SLURMDBD.format(folder=folder, host=host, port=port, database_port=database_port, password=password)
    )
    conf.chmod(0o600)  # else slurmdbd does not start
    (folder / "grant.sql").write_text(_GRANT.format(password=password))
    (folder / "grant.sql").chmod(0o600)
    made = subprocess.run(
        ["mariadb-install-db", f"--defaults-file={folder}/mariadb.cnf", "--skip-test-db"],
        capture_output=True, text=True, check=False, timeout=MADE_S,
    )  # fmt: skip
    if made.returncode:
        raise RunError(f"mariadb-install-db: {(made.stderr or made.stdout).strip() or 'it failed and said nothing'}")


def database_options(folder: Path) -> list[str]:
    """MariaDB's own, where the first thing that it does is to let slurmdbd in."""
    return [f"--defaults-file={folder}/mariadb.cnf", f"--init-file={folder}/grant.sql"]
