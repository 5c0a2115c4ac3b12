"""What energy costs: money, and carbon dioxide equivalent, by prices that somebody set.

Rule of this file: arithmetic. Whoever set no price is told no money; nothing is guessed by country or hour.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.settings import CO2E_G_PER_KWH, CURRENCY, KWH_PRICE, PUE, SettingError

J_A_KWH = 3.6e6
_LONGEST_CURRENCY = 16


class Tariff(NamedTuple):
    """Prices of a kWh at the building's meter: money, and grams of CO2e; 0 says nothing of it.

    ``pue`` is what the building takes for each kWh that its machines take.
    """

    kwh_price: float = 0.0
    currency: str = ""
    co2e_g_per_kwh: float = 0.0
    pue: float = 1.0

    def money(self, joules: float) -> float | None:
        """What ``joules`` of a machine cost; None without a price.

        >>> Tariff(kwh_price=0.25, pue=1.2).money(3.6e6), Tariff().money(3.6e6)
        (0.3, None)
        """
        return joules / J_A_KWH * self.pue * self.kwh_price if self.kwh_price > 0 else None

    def co2e_kg(self, joules: float) -> float | None:
        """Kilograms of CO2e of ``joules`` of a machine; None where its factor is not set."""
        return joules / J_A_KWH * self.pue * self.co2e_g_per_kwh / 1000.0 if self.co2e_g_per_kwh > 0 else None


def tariff(environ: Mapping[str, str]) -> Tariff:
    """The prices that ``environ`` sets.

    Raises:
        SettingError: one of them is not allowed.
    """
    currency = CURRENCY.read(environ)
    if len(currency) > _LONGEST_CURRENCY or not currency.isprintable():
        raise SettingError(f"{CURRENCY.name}={currency[:40]!r}: not a name; allowed: {CURRENCY.allowed}")
    return Tariff(KWH_PRICE.read(environ), currency, CO2E_G_PER_KWH.read(environ), PUE.read(environ))


def kwh_in_words(joules: float) -> str:
    """What somebody pays for, in the unit in which its number is readable.

    >>> kwh_in_words(45.0), kwh_in_words(45_600.0), kwh_in_words(3.6e6), kwh_in_words(8.1e9)
    ('0.0125 Wh', '12.7 Wh', '1 kWh', '2.25 MWh')
    """
    return _in_unit(joules / 3600.0, "Wh")


def joules_in_words(joules: float) -> str:
    """What a step takes, in the unit in which its number is readable.

    >>> joules_in_words(12.34), joules_in_words(2300.0), joules_in_words(999.9e3)
    ('12.3 J', '2.3 kJ', '1 MJ')
    """
    return _in_unit(joules, "J")


def _in_unit(value: float, unit: str) -> str:
    for prefix in ("", "k", "M"):
        if value < 999.5:
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000.0
    return f"{value:.3g} G{unit}"
