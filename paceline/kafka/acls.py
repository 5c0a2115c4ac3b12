"""Rights on the brokers: given to principals, and asked for by who has logged in.

Rule of this file: rights are added, and none is taken away.
"""

import contextlib
from collections.abc import Iterable
from typing import Any

from kafka import errors
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from paceline.kafka.clients import admin
from paceline.kafka.errors import BusError, explained
from paceline.kafka.settings import BrokerSettings
from paceline.rights import Rule

#: Why no rights can be given, and what to do about it.
NO_AUTHORIZER = "these brokers have no authorizer: every client may do everything, and no right can be added"
AUTHORIZER = (
    "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer and super.users on every broker "
    "and controller, and start them again"
)
_TOPICS = ResourcePatternFilter(ResourceType.TOPIC, "*", ACLResourcePatternType.LITERAL)
_ANY = ACLFilter("User:paceline", "*", ACLOperation.ANY, ACLPermissionType.ANY, _TOPICS)


def allow(settings: BrokerSettings, rules: Iterable[Rule]) -> int:
    """Have the brokers allow ``rules``; how many entries that are. Those that are there already stay.

    Raises:
        BusError: no broker, no right to do so, or brokers without an authorizer.
    """
    asked = entries(rules)
    with explained(settings), contextlib.closing(admin(settings)) as client:
        for refused in client.create_acls(asked)["failed"]:
            if refused is errors.SecurityDisabledError:
                raise BusError(settings.address, NO_AUTHORIZER, AUTHORIZER, permanent=True)
            raise refused(f"to give {len(asked)} rights")
    return len(asked)


def authorized(settings: BrokerSettings) -> bool | None:
    """Whether the brokers ask who may do what; None where they do not say.

    Raises:
        BusError: no broker.
    """
    with explained(settings), contextlib.closing(admin(settings)) as client:
        try:
            _, problem = client.describe_acls(_ANY)
        except errors.KafkaError as error:
            problem = type(error)
    if problem is errors.SecurityDisabledError:
        return False
    # A login that may not see rights, or brokers that are not Apache Kafka.
    return True if problem is errors.NoError else None


def lacking(settings: BrokerSettings, rules: Iterable[Rule]) -> dict[str, list[str]]:
    """Which operations of ``rules`` on whole topics this login may not do, by topic; those that are not there pass.

    Raises:
        BusError: no broker.
    """
    asked = {rule.name: rule.operations for rule in rules if rule.resource == "topic" and not rule.prefixed}
    with explained(settings), contextlib.closing(admin(settings)) as client:
        held = {row["name"]: _held(row) for row in client.describe_topics(sorted(asked))}
    missed = {
        name: [operation for operation in operations if operation.upper() not in held.get(name, operations)]
        for name, operations in asked.items()
    }
    return {name: operations for name, operations in missed.items() if operations}


def _held(row: dict[str, Any]) -> set[str]:
    """The operations that the brokers let us do on the topic of ``row``; all where they do not say, or have none."""
    told = row.get("topic_authorized_operations")
    if row["error_code"] == errors.TopicAuthorizationFailedError.errno:
        return set()
    if row["error_code"] or not told:
        return {operation.name for operation in ACLOperation}
    return {operation.name for operation in ACLOperation if operation.value in told}


def entries(rules: Iterable[Rule]) -> list[ACL]:
    """``rules`` as Kafka has them: an entry an operation."""
    return [_entry(rule, operation) for rule in rules for operation in rule.operations]


def _entry(rule: Rule, operation: str) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if rule.prefixed else ACLResourcePatternType.LITERAL
    return ACL(
        rule.principal,
        "*",
        ACLOperation[operation.upper()],
        ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType[rule.resource.upper()], rule.name, pattern),
    )
