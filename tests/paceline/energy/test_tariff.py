import pytest

from paceline.energy.tariff import Tariff, joules_in_words, kwh_in_words, tariff
from paceline.settings import SettingError


def test_money_and_co2e_are_of_what_the_building_takes():
    """10 kWh of machines are 12 of the building where its PUE is 1.2."""
    prices = tariff(
        {
            "PACELINE_KWH_PRICE": "0.30",
            "PACELINE_CURRENCY": "EUR",
            "PACELINE_CO2E_G_PER_KWH": "400",
            "PACELINE_PUE": "1.2",
        }
    )
    assert prices == Tariff(0.30, "EUR", 400.0, 1.2)
    assert (prices.money(3.6e7), prices.co2e_kg(3.6e7)) == (pytest.approx(3.6), pytest.approx(4.8))


def test_without_prices_nothing_is_made_up():
    """No price, no money; no factor, no CO2e."""
    prices = tariff({})
    assert (prices.money(3.6e7), prices.co2e_kg(3.6e7)) == (None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PACELINE_KWH_PRICE", "-0.1"),
        ("PACELINE_KWH_PRICE", "nan"),
        ("PACELINE_KWH_PRICE", "free"),
        ("PACELINE_CO2E_G_PER_KWH", "1e9"),
        ("PACELINE_PUE", "0.9"),
        ("PACELINE_PUE", "inf"),
        ("PACELINE_CURRENCY", "a currency with a long name"),
    ],
)
def test_an_impossible_price_is_refused(name, value):
    """The line names the setting and what is allowed."""
    with pytest.raises(SettingError, match=f"{name}=.*allowed"):
        tariff({name: value})


@pytest.mark.parametrize(
    ("joules", "words"), [(0.0, "0 Wh"), (999.4 * 3600, "999 Wh"), (999.6 * 3600, "1 kWh"), (4e15, "1.11e+03 GWh")]
)
def test_units_change_where_numbers_get_long(joules, words):
    """No number has four digits before its unit, and 0 is said."""
    assert kwh_in_words(joules) == words


def test_a_step_is_told_in_joules():
    """Nobody pays for one step: it has the unit of physics."""
    assert [joules_in_words(value) for value in (0.25, 1234.0, 5e6)] == ["0.25 J", "1.23 kJ", "5 MJ"]
