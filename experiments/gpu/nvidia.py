"""What nvidia-smi says of the first GPU: the other witness, which knows nothing of Paceline's numbers.

Rule of this file: its answers are read, nothing is ever set by it.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

from experiments.gpu.errors import NotPossibleError
from paceline.gpu import throttle

#: The clocks' reasons, under the name that every driver knows.
REASONS = "clocks_throttle_reasons.active"


def ask(*fields: str) -> list[str]:
    """The first GPU's ``fields``, as ``nvidia-smi --query-gpu`` prints them.

    Raises:
        NotPossibleError: there is no nvidia-smi, or it does not know a field.
    """
    done = subprocess.run(_command(fields), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPossibleError(f"nvidia-smi: {(done.stdout or done.stderr).strip().splitlines()[-1]}")
    return parse(done.stdout)


@contextlib.contextmanager
def asked_again(*fields: str) -> Iterator[list[list[str]]]:
    """Ask twice a second while what is inside runs; the list has the answers, oldest first, once it is over.

    Raises:
        NotPossibleError: as ``ask``.
    """
    ask(*fields)
    answers: list[list[str]] = []
    process = subprocess.Popen([*_command(fields), "--loop-ms=500"], stdout=subprocess.PIPE, text=True)
    try:
        yield answers
    finally:
        process.terminate()
        said, _ = process.communicate()
        answers += [parse(line) for line in said.splitlines() if line.count(",") == len(fields) - 1]


def _command(fields: tuple[str, ...]) -> list[str]:
    if shutil.which("nvidia-smi") is None:
        raise NotPossibleError("there is no nvidia-smi")
    return ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "--id=0"]


def parse(line: str) -> list[str]:
    """The values of one line.

    >>> parse("0, NVIDIA H100 80GB HBM3, 71.52, [N/A]\\n")
    ['0', 'NVIDIA H100 80GB HBM3', '71.52', '[N/A]']
    """
    return [value.strip() for value in line.strip().split(",")]


def number(value: str) -> float | None:
    """A value as a number; None where the card does not tell it.

    >>> number("71.52"), number("0x0000000000000004"), number("[N/A]"), number("[Not Supported]")
    (71.52, 4.0, None, None)
    """
    try:
        return float(int(value, 16)) if value.startswith("0x") else float(value)
    except ValueError:
        return None


def clock_reasons(answers: list[list[str]]) -> str:
    """What the clocks said of themselves meanwhile, for a reading.

    >>> clock_reasons([["0x0000000000000004"], ["0x0000000000000000"]]), clock_reasons([["0x0000000000000001"]])
    ('clock reasons 0x4, slowed', 'clock reasons 0x1')
    """
    bits = 0
    for value, *_ in answers:
        bits |= int(number(value) or 0)
    return f"clock reasons 0x{bits:x}{', slowed' if bits & throttle.SLOWING else ''}"
