"""Whether the demo's page outlives its training run, and what is said while it does.

Rule of this file: pure. A script never waits for a person: the page stays only where one is at the terminal.
"""

from collections.abc import Mapping


def stays(*, page: bool, timed: bool, terminal: bool, environ: Mapping[str, str]) -> bool:
    """Whether the page stays until Ctrl-C after training.

    Args:
        page: Whether there is a page.
        timed: Whether the user has said how long it takes (``--seconds``).
        terminal: Whether a person can read our lines and press Ctrl-C: standard input and error are a terminal's.
        environ: ``CI``, if set, says that nobody is there, whatever looks like a terminal.

    >>> stays(page=True, timed=False, terminal=True, environ={})
    True
    >>> stays(page=True, timed=False, terminal=False, environ={})
    False
    """
    return page and not timed and terminal and environ.get("CI", "").lower() in ("", "0", "false")


def words(address: str) -> str:
    """The line that is said then.

    >>> words("http://127.0.0.1:8501")
    'training has ended; the page stays at http://127.0.0.1:8501; Ctrl-C ends'
    """
    return f"training has ended; the page stays at {address}; Ctrl-C ends"
