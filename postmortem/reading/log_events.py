"""One JSON document of log events, as CloudWatch and others export them (``events``, ``logEvents``, a list of entries).

Rule of this file: pure. A list is one of events if its first has a text, and the events keep their order.
"""

from collections.abc import Iterator

from .prefixes import text_of

_MOST_WAITING = 100_000


def texts(document: object) -> Iterator[str]:
    """The texts of all events, each of one line or more.

    >>> list(texts({"events": [{"timestamp": 7, "message": "one"}, {"timestamp": 8, "message": "two"}]}))
    ['one', 'two']
    """
    waiting = [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [part for part in reversed(one.values()) if isinstance(part, dict | list)][:_MOST_WAITING]
        elif isinstance(one, list) and one and text_of(one[0]):
            yield from (text for event in one if (text := text_of(event)))
        elif isinstance(one, list):
            waiting += [part for part in reversed(one) if isinstance(part, dict | list)][:_MOST_WAITING]
