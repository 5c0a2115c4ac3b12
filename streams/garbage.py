"""Python's search for garbage in cycles, made seldom: a worker holds a million small objects, and makes few cycles.

Rule of this file: told once, where a process starts. What is not in a cycle is freed at once as before.
"""

import gc

#: New objects before the young are looked at, and how often these come before the next older: Python's own are 700, 10
#: and 10. With these, a sixth of the time that a large job takes went into looking at its waiting messages again.
THRESHOLDS = (20_000, 20, 50)


def collect_seldom() -> None:
    """From now on this process looks for cycles as seldom as ``THRESHOLDS`` say."""
    gc.set_threshold(*THRESHOLDS)
