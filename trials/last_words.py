"""What a training said at its end, as far as a person needs it: its own last lines, and whether memory did not suffice.

Rule of this file: pure. Torchrun's report of a failure follows what the ranks said and tells no more than an exit
status, so it is left out; where nothing else was said it stays.
"""

import re

#: What programs write when memory does not suffice.
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|can't allocate memory"
    r"|Cannot allocate memory|\bMemoryError\b|std::bad_alloc|oom.kill",
    re.I,
)
#: What torchrun says of a rank that was killed.
RANK_KILLED = re.compile(r"Signal 9 \(SIGKILL\)")
KILLED = "killed, out of the machine's memory most likely"
#: How torchrun's own lines begin, and the line with which its report does.
_TORCHRUN = re.compile(r"^[EWI]\d{4} [\d:.]+ .*torch/distributed/", re.M)
_REPORT = re.compile(r"^E\d{4} [\d:.]+ .*torch/distributed/.*failed \(exitcode: ", re.M)


def memory_said(output: str) -> str:
    """What ``output`` says of memory that did not suffice, in our words, or "".

    >>> memory_said("torch.OutOfMemoryError: CUDA out of memory."), memory_said("KeyError: 3")
    ('out of memory', '')
    """
    if OUT_OF_MEMORY.search(output):
        return "out of memory"
    return f"a rank was {KILLED}" if RANK_KILLED.search(output) else ""


def without_torchrun(output: str) -> str:
    """``output`` without what torchrun added to it.

    >>> without_torchrun("KeyError: 3\\nE1125 13:47:02.1 7 torch/distributed/a.py:9] failed (exitcode: 1)\\nTrace\\n")
    'KeyError: 3\\n'
    """
    report = _REPORT.search(output)
    whole = output if report is None else output[: report.start()]
    own = "".join(line for line in whole.splitlines(keepends=True) if not _TORCHRUN.match(line))
    return own if own.strip() else output
