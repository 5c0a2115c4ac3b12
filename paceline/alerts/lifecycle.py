"""What a destination is to be told of an alert, given what was sent to it last.

Rule of this file: pure. The two tables are the whole rule: no queue of events is kept, so that whatever is lost, tried
again or told late, what is said next is what holds then.
"""

from typing import Literal, NamedTuple

from paceline.events import Severity

from .alert import at_least

State = Literal["untold", "firing", "resolved"]
News = Literal["firing", "resolved"]

#: (what was told last, whether it holds now and is severe enough) -> what is to be told. What came and went unseen is
#: told to nobody; what was told is also told to be over, however severe it is then.
TRANSITIONS: dict[tuple[State, bool], News | None] = {
    ("untold", True): "firing",
    ("untold", False): None,
    ("firing", True): None,
    ("firing", False): "resolved",
    ("resolved", True): "firing",
    ("resolved", False): None,
}


class Told(NamedTuple):
    """What was last sent to a destination of an alert."""

    state: State
    severity: Severity


UNTOLD = Told("untold", "info")


def news(told: Told, fires: bool, severity: Severity, least: Severity) -> News | None:
    """What to tell now.

    Once told, an alert fires on although it has become less severe; that it has become more severe is news.

    >>> news(UNTOLD, True, "warning", "warning"), news(UNTOLD, True, "info", "warning")
    ('firing', None)
    >>> told = Told("firing", "warning")
    >>> [news(told, fires, now, "warning") for fires, now in ((True, "info"), (True, "critical"), (False, "info"))]
    [None, 'firing', 'resolved']
    """
    if told.state == "firing" and fires:
        return "firing" if severity != told.severity and at_least(severity, told.severity) else None
    return TRANSITIONS[told.state, fires and at_least(severity, least)]
