"""``python -m experiments.integration [NAME …]``: run the checks, or those whose names begin with a NAME.

Rule of this file: each check has a folder and a line; one that fails keeps no other from running.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from experiments.integration import mlflow_checks, postgresql, tensorboard_checks, wandb_checks
from experiments.integration.check import Check, FailedError
from experiments.machine import machine

#: By what they are of, in the order in which they run.
CHECKS: tuple[Check, ...] = (
    *mlflow_checks.CHECKS,
    *wandb_checks.CHECKS,
    *tensorboard_checks.CHECKS,
    *postgresql.CHECKS,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make integration-check", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(check.name for check in CHECKS)}")
    names = parser.parse_args().names
    checks = [check for check in CHECKS if not names or any(check.name.startswith(name) for name in names)]
    if not checks:
        parser.error(f"no check is named {' or '.join(names)}")
    there = machine()
    print(f"{there['date']}, {there['cores']} cores of {there['processor']}, Python {there['python']}", flush=True)
    failed = [check.name for check in checks if not _run(check)]
    print(
        f"{len(checks) - len(failed)} of {len(checks)} checks are well", *(f"not {name}" for name in failed), sep="; "
    )
    return 1 if failed else 0


def _run(check: Check) -> bool:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="paceline-integration-", ignore_cleanup_errors=True) as folder:
        try:
            seen, well = check.run(Path(folder)), True
        except FailedError as error:
            seen, well = str(error), False
    print(f"{'ok' if well else 'FAILED':<6} {check.name} ({time.monotonic() - begin:.0f} s): {seen}", flush=True)
    return well


if __name__ == "__main__":
    sys.exit(main())
