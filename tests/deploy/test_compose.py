"""docker-compose.yml, read by the real Compose (which needs no engine for that), with each of its profiles."""

import ast
import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline import settings
from paceline.gpu.dcgm import FIELDS
from paceline.settings import Setting

pytestmark = [pytest.mark.slow, pytest.mark.landing]  # the real Compose reads the file

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
GPU, SECURE = ("--env-file", "deploy/gpu.env"), ("--env-file", "deploy/secure.env")
WAYS = {"default": (), "demo": ("--profile", "demo"), "gpu": GPU, "secure": SECURE}
#: What secrets.sh gives to whom.
GIVEN = {
    "kafka": {"ca.pem", "kafka.pem", "jobs.password", "paceline.scram", "jobs.scram"},
    "services": {"ca.pem", "paceline.password"},
    "jobs": {"ca.pem", "jobs.password"},
    "grafana": {"grafana.password"},
    "forecaster": {"forecaster.token"},
    "control": {"control.token"},
    "ui": {"ui.token"},
}
#: Services that end: they have no health.
ONCE = {"secrets", "users", "topics", "demo"}
#: Images of others: no folder of ours has their name.
OTHERS = {"kafka", "users", "prometheus", "alertmanager", "grafana", "dcgm-exporter"}
#: Where the code of a service of ours begins.
BEGINNINGS = {
    "topics": ("paceline.commands.topics",),
    "streams": ("streams.__main__",),
    "collectors": ("collectors.__main__",),
    "forecaster": ("forecaster.__main__",),
    "control": ("control.__main__",),
    "archive": ("archive.__main__",),
    "ui": ("ui.__main__", "ui.live_page", "ui.history_door"),  # Streamlit starts the page by its path.
    "alerts": ("paceline.commands.alerts",),
}
#: Read by shared code, and set for no container: of a job, of HTTPS, and of logins that the file's own Kafka has not.
NOT_OF_CONTAINERS = {"JOB", "TOTAL_STEPS", "TLS_CERTFILE", "TLS_KEYFILE", "TLS_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE"}
NOT_OF_CONTAINERS |= {"SASL_MECHANISM", *(name for name in vars(settings) if name.startswith("SASL_OAUTH_"))}
#: Of options that a service is started without, of files outside its container, and a name that replicas cannot share.
NOT_OF_ONE = {
    "streams": {"NODE"},
    "collectors": {"RATED_FILE", "DCGM_LOGIN"},
    "forecaster": {"PROMETHEUS_LOGIN"},
    "archive": {"PROMETHEUS_LOGIN"},
    "control": {"CONTROL_URL"},
    "ui": {"NODE", "SESSIONS_DIR"},
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False)


def read(*options: str) -> dict[str, Any]:
    """The file as Compose understands it."""
    done = run(BIN / "docker-compose", *options, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """Every service of every profile, as without a file of variables."""
    return dict(read("--profile", "*")["services"])


@pytest.fixture(scope="module")
def secured() -> dict[str, Any]:
    """The services of profile secure."""
    return dict(read(*SECURE)["services"])


def test_it_fits_the_specification() -> None:
    """The published schema of the Compose specification accepts it."""
    done = run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_a_profile_adds_what_it_is_for(way: str) -> None:
    """The stack that always runs, and what the profile adds to it."""
    always = {"kafka", "topics", "streams", "collectors", "forecaster", "control", "archive", "ui", "alerts"}
    always |= {"prometheus", "alertmanager", "grafana"}
    more = {"default": set(), "demo": {"demo"}, "gpu": {"dcgm-exporter"}, "secure": {"secrets", "users"}}
    assert set(read(*WAYS[way])["services"]) == always | more[way]


def test_own_services_are_folders_or_commands(services: dict[str, Any]) -> None:
    """Folder, compose service and image bear one name; what is a command alone runs in that of streams."""
    own = {name for name in services if (ROOT / name / "__main__.py").exists()}
    assert set(services) - own - OTHERS == {"secrets", "topics", "alerts", "demo"}
    for name in own | {"demo"}:
        assert services[name]["build"]["target"] == name
        assert services[name]["image"].startswith(f"paceline/{name}:")
    for name in ("secrets", "topics", "alerts"):
        assert services[name]["build"]["target"] == "streams"


def test_images_are_pinned(services: dict[str, Any]) -> None:
    """Each by a whole version, or by digest."""
    for name, service in services.items():
        tag = service["image"].rpartition(":")[2]
        assert tag.count(".") >= 2, f"{name}: {service['image']}"


def test_ports_are_published_on_loopback_only(services: dict[str, Any]) -> None:
    """Nothing is reachable from another machine unless its operator says so."""
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 5
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    assert len({port["published"] for port in ports}) == len(ports)


def test_what_answers_foreign_pages_is_not_published(services: dict[str, Any]) -> None:
    """Prometheus and Alertmanager answer a page of any origin, and any Host: one could silence every alert."""
    published = {name for name, service in services.items() if service.get("ports")}
    assert published == {"kafka", "forecaster", "control", "ui", "grafana"}


def test_services_have_no_more_rights_than_they_need(services: dict[str, Any]) -> None:
    """No capability but those that are reasoned, no way to gain one; file systems cannot be written."""
    reasoned = {"secrets": {"CHOWN", "DAC_OVERRIDE", "FOWNER"}, "dcgm-exporter": {"SYS_ADMIN"}}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert set(service.get("cap_add", [])) == reasoned.get(name, set()), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("read_only") or name == "kafka", name
        assert not service.get("privileged"), name
        assert name == "secrets" or not str(service.get("user", "1")).startswith(("0", "root")), name


def test_services_are_bounded(services: dict[str, Any]) -> None:
    """Memory, processes and what a service logs have an end."""
    for name, service in services.items():
        assert 2**27 < int(service["mem_limit"]) <= 6 * 2**30, name
        assert 0 < service["pids_limit"] <= 1024, name
        assert service["logging"]["options"]["max-size"], name


def test_what_is_kept_lies_in_volumes_that_are_declared(services: dict[str, Any]) -> None:
    """A folder of ours is read only, there, and in the repository; all else is a named volume."""
    declared = set(read("--profile", "*")["volumes"])
    for name, service in services.items():
        for mount in service.get("volumes", []):
            if mount["type"] == "bind":
                assert mount["read_only"], name
                assert Path(mount["source"]).is_relative_to(ROOT / "deploy"), name
                assert Path(mount["source"]).is_dir(), name
            else:
                assert mount["source"] in declared, name


def test_prometheus_asks_services_that_are_there(services: dict[str, Any]) -> None:
    """Every target is a service of the file, or Prometheus itself; every one of ours that tells metrics is asked."""
    jobs = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    static = {target for job in jobs for group in job.get("static_configs", ()) for target in group["targets"]}
    asked = {target.partition(":")[0] for target in static}
    asked |= {name for job in jobs for found in job.get("dns_sd_configs", ()) for name in found["names"]}
    assert asked - {"localhost"} <= set(services)
    assert {"streams", "collectors", "forecaster", "control", "alerts", "dcgm-exporter"} <= asked


def _source(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _imported(module: str, source: Path) -> Iterator[str]:
    """What may be modules among the names that ``source`` imports, at its start or later."""
    package = module.split(".") if source.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*before, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def settings_read_from(*beginnings: str) -> set[str]:
    """The settings that the code reads which these modules import, by their names in ``paceline.settings``."""
    seen, left, found = set(beginnings), list(beginnings), set[str]()
    while left:
        if (source := _source(module := left.pop())) is None:
            continue
        text = source.read_text(encoding="utf-8")
        found.update(re.findall(r"\b([A-Z0-9_]+)\.read\(", text))
        found.update(re.findall(r"\bauthorization\([^)]*\b([A-Z0-9_]+_LOGIN)\b", text))
        new = set(_imported(module, source)) - seen
        seen |= new
        left += new
    return {name for name in found if isinstance(getattr(settings, name, None), Setting)}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_service_is_given_every_setting_that_it_reads(name: str, services: dict[str, Any]) -> None:
    """What is exported where Compose runs reaches the container, or the file sets it."""
    read_there = settings_read_from(*BEGINNINGS[name]) - NOT_OF_CONTAINERS - NOT_OF_ONE.get(name, set())
    declared = {getattr(settings, setting).name for setting in read_there}
    given = {key.removesuffix("_FILE") for key in services[name]["environment"]}
    assert declared - given == set()


def test_services_start_in_order(services: dict[str, Any]) -> None:
    """Kafka answers, then the topics are made, then everything that reads or writes them starts."""
    assert services["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"
    for name in ("streams", "collectors", "forecaster", "control", "ui", "alerts"):
        assert services[name]["depends_on"]["topics"]["condition"] == "service_completed_successfully", name
    assert services["grafana"]["depends_on"]["prometheus"]["condition"] == "service_healthy"
    for name in ("streams", "ui", "alerts"):  # What shall be seen of the run needs those who see.
        assert services["demo"]["depends_on"][name]["condition"] == "service_healthy", name


def test_what_is_waited_for_can_be_told(services: dict[str, Any]) -> None:
    """A service has a health check, of its own or of its image, and one that ends has none that is meaningless."""
    stages = (ROOT / "deploy" / "Dockerfile").read_text().split("\nFROM ")
    with_health = {stage.split()[2] for stage in stages if "\nHEALTHCHECK --" in stage}
    for name, service in services.items():
        check = service.get("healthcheck", {})
        own = "test" in check or service.get("build", {}).get("target") in with_health
        assert name in ONCE or own, name
        if name in ONCE - {"users"}:  # Its image has none.
            assert check.get("disable"), name


def test_with_secure_every_listener_that_leaves_kafka_asks_for_a_login(secured: dict[str, Any]) -> None:
    """TLS and SCRAM on both; what is in the clear listens on the container's own loopback."""
    environ = secured["kafka"]["environment"]
    listeners = dict(one.split("://") for one in environ["KAFKA_LISTENERS"].split(","))
    protocols = dict(one.split(":") for one in environ["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert protocols.keys() == listeners.keys()
    for name, address in listeners.items():
        assert protocols[name] == "SASL_SSL" or address.startswith("localhost:"), name
    assert {name for name, protocol in protocols.items() if protocol == "SASL_SSL"} == {"SERVICES", "HOST"}


def test_with_secure_secrets_come_by_file(secured: dict[str, Any]) -> None:
    """Every client of Kafka logs in with a password that no environment shows."""
    for name, service in secured.items():
        environ = {key: value for key, value in (service.get("environment") or {}).items() if value}
        if "PACELINE_BROKERS" in environ:
            assert environ["PACELINE_SECURITY_PROTOCOL"] == "SASL_SSL", name
            folder = environ["PACELINE_SASL_PASSWORD_FILE"].rpartition("/")[0]
            assert any(mount["target"] == folder for mount in service["volumes"]), name
        secret = [key for key in environ if key.endswith(("PASSWORD", "TOKEN"))]
        assert secret == [], name
    assert secured["grafana"]["environment"]["GF_AUTH_ANONYMOUS_ENABLED"] == "false"


def test_with_secure_what_trains_logs_in_as_a_job_and_reads_no_other_secret() -> None:
    """It is other people's code: with control's token or the services' login it could change everything."""
    demo = read(*SECURE, "--profile", "secure", "--profile", "demo")["services"]["demo"]
    assert demo["environment"]["PACELINE_SASL_USERNAME"] == "jobs"
    assert demo["environment"]["PACELINE_SASL_PASSWORD_FILE"] == "/run/paceline-jobs/jobs.password"
    assert [mount["source"] for mount in demo["volumes"]] == ["jobs-login"]


def test_with_secure_a_service_mounts_only_its_own_secrets() -> None:
    """Every file that its environment or its start names, and no volume whose files it does not name."""
    services = read(*SECURE, "--profile", "secure", "--profile", "demo")["services"]
    volumes = {f"{name}-login": name for name in ("kafka", "services", "jobs", "grafana")}
    volumes |= {f"{name}-token": name for name in ("forecaster", "control", "ui")}
    for name, service in services.items():
        if name == "secrets":
            continue
        mounts = {mount["target"]: mount["source"] for mount in service.get("volumes", ())}
        assert "secrets" not in mounts.values(), name
        held = {
            f"{target}/{file}" for target, source in mounts.items() for file in GIVEN.get(volumes.get(source, ""), ())
        }
        said = json.dumps([service.get("environment"), service.get("entrypoint"), service.get("command")])
        asked = set(re.findall(r"/run/paceline[\w./-]*\.(?:pem|password|token)", said))
        assert asked <= held, name
        if name not in ("kafka", "users"):  # Kafka's own container reads all of its folder.
            assert held == asked, name


def test_with_secure_nothing_starts_before_the_secrets_are_there(secured: dict[str, Any]) -> None:
    """Kafka waits for its certificate, and the topics for the users."""
    done = "service_completed_successfully"
    assert secured["kafka"]["depends_on"]["secrets"]["condition"] == done
    assert secured["topics"]["depends_on"]["users"]["condition"] == done


def test_half_of_secure_is_refused(tmp_path: Path) -> None:
    """The profile without its variables makes no secrets, and so starts no Kafka."""
    environ = read("--profile", "secure")["services"]["secrets"]["environment"]
    script = ROOT / "deploy" / "secure" / "secrets.sh"
    done = subprocess.run(
        ["bash", str(script), str(tmp_path), str(tmp_path)],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--env-file deploy/secure.env" in done.stderr
    assert not list(tmp_path.iterdir())


def is_for(folder: Path, *name: str) -> bool:
    """Whether Kafka's certificate in ``folder`` is the authority's there, and for ``name``."""
    return not run("openssl", "verify", "-CAfile", folder / "ca.pem", *name, folder / "kafka.pem").returncode


def test_secrets_are_made_once(tmp_path: Path) -> None:
    """What is there stays; Kafka's certificate is the authority's, and is made again for other names of Kafka."""
    out = tmp_path / "out"
    for name in GIVEN:
        (out / name).mkdir(parents=True)
    owners = [f"{name}={out / name}" for name in GIVEN]
    script = ("bash", str(ROOT / "deploy" / "secure" / "secrets.sh"), str(tmp_path), *owners)
    environ = {**os.environ, "KAFKA_PROTOCOL": "SASL_SSL", "KAFKA_NAMES": "IP:192.0.2.7"}
    subprocess.run(script, env=environ, check=True, capture_output=True)
    made = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    subprocess.run(script, env=environ, check=True, capture_output=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == made
    assert all(path.stat().st_mode & 0o077 == 0 for path in made if path.name != "ca.pem")
    given = {path.name: {one.name for one in path.iterdir()} for path in out.iterdir()}
    assert given == GIVEN
    assert all(made[path] == made[tmp_path / path.name] for path in made if out in path.parents)
    for name in (("-verify_hostname", "kafka"), ("-verify_ip", "127.0.0.1"), ("-verify_ip", "192.0.2.7")):
        assert is_for(tmp_path, *name), name
    subprocess.run(script, env={**environ, "KAFKA_NAMES": "DNS:kafka.example"}, check=True, capture_output=True)
    changed = {path.name for path, content in made.items() if path.read_bytes() != content}
    assert changed == {"kafka.pem", "kafka.names"}
    assert (out / "kafka" / "kafka.pem").read_bytes() == (tmp_path / "kafka.pem").read_bytes()
    assert is_for(tmp_path, "-verify_hostname", "kafka.example")
    assert not is_for(tmp_path, "-verify_ip", "192.0.2.7")


def test_with_gpu_the_collector_and_the_exporter_have_the_gpus() -> None:
    """And nobody else."""
    found = read(*GPU)["services"]
    assert [name for name in found if "deploy" in found[name]] == ["dcgm-exporter"]
    assert [name for name in found if found[name].get("runtime")] == ["collectors"]
    assert found["collectors"]["environment"]["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_the_exporters_counters_are_known_fields() -> None:
    """Every counter that we turn on is a field that we can read, under its own name, once."""
    lines = (ROOT / "deploy" / "dcgm-exporter" / "counters.csv").read_text().splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    names = [row[0] for row in rows]
    known = {field.name for field in FIELDS}
    assert all(len(row) == 3 and row[1].strip() in ("gauge", "counter") for row in rows)
    assert len(set(names)) == len(names)
    assert set(names) <= known
    assert {field.name for field in FIELDS if field.listed == "by default"} <= set(names)
