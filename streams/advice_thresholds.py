"""The thresholds of suggestions as the environment sets them.

Rule of this file: pure; ``environ`` is an argument. What there is, and between what it may be set, is declared in
``advice/config.py``.
"""

from collections.abc import Mapping

from paceline.settings import ADVICE, CURRENCY, SettingError

from .advice.config import AdviceConfig, changed


def thresholds(environ: Mapping[str, str]) -> AdviceConfig:
    """The thresholds of suggestions that ``environ`` sets.

    Raises:
        SettingError: there is none of such a name, or not with such a value.
    """
    try:
        return changed(ADVICE.read(environ), CURRENCY.read(environ))
    except SettingError:
        raise
    except ValueError as error:
        raise SettingError(f"{ADVICE.name}: {error}; allowed: {ADVICE.allowed}") from error
