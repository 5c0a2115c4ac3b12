"""What the kernel of this machine can do."""

import platform
import re

#: Whether the exit of a process can be read once its parent has asked for it.
EXITS_STAY = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 15)
