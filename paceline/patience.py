"""How long our programs wait for each other: times that suit most machines, made longer for slow ones."""

from collections.abc import Mapping

from paceline.settings import PATIENCE


def patient(seconds: float, environ: Mapping[str, str]) -> float:
    """``seconds``, times what ``PACELINE_PATIENCE`` says.

    >>> patient(3.5, {}), patient(3.5, {"PACELINE_PATIENCE": "4"})
    (3.5, 14.0)

    Raises:
        SettingError: the setting has a value that is not allowed.
    """
    return seconds * PATIENCE.read(environ)
