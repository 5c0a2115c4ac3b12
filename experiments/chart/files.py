"""What the chart holds of what is said elsewhere: topics, rights, roles, rules, dashboards, and its table of values.

Rule of this file: whole files out of their source, and nothing is decided. `make chart` writes them, and
`tests/deploy/test_helm_values.py` compares.
"""

import importlib
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from paceline import rights
from paceline.kafka.topic_admin import topic_configs
from paceline.topics import TOPICS

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "paceline"
FILES = CHART / "files"
PAGE = ROOT / "docs" / "kubernetes.md"
MARKS = ("<!-- values: begin -->", "<!-- values: end -->")
RULES = ROOT / "deploy" / "prometheus" / "rules"
DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"


def files() -> dict[Path, str]:
    """Every file of the chart that has its source elsewhere, with what it must hold."""
    made = {FILES / "topics.json": _json(topics()), FILES / "rights.json": _json(users())}
    if importlib.util.find_spec("annotator"):  # The chart can be had without that service.
        made[FILES / "annotator.json"] = _json(role())
    made |= {FILES / "rules" / path.name: path.read_text() for path in sorted(RULES.glob("*.yml"))}
    made |= {FILES / "dashboards" / path.name: path.read_text() for path in sorted(DASHBOARDS.glob("*.json"))}
    return made


def topics() -> list[dict[str, Any]]:
    """The topics as they are made on brokers of one's own."""
    return [{"name": topic.name, "partitions": topic.partitions, "config": topic_configs(topic)} for topic in TOPICS]


def users() -> dict[str, list[dict[str, Any]]]:
    """Service -> its rights, in the words of Strimzi's users."""
    return {
        name: [
            {
                "resource": rule.resource,
                "name": rule.name,
                "pattern": "prefix" if rule.prefixed else "literal",
                "operations": list(rule.operations),
            }
            for rule in rights.rules(name, "")
        ]
        for name in rights.SERVICES
    }


def role() -> list[dict[str, Any]]:
    """What the annotator may do in the cluster, for the kinds of owners that it knows; the least of it."""
    access, owners = (importlib.import_module(f"annotator.{name}") for name in ("access", "owners"))
    rules = access.rules(frozenset(owners.KINDS))
    return [{"group": rule.group, "resources": list(rule.resources), "verbs": list(rule.verbs)} for rule in rules]


def values(schema: dict[str, Any], defaults: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Each value that can be set: its path, what it means, its default; a level that says what it is stays whole."""
    for name, said in schema.get("properties", {}).items():
        default = defaults.get(name) if isinstance(defaults, dict) else None
        here = f"{path}.{name}".lstrip(".")
        if "description" in said:
            yield here, said["description"], json.dumps(default)
        else:
            yield from values(said, default, here)


def table() -> str:
    """The values as a table."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = [f"| `{path}` | {words} | `{default}` |" for path, words, default in values(schema, defaults)]
    return "\n".join(["| value | what | default |", "|---|---|---|", *rows])


def page() -> str:
    """docs/kubernetes.md with the table as it must be."""
    begin, end = map(re.escape, MARKS)
    return re.sub(
        rf"{begin}.*?{end}",
        lambda _: f"{MARKS[0]}\n{table()}\n{MARKS[1]}",
        PAGE.read_text(encoding="utf-8"),
        flags=re.S,
    )


def _json(told: Any) -> str:
    return json.dumps(told, indent=1) + "\n"


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if PAGE.exists():
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
