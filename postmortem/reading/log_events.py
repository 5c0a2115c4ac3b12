"""Records of logs as JSON: a log driver's, or a document of many as CloudWatch, OpenTelemetry and others export them.

Rule of this file: pure. A list is one of records if its first has a text, and the records keep their order.
"""

from collections.abc import Iterator

#: What the text of a record goes by. OpenTelemetry's has it one deeper.
_TEXTS = ("log", "message", "MESSAGE", "msg", "line", "text", "textPayload", "body", "Body", "data")
_TYPED = "stringValue"
#: How deep in a record its text may be (``jsonPayload``, ``hits`` of a search).
_DEEPEST = 6
_MOST_WAITING = 100_000


def text_of(record: object, depth: int = _DEEPEST) -> str:
    """The first text in ``record`` under a usual name; "" where there is none.

    >>> text_of({"severityText": "ERROR", "body": {"stringValue": "one"}})
    'one'
    """
    if not isinstance(record, dict) or depth == 0:
        return ""
    for name in _TEXTS:
        text = record.get(name)
        if isinstance(text, dict):
            text = text.get(_TYPED)
        if isinstance(text, str):
            return text
    return next((text for part in record.values() if (text := text_of(part, depth - 1))), "")


def texts(document: object) -> Iterator[str]:
    """The texts of all records, each of one line or more.

    >>> list(texts({"events": [{"timestamp": 7, "message": "one"}, {"timestamp": 8, "message": "two"}]}))
    ['one', 'two']
    """
    waiting = [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [part for part in reversed(one.values()) if isinstance(part, dict | list)][:_MOST_WAITING]
        elif isinstance(one, list) and one and text_of(one[0]):
            yield from (text for record in one if (text := text_of(record)))
        elif isinstance(one, list):
            waiting += [part for part in reversed(one) if isinstance(part, dict | list)][:_MOST_WAITING]
