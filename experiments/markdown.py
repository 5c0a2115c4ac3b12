"""What benchmarks write of themselves: tables, and the part of a page that is theirs.

Rule of this file: text only.
"""

from pathlib import Path


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table.

    >>> print(table(["who", "how fast"], [["we", "2"]]))
    | who | how fast |
    | --- | --- |
    | we | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(page: Path, name: str, text: str) -> None:
    """Put ``text`` where ``page`` has room for the figures of ``name``.

    Raises:
        ValueError: the page has no marks for it.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = page.read_text(encoding="utf-8")
    if begin not in whole or end not in whole:
        raise ValueError(f"{page} has no {begin} and {end}")
    before, rest = whole.split(begin, 1)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
