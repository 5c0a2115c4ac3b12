"""Ranks in a few words: runs of numbers as their first and last.

Rule of this file: pure.
"""

from collections.abc import Iterable

#: Runs that are told; of more, how many ranks are left.
MOST_RUNS = 4


def ranges(numbers: Iterable[int], most: int = MOST_RUNS) -> str:
    """``numbers`` as runs, the first ``most`` of them.

    >>> ranges([8, 9, 10, 11, 15]), ranges([3]), ranges([0, 2, 4, 6, 8, 9], most=2)
    ('8-11, 15', '3', '0, 2 and 4 more')
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    told = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs[:most])
    left = sum(last - first + 1 for first, last in runs[most:])
    return told + (f" and {left} more" if left else "")
