"""Rights given to principals on the brokers.

Rule of this file: rights are added, and none is taken away.
"""

import contextlib
from collections.abc import Iterable

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from paceline.kafka.clients import admin
from paceline.kafka.errors import explained
from paceline.kafka.settings import BrokerSettings
from paceline.rights import Rule


def allow(settings: BrokerSettings, rules: Iterable[Rule]) -> int:
    """Have the brokers allow ``rules``; how many entries that are. Those that are there already stay.

    Raises:
        BusError: no broker, no right to do so, or brokers without an authorizer.
    """
    asked = entries(rules)
    with explained(settings), contextlib.closing(admin(settings)) as client:
        for refused in client.create_acls(asked)["failed"]:
            raise refused(f"{len(asked)} entries")
    return len(asked)


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
