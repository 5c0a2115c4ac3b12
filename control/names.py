"""What there is, in one clause: the end of a refusal of a name that there is not.

Rule of this file: pure and short, however many there are.
"""

from collections.abc import Sequence

#: Names that one sentence lists.
MOST_LISTED = 8


def listed(kind: str, names: Sequence[str]) -> str:
    """Which there are of a ``kind``.

    >>> listed("running job", []), listed("running job", ["a", "b"])
    ('there is no running job', 'running jobs: a, b')
    """
    if not names:
        return f"there is no {kind}"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"{kind}{'s' * (len(names) > 1)}: {', '.join(name[:100] for name in names[:MOST_LISTED])}{more}"
