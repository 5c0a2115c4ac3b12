"""The chart's values: each is described, defaults are allowed, what is wrong is refused in a sentence."""

import json
import re
import shlex
from typing import Any

import jsonschema
import pytest
import yaml

from experiments.chart import files as source
from experiments.chart.render import CHART, ROOT, VALUES, ToolsError, cases, helm, programs, template
from paceline import rights
from paceline.settings import SETTINGS

pytestmark = pytest.mark.slow

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


def test_the_schema_is_one_and_takes_the_defaults() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(DEFAULTS)


@pytest.mark.parametrize("name", cases())
def test_the_schema_takes_what_tests_install(name: str) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(yaml.safe_load((VALUES / f"{name}.yaml").read_text()))


def test_every_value_has_a_default_and_every_default_is_described() -> None:
    """A value that only one of both knows would be refused, or never be found."""

    def paths(schema: dict[str, Any], held: Any, path: str) -> list[str]:
        own = schema.get("properties")
        if own is None or "description" in schema:
            return []
        wrong = [f"{path}.{name}" for name in set(own) ^ set(held)]
        assert schema["additionalProperties"] is False, path
        return wrong + [one for name in set(own) & set(held) for one in paths(own[name], held[name], f"{path}.{name}")]

    assert paths(SCHEMA, {**DEFAULTS, "global": {}}, "") == []
    undescribed = [path for path, words, _ in source.values(SCHEMA, DEFAULTS) if not words]
    assert undescribed == []


WRONG = {
    "strems.enabled=false": "strems",
    "kafka.mode=kraft": "mode",
    "streams.replicas=13": "12",
    "streams.replicas=-1": "0",
    "streams.keda.maxReplicas=13": "12",
    "streams.enabled=perhaps": "boolean",
    "control.persistence.size=lots": "size",
    "image.digests.ui=latest": "ui",
    "image.tag=a b": "tag",
    "settings.PACELINE_UI_TOKEN=secret": "PACELINE_UI_TOKEN",
    "settings.PACELINE_KAFKA=x": "PACELINE_KAFKA",
    "collectors.dcgm=http://user:secret@exporter": "dcgm",
    "collectors.simulate=65": "64",
    "collectors.spoolSize=299Mi": "spoolSize",
    "ui.ingress.path=/paceline": "path",
    "networkPolicies.egressPorts.kafka[0]=1": "kafka",
    "networkPolicies.egressPorts.ui[0]=65536": "egressPorts",
    "streams.keda.namespace=a.b": "namespace",
    "collectors.podResources.path=pod-resources": "path",
    "alerts.to[0]=https://user:secret@example.org": "to",
    "ui.ingress.host=https://paceline.example.org": "host",
    "ui.login.secret=Not A Name": "secret",
    "kafka.external.brokers=kafka": "brokers",
    "kafka.external.protocol=TLS": "protocol",
    "kafka.external.oauth.tokenUrl=http://login.example.org": "tokenUrl",
    "kafka.users.people.secret=x": "people",
    "commonLabels.app\\.kubernetes\\.io/name=x": "app.kubernetes.io/name",
    "monitoring.monitors.interval=fast": "interval",
    "annotator.owners[0].group=batch": "owners",
    "streams.resources.limits.memory=much": "memory",
    "clusterName=": "clusterName",
}


@pytest.mark.landing
@pytest.mark.parametrize("version", [3, 4])
def test_a_wrong_value_is_refused_by_its_name(version: int) -> None:
    """All at once, so that who installs mends them all; what is right is not named."""
    options = [
        option for value in WRONG for option in ("--set-string" if value.startswith("settings") else "--set", value)
    ]
    done = helm(version, "template", "paceline", CHART, *options)
    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
    for word in WRONG.values():
        assert word in done.stderr, word


@pytest.mark.parametrize("value", WRONG)
def test_each_wrong_value_is_refused_by_itself(value: str) -> None:
    """The schema alone would let the others hide one."""
    done = helm(4, "template", "paceline", CHART, "--set-string" if value.startswith("settings") else "--set", value)
    assert done.returncode == 1, value
    assert WRONG[value] in done.stderr


EXTERNAL = "kafka.mode=external,kafka.external.brokers=k:9092"
CONTRADICTIONS = {
    "kafka.mode=external": "kafka.external.brokers is empty",
    EXTERNAL: "kafka.external.secret is empty",
    f"{EXTERNAL},kafka.external.secret=s": "kafka.external.username is empty",
    f"{EXTERNAL},kafka.external.secret=s,kafka.external.mechanism=OAUTHBEARER": "oauth.tokenUrl and clientId",
    f"{EXTERNAL},kafka.external.protocol=SSL": "kafka.external.secret is empty",
    f"{EXTERNAL},kafka.external.protocol=SSL,kafka.external.secret=s,kafka.external.keys.key=k": "keys.key is set",
    "kafka.mode=strimzi,kafka.strimzi.create=false": "kafka.strimzi.cluster is empty",
    "streams.autoscaling.enabled=true,streams.keda.enabled=true": "allowed: one scaler",
    "collectors.dcgm=http://e:9400,collectors.simulate=2": "allowed: one source of GPUs",
    "alerts.enabled=true": "alerts.to and alerts.secret are empty",
    "alerts.enabled=true,alerts.to[0]=smtp://m:587?to=a%40b.org,alerts.smtp.secret=s": "alerts.smtp.username is empty",
    "ui.ingress.enabled=true": "ui.ingress.host is empty",
    "ui.ingress.enabled=true,ui.ingress.host=paceline.example.org": "networkPolicies.pageFrom is empty",
}


@pytest.mark.parametrize("values", CONTRADICTIONS)
def test_values_that_contradict_each_other_are_one_sentence(values: str) -> None:
    """It names the value, and what is allowed."""
    with pytest.raises(ValueError, match=re.escape(CONTRADICTIONS[values])) as error:
        template(4, "--set", values)
    assert "allowed: " in str(error.value)


def test_settings_of_the_values_are_declared_and_no_secrets() -> None:
    declared = {setting.name for setting in SETTINGS if not setting.secret and not setting.name.endswith("_FILE")}
    assert set(SCHEMA["properties"]["settings"]["properties"]) <= declared


def test_prices_and_patience_of_services_can_be_set() -> None:
    """What energy costs there, and how long services wait for each other on slow machines."""
    values = {"KWH_PRICE": "0.3", "CO2E_G_PER_KWH": "400", "PUE": "1.4", "PATIENCE": "2"}
    options = [word for name, value in values.items() for word in ("--set-string", f"settings.PACELINE_{name}={value}")]
    done = helm(4, "template", "paceline", CHART, *options)
    assert done.returncode == 0, done.stderr
    for name, value in values.items():
        assert f'{{name: PACELINE_{name}, value: "{value}"}}' in done.stdout


def test_files_of_the_chart_are_those_of_their_source() -> None:
    """`make chart` has been run: topics, rights, rules and dashboards are said once."""
    made = source.files()
    assert {path for path in source.FILES.rglob("*") if path.is_file()} == {*made, source.FILES / "annotator.json"}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run `make chart`"


def test_users_that_the_schema_tells_of_are_those_that_it_takes() -> None:
    users = SCHEMA["properties"]["kafka"]["properties"]["users"]
    listed = re.findall(r"`(\w+)`", users["description"].partition("(")[2])
    assert sorted(listed) == sorted(users["properties"])


def test_the_annotators_role_is_that_of_its_table() -> None:
    pytest.importorskip("annotator")
    assert source.FILES / "annotator.json" in source.files()


def test_the_table_of_the_page_is_that_of_the_schema() -> None:
    """`make chart` has been run."""
    assert source.PAGE.read_text(encoding="utf-8") == source.page()


def test_values_that_the_page_shows_are_allowed() -> None:
    """Every `--set` of the page, and every block of values."""
    text = source.PAGE.read_text(encoding="utf-8")
    known = {path for path, _, _ in source.values(SCHEMA, DEFAULTS)}
    shown = re.findall(r"--set(?:-json|-string)? '?([a-zA-Z]+[\w.]*)(?:\[\d+\])?=", text)
    assert len(shown) > 5
    assert {
        path for path in shown if path not in known and not any(path.startswith(f"{one}.") for one in known)
    } == set()
    blocks = re.findall(r"```yaml\n# values\.yaml\n(.*?)```", text, flags=re.S)
    assert len(blocks) >= 4
    for block in blocks:
        jsonschema.Draft7Validator(SCHEMA).validate(yaml.safe_load(block))
        template(4, *_written(block))


def commands() -> list[list[str]]:
    """Every command with which the page installs or upgrades."""
    text = re.sub(r"\\\n\s*", "", source.PAGE.read_text(encoding="utf-8"))
    lines = re.findall(r"^\s*(helm (?:install|upgrade) paceline .*)$", text, flags=re.M)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("command", commands(), ids=lambda command: command[-1])
def test_commands_that_the_page_shows_are_taken(command: list[str]) -> None:
    """As they are typed, but for a cluster: an upgrade is rendered as an installation with its values alone."""
    _, _, release, chart, *options = command
    assert (ROOT / chart) == CHART
    # Alone it would take a new version's defaults away, and what its templates ask of them would be missing.
    assert "--reuse-values" not in command
    done = helm(4, "template", release, CHART, *(option for option in options if option != "--reset-then-reuse-values"))
    assert done.returncode == 0, done.stderr


def test_the_page_shows_commands() -> None:
    assert len(commands()) >= 5


def inline() -> list[list[str]]:
    """Every run of options that the page shows inside of a sentence."""
    text = source.PAGE.read_text(encoding="utf-8")
    return [shlex.split(options) for options in re.findall(r"`(--set[^`]*)`", text)]


@pytest.mark.parametrize("options", inline(), ids=lambda options: options[-1])
def test_options_that_a_sentence_shows_are_taken(options: list[str]) -> None:
    template(4, *options)


def test_sentences_show_options() -> None:
    assert len(inline()) >= 2


def test_users_that_the_page_shows_are_those_of_its_rights() -> None:
    """`paceline rights` gives User:paceline-SERVICE what it needs: the values log in as these, and as nobody else."""
    text = source.PAGE.read_text(encoding="utf-8")
    blocks = [yaml.safe_load(one) for one in re.findall(r"```yaml\n# values\.yaml\n(.*?)```", text, flags=re.S)]
    (shown,) = (block["kafka"] for block in blocks if "users" in block.get("kafka", {}))
    assert "username" not in shown["external"]
    principals = rights.default_principals()
    for service, user in shown["users"].items():
        if service != "topics":
            assert f"User:{user['username']}" == principals["page" if service == "ui" else service]


def _written(block: str) -> tuple[str, str]:
    """Values as one option; no file is left behind."""
    top = yaml.safe_load(block)
    return "--set-json", ",".join(f"{name}={json.dumps(value)}" for name, value in top.items())
