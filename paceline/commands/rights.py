"""``paceline rights``: the least that each service needs on the brokers, as a script of Kafka's own tool or at once.

Rule of this file: what is allowed is the table's to say; this writes it.
"""

import argparse
import json
import os
import re
import shlex
import sys

from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.rights import SERVICES, Rule, default_principals, rules
from paceline.settings import SettingError
from paceline.terminal import say

PROGRAM = "paceline rights"
EXAMPLES = """examples:
  paceline rights                                             a script of kafka-acls.sh, a user a service
  paceline rights collectors training --user collectors=gpu   of these, the first as User:gpu
  paceline rights --user page='User:CN=page,O=Example'        a principal of mTLS
  paceline rights --json                                      for other tools
  PACELINE_SASL_USERNAME=admin ... paceline rights --apply    add them now; brokers need authorizer.class.name

Rights are only added. Users are created by the brokers' administrator (kafka-configs.sh --alter --add-config
'SCRAM-SHA-512=[password=...]' --entity-type users --entity-name NAME)."""
_PRINCIPAL = re.compile(r"[A-Za-z]+:[^\x00-\x1f\x7f]+")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog=PROGRAM,
        description="Print the minimal Kafka ACLs of each service.\nNeeds a broker only with --apply.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("services", nargs="*", metavar="SERVICE", help=f"of {', '.join(SERVICES)} (all)")
    made.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="SERVICE=USER",
        help="the service's user, or its whole principal (User:paceline-SERVICE)",
    )
    how = made.add_mutually_exclusive_group()
    how.add_argument("--apply", action="store_true", help="add these ACLs on the brokers, as an administrator")
    how.add_argument("--json", action="store_true", help="as JSON, and nothing else")
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    try:
        asked = _asked(args.services, args.user)
        if args.apply:
            # Here, not above: a script is written without a client of the brokers.
            from paceline.kafka.acls import allow

            count = allow(BrokerSettings.from_environ(os.environ, args.brokers), asked)
            print(f"{PROGRAM}: {count} entries exist now", file=sys.stderr)
            return 0
    except (ValueError, BusError, SettingError) as error:
        say(str(error), PROGRAM)
        return 1 if isinstance(error, BusError) else 2
    if args.json:
        print(json.dumps([rule._asdict() for rule in asked], indent=2))
    else:
        print(script(asked))
    return 0


def script(asked: list[Rule]) -> str:
    """``asked`` as a shell script of Kafka's own tool."""
    lines = [
        "#!/bin/sh",
        "# BROKERS=host:port COMMAND_CONFIG=admin.properties sh THIS; kafka-acls.sh is in Kafka's bin folder.",
        "set -eu",
        'acls() { kafka-acls.sh --bootstrap-server "$BROKERS" --command-config "$COMMAND_CONFIG" --add "$@"; }',
    ]
    for rule in asked:
        words = ["--allow-principal", rule.principal]
        for operation in rule.operations:
            words += ["--operation", operation]
        words += [f"--{rule.resource}", rule.name]
        words += ["--resource-pattern-type", "prefixed"] if rule.prefixed else []
        lines.append(f"acls {shlex.join(words)}")
    return "\n".join(lines)


def _asked(services: list[str], users: list[str]) -> list[Rule]:
    """The rules of ``services``, of all where none is named, for ``users``.

    Raises:
        ValueError: a service or user that is none.
    """
    principals = default_principals()
    for told in users:
        name, _, user = told.partition("=")
        _known(name)
        principal = user if ":" in user.partition("=")[0] else f"User:{user}"
        if not user or len(user) > 1000 or not _PRINCIPAL.fullmatch(principal):
            raise ValueError(f"--user {told!r}: write SERVICE=NAME, or SERVICE=User:NAME")
        principals[name] = principal
    for name in services:
        _known(name)
    return [rule for name in dict.fromkeys(services or SERVICES) for rule in rules(name, principals[name])]


def _known(name: str) -> None:
    if name not in SERVICES:
        raise ValueError(f"no service {name!r}; there are {', '.join(SERVICES)}")
