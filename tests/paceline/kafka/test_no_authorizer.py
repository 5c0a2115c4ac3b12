"""Brokers without an authorizer are called so, by what gives rights and by what examines them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors

from paceline.commands import checks
from paceline.kafka import acls
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.rights import rules

ELSEWHERE = BrokerSettings(brokers=("kafka-1:9092",))


class Admin:
    """A client of brokers that answer a question of rights with ``problem``."""

    def __init__(self, problem: type[errors.KafkaError], *, raises: bool) -> None:
        self._problem, self._raises = problem, raises

    def create_acls(self, asked: list[Any]) -> dict[str, Any]:
        return {"failed": {self._problem: asked} if self._problem is not errors.NoError else {}}

    def describe_acls(self, asked: Any) -> tuple[list[Any], type[errors.KafkaError]]:
        if self._raises:
            raise self._problem("refused")
        return [], self._problem

    def close(self) -> None:
        pass


@pytest.fixture(params=[False, True])
def answers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    def answer(problem: type[errors.KafkaError]) -> None:
        monkeypatch.setattr(acls, "admin", lambda settings: Admin(problem, raises=request.param))
        monkeypatch.setattr(acls, "explained", explained)

    @contextlib.contextmanager
    def explained(settings: BrokerSettings) -> Iterator[None]:
        yield

    return answer


def test_rights_are_refused_with_the_setting_that_is_missing(answers: Any) -> None:
    answers(errors.SecurityDisabledError)
    with pytest.raises(BusError, match=r"no authorizer.*authorizer\.class\.name"):
        acls.allow(ELSEWHERE, rules("page", "User:page"))


def test_doctor_names_it_and_warns_where_others_reach_the_brokers(answers: Any) -> None:
    answers(errors.SecurityDisabledError)
    (found,) = checks.authorizer(ELSEWHERE)
    assert (found.name, found.status) == ("rights", "warn")
    assert "authorizer.class.name" in str(found.fix)
    (found,) = checks.authorizer(BrokerSettings(brokers=("127.0.0.1:9092",)))
    assert (found.status, found.fix) == ("ok", None)


@pytest.mark.parametrize("problem", [errors.ClusterAuthorizationFailedError, errors.UnsupportedVersionError])
def test_brokers_that_do_not_say_are_not_accused(answers: Any, problem: type[errors.KafkaError]) -> None:
    answers(problem)
    assert acls.authorized(ELSEWHERE) is None
    assert checks.authorizer(ELSEWHERE) == []
