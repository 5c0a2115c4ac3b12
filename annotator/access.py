"""The least that the annotator may do in Kubernetes, by what it is asked to do.

Rule of this file: data, and what follows from it; pure. ``paceline annotate --print-role`` prints it, and the tests run
with exactly that.
"""

from collections import defaultdict
from typing import NamedTuple

from .owners import BETWEEN

NAME = "paceline-annotator"


class Rule(NamedTuple):
    """``verbs`` on ``resources`` of ``group``."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


def plural(kind: str) -> str:
    """How a kind is called in a path, as all controllers name theirs.

    >>> plural("PyTorchJob"), plural("NetworkPolicy")
    ('pytorchjobs', 'networkpolicies')
    """
    small = kind.lower()
    if small.endswith("y"):
        return small[:-1] + "ies"
    return small + ("es" if small.endswith(("s", "x", "ch", "sh")) else "s")


def rules(kinds: frozenset[tuple[str, str]], events: bool = True, conditions: bool = False) -> list[Rule]:
    """Every rule that is needed, and no more."""
    made = [
        Rule("", ("nodes", "pods"), ("list", "watch", "patch", "get")),
        *([Rule("", ("nodes/status",), ("patch",))] if conditions else []),
        *([Rule("events.k8s.io", ("events",), ("create", "patch"))] if events else []),
    ]
    groups: dict[str, list[str]] = defaultdict(list)
    for group, kind in sorted(kinds):
        groups[group].append(plural(kind))
    made += [Rule(group, tuple(resources), ("get", "patch")) for group, resources in sorted(groups.items())]
    between = sorted({*BETWEEN} - kinds)
    return made + [Rule(group, (plural(kind),), ("get",)) for group, kind in between]


def manifest(made: list[Rule]) -> str:
    """A ClusterRole that allows ``made``, as YAML."""
    lines = [
        "apiVersion: rbac.authorization.k8s.io/v1",
        "kind: ClusterRole",
        "metadata:",
        f"  name: {NAME}",
        "rules:",
    ]
    for rule in made:
        lines.append(f"  - apiGroups: [{_quoted((rule.group,))}]")
        lines.append(f"    resources: [{_quoted(rule.resources)}]")
        lines.append(f"    verbs: [{_quoted(rule.verbs)}]")
    return "\n".join(lines) + "\n"


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)
