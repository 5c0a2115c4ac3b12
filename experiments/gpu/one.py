"""One case in a process of its own: ``python -m experiments.gpu.one CASE DEVICE FOLDER BACKEND``.

Rule of this file: what a case cannot read is a reading too; what it found goes to FOLDER/reading.json.
"""

import json
import sys
import traceback
from pathlib import Path

from experiments.gpu.bench import Bench
from experiments.gpu.case import Reading
from experiments.gpu.errors import NotPossibleError, RunError
from experiments.gpu.table import CASES


def read(name: str, bench: Bench) -> Reading:
    """What case ``name`` reads on ``bench``."""
    (case,) = (case for case in CASES if case.name == name)
    try:
        return case.read(bench)
    except NotPossibleError as error:
        return Reading(str(error), None)
    except RunError as error:
        return Reading(str(error), None, broken=True)
    except Exception as error:
        traceback.print_exc()
        return Reading(f"{type(error).__name__}: {error}", None, broken=True)


def main(name: str, device: str, folder: str, backend: str) -> None:
    """Run the case and write down what it reads."""
    reading = read(name, Bench(device, Path(folder), backend))
    Path(folder, "reading.json").write_text(json.dumps(reading._asdict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
