"""``python -m trials.launch CPUS -- COMMAND``: become COMMAND, on these CPUs alone.

Rule of this file: small, for it stands between the executor and every command. CPUS are numbers with commas, or "" for
all.
"""

import os
import sys


def main(words: list[str]) -> int:
    """Become the command; only what fails comes back."""
    cpus, _, *command = words
    try:
        if cpus:
            os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
        os.execvp(command[0], command)  # noqa: S606 - the trial's own command, as it is
    except OSError as error:
        print(f"trial: {command[0]} on CPUs {cpus or 'all'}: {error.strerror}", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
