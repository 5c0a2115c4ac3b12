import logging

from collectors.logs import LineFormatter


def test_a_record_is_one_line():
    """Whatever a message holds, a record is one line of key=value."""
    record = logging.LogRecord("paceline.collect", logging.WARNING, "", 0, 'two\nlines and "quotes"', (), None)

    line = LineFormatter().format(record)

    assert line.endswith(r'level=warning logger=paceline.collect message="two\nlines and \"quotes\""')
    assert "\n" not in line


def test_a_traceback_stays_on_the_line():
    """A traceback is a field of its record."""
    try:
        raise ValueError("odd")
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), caught)

    line = LineFormatter().format(record)

    assert "ValueError: odd" in line
    assert "\n" not in line
