"""A document in the format that was asked for, to a file or standard output.

Rule of this file: a door. PDF is made by WeasyPrint of the same HTML, and it may load nothing.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline import terminal
from paceline.install import install

from .reports.documents.as_html import as_html
from .reports.documents.as_markdown import as_markdown
from .reports.documents.as_text import as_text
from .reports.documents.document import Document
from .reports.documents.style import painted

FORMATS = ("text", "md", "html", "pdf")
#: What a person reads as it is.
_READ = ("text", "md")
_SUFFIXES = {".md": "md", ".html": "html", ".htm": "html", ".pdf": "pdf", ".json": "json"}


class DocumentError(Exception):
    """A document that cannot be made or written: why, and what to do."""


def format_of(asked: str | None, output: str | None) -> str:
    """The format asked for, else the one that the file's name tells, else text."""
    return asked or _SUFFIXES.get(Path(output or "").suffix.lower(), "text")


def encoded(document: Document, kind: str) -> bytes:
    """The document as ``kind``.

    Raises:
        DocumentError: a PDF, and what makes it is not there.
    """
    writers: dict[str, Callable[[Document], str]] = {"md": as_markdown, "html": as_html}
    if kind == "pdf":
        return _pdf(as_html(document))
    return (writers.get(kind, as_text)(document).rstrip("\n") + "\n").encode()


def write(content: bytes, kind: str, output: str | None, program: str) -> None:
    """Put ``content`` where it belongs, and say so of a file as ``program``; None and - are standard output.

    What a person reads there (text, Markdown) is written in the characters that it takes; a file is UTF-8.

    Raises:
        DocumentError: the file cannot be written.
    """
    if output in (None, "-"):
        if kind in _READ:
            sys.stdout.write(content.decode())
        else:
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    path = Path(str(output))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DocumentError(f"cannot write {output}: {error.strerror}") from error
    terminal.say(f"wrote {output} ({len(content):,} bytes)", program)


def _pdf(html: str) -> bytes:
    try:
        import weasyprint
    except ModuleNotFoundError:
        raise DocumentError(f"--format pdf needs WeasyPrint; {install('reports')}") from None
    except OSError as error:
        raise DocumentError(
            f"--format pdf needs Pango, which WeasyPrint draws text with: apt install libpango-1.0-0 "
            f"libpangoft2-1.0-0 libharfbuzz-subset0 ({error})"
        ) from error
    made: bytes = weasyprint.HTML(string=painted(html), url_fetcher=_only_data(weasyprint)).write_pdf()
    return made


def _only_data(weasyprint: Any) -> Any:
    """A fetcher that reads pictures that the document holds itself, and refuses all else."""
    return weasyprint.urls.URLFetcher(allowed_protocols=("data",))
