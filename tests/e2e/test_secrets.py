"""No secret shows: not in the process list, an output, a log, a crash, `doctor`, a file, a metric, nor on the bus.

Every setting that is a secret gets a word of its own, and so does what an address may hold. Then each command that uses
any is made to fail, and to crash where it holds its settings, and a whole stack works with them; all that others could
see of it is searched, and each file that it wrote.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.settings import SETTINGS
from paceline.topics import TOPICS
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
#: No part of a word that anything else says.
CANARY = "cAnAryW0rd"
SECRETS = {setting.name: f"{CANARY}{number}" for number, setting in enumerate(SETTINGS) if setting.secret}
#: What is tried beside a service's own settings: the brokers are not there, and log in by a password or by tokens.
LOGIN = {
    "PACELINE_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "PACELINE_SASL_USERNAME": "ada",
    "PACELINE_SASL_PASSWORD": SECRETS["PACELINE_SASL_PASSWORD"],
}
TOKENS = {
    "PACELINE_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "PACELINE_SASL_MECHANISM": "OAUTHBEARER",
    "PACELINE_SASL_OAUTH_TOKEN_URL": "http://127.0.0.1:1/token",
    "PACELINE_SASL_OAUTH_CLIENT_ID": "ada",
    "PACELINE_SASL_OAUTH_CLIENT_SECRET": SECRETS["PACELINE_SASL_OAUTH_CLIENT_SECRET"],
}
IN_ADDRESS = f"http://ada:{CANARY}inAddress@127.0.0.1:1"
OTHERS = {
    name: value
    for name, value in SECRETS.items()
    if not name.startswith("PACELINE_SASL_") and name != "PACELINE_ALERTS_TO"
} | {
    "PACELINE_ALERTS_TO": f"http://ada:{CANARY}hook@127.0.0.1:1/hook/{CANARY}path smtp://127.0.0.1:1?to=a@b.c&from=d@e.f",
    "PACELINE_SMTP_USERNAME": "ada",
    "PACELINE_CONTROL_URL": IN_ADDRESS,
    "PACELINE_DATABASE": f"postgresql://ada:{CANARY}database@127.0.0.1:1/paceline",
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}bucket",
    "PGPASSWORD": f"{CANARY}catalog",
    "OTEL_EXPORTER_OTLP_ENDPOINT": IN_ADDRESS,
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {CANARY}receiver",
}
#: Files that a command reads: name -> what is in it. An API that is not there, which a token is for; an event; a trial.
READ = {
    "kubeconfig": json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"token": f"{CANARY}kubernetes"}}],
            "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "lab",
        }
    ),
    "job.log": "[rank1]: Traceback (most recent call last):\n[rank1]: RuntimeError: CUDA error: misaligned address\n",
    "trial.yaml": "{name: t, steps: 20, rungs: 1, repeats: 1, placements: {batch_size: [1, 2]}, reads: [batch_size]}",
    "event.jsonl": '{"topic": "paceline.job.v1", "key": "j", "timestamp_ms": 0, "value": {}}\n',
}
ENDING = {
    "streams": ["streams", "--wait", "0.5"],  # it is to run out
    "run": ["run", "--", sys.executable, "-c", "raise SystemExit(3)"],
    "doctor": ["doctor", "--ask", f"{IN_ADDRESS}/readyz"],
    "doctor, as JSON": ["doctor", "--json", "--ask", f"{IN_ADDRESS}/readyz"],
    "tail": ["tail", "finding"],
    "ask": ["ask", "job:j", "dance", "--anyway", "--wait", "0.5"],  # it is to run out
    "record": ["record", "-o", "recorded.jsonl"],
    "topics": ["topics", "create"],
    "rights": ["rights", "--apply"],
    "alerts": ["alerts", "--once"],
    "session": ["session", "list"],
    "session elsewhere": ["session", "--control", IN_ADDRESS, "list"],
    "suggestions": ["suggestions", "--prometheus", IN_ADDRESS],
    "thresholds": ["thresholds", "--job", "j", "least_excess=0.2"],
    "top": ["top", "--once", "--wait", "0.5"],  # it is to run out
    "capture": ["capture", "--job", "j", "--ranks", "0", "--control", IN_ADDRESS],
    "history": ["history", "jobs", "--from", "nowhere"],
    "otlp": ["otlp"],
    "replay": ["replay", "event.jsonl"],
    "simulate": ["simulate", "--steps", "2", "--speed", "max", "--brokers", "127.0.0.1:1"],
    "why": ["why", "job.log", "--brokers", "127.0.0.1:1"],
    "annotate": ["annotate", "--kubeconfig", "kubeconfig", "--once"],
    "trial": ["trial", "trial.yaml", "--run", "--", sys.executable, "-c", "raise SystemExit(3)"],
    "up": ["up", "--brokers", "127.0.0.1:1"],
}
SERVING = {
    "forecaster": (["forecaster", "--prometheus", IN_ADDRESS], "--port"),
    "control": (["control"], "--port"),
    "ui": (["ui"], "--port"),
    "collect": (["collect", "--verbose"], "--web-port"),
    "alerts": (["alerts"], "--web-port"),
    "archive": (["archive", "--to", "kept"], "--web-port"),
    "annotate": (["annotate", "--kubeconfig", "kubeconfig"], "--web-port"),
}
#: What reads no secret: it works on files, or on processes of `up`. `demo` is `up` and `run`.
WITHOUT_SECRETS = {"demo", "status", "down", "completion", "import", "benchmark", "analyze", "report", "compare"}
#: What makes a process crash with its settings in hand: the worst that an error could say of them.
CRASH = """
import paceline.kafka.settings as held
def crash(self):
    raise RuntimeError(f"crash of {self!r} and {vars(self)['sasl_oauth']!r}")
held.BrokerSettings.kafka_options = held.BrokerSettings.ssl_context = crash
"""


def started(words: list[str], folder: Path, login: dict[str, str], more: dict[str, str]) -> "subprocess.Popen[bytes]":
    """`paceline` with all secrets, everything it says in a file."""
    environ = {**os.environ, **OTHERS, **login, "PACELINE_BROKERS": "127.0.0.1:1", "HOME": str(folder), **more}
    environ |= {"XDG_STATE_HOME": str(folder / "state"), "PACELINE_SPOOL_DIR": str(folder / "spool")}
    for name, text in READ.items():
        (folder / name).write_text(text)
    with (folder / "said").open("ab") as said:
        command = [sys.executable, "-W", "ignore", "-m", "paceline", *words]
        return subprocess.Popen(command, stdout=said, stderr=said, env=environ, cwd=folder)


class Shown:
    """What everybody sees of a process and of those that it started, beyond the words it was given by hand.

    Whose child a process is, is read once: to read it of every process at every look takes four times as long.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._ours = {process.pid: True}

    def look(self) -> str:
        lines = []
        for pid in psutil.pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                if self._is_ours(pid):
                    one = psutil.Process(pid)
                    lines.append(" ".join([*one.cmdline(), one.name()]).replace(IN_ADDRESS, ""))
        return "\n".join(lines)

    def _is_ours(self, pid: int) -> bool:
        if pid not in self._ours:
            parent = psutil.Process(pid).ppid()
            self._ours[pid] = parent > 0 and self._is_ours(parent)
        return self._ours[pid]


def asked(port: int, path: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": "Bearer wrong"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return f"{reply.headers}{reply.read().decode(errors='replace')}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode(errors='replace')}"
    except OSError:
        return ""


@contextlib.contextmanager
def no_secret(folder: Path) -> Iterator[list[str]]:
    """What is put into the list, and every file that was written, the one with all that was said among them, hold no
    secret."""
    held: list[str] = []
    yield held
    given = {folder / name for name in (*READ, "sitecustomize.py")}
    written = [path for path in folder.rglob("*") if path.is_file() and path not in given]
    text = "\n".join([*held, *(f"{path}: {path.read_bytes().decode(errors='replace')}" for path in written)])
    found = [line.strip()[:300] for line in text.splitlines() if CANARY in line]
    assert found == []


@pytest.mark.parametrize(
    ("name", "login"),
    [*((name, LOGIN) for name in ENDING), ("streams", TOKENS), ("doctor", TOKENS)],
    ids=[*ENDING, "streams by tokens", "doctor by tokens"],
)
def test_a_command_that_fails_shows_no_secret(tmp_path: Path, name: str, login: dict[str, str]) -> None:
    """Brokers, control and Prometheus are not there: each says so in its own words."""
    with no_secret(tmp_path) as held:
        process = started(ENDING[name], tmp_path, login, {})
        shown = Shown(process)
        while process.poll() is None:
            held.append(shown.look())
            time.sleep(0.05)
            if name in ("tail", "record", "otlp") and "waiting" in (tmp_path / "said").read_text():
                process.terminate()  # They wait for brokers for ever.
    said = (tmp_path / "said").read_text()
    assert said
    assert "usage:" not in said


@pytest.mark.parametrize("name", SERVING)
def test_a_service_without_brokers_shows_no_secret(
    tmp_path: Path, name: str, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """Nor to who asks it over HTTP, in health, metrics and its own description."""
    words, option = SERVING[name]
    port = free_port()
    with no_secret(tmp_path) as held:
        process = started([*words, option, str(port)], tmp_path, LOGIN, {})
        try:
            until(lambda: asked(port, "/healthz") or process.poll() is not None)
            held += [asked(port, path) for path in ("/readyz", "/metrics", "/", "/openapi.json", "/v1/sessions")]
            held.append(Shown(process).look())
        finally:
            process.terminate()
            process.wait()


@pytest.mark.parametrize(
    ("name", "login"),
    [
        ("streams", LOGIN),
        ("control", LOGIN),
        ("collect", LOGIN),
        ("archive", LOGIN),
        ("annotate", LOGIN),
        ("tail", TOKENS),
        ("forecaster", TOKENS),
    ],
    ids=["streams", "control", "collect", "archive", "annotate", "tail", "forecaster"],
)
def test_a_crash_shows_no_secret(
    tmp_path: Path, name: str, login: dict[str, str], free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """Though the error that nobody caught is about the settings themselves."""
    (tmp_path / "sitecustomize.py").write_text(CRASH)
    serving = {key: [*words, option, str(free_port())] for key, (words, option) in SERVING.items()}
    words = {**ENDING, **serving}[name]
    with no_secret(tmp_path):
        process = started(words, tmp_path, login, {"PYTHONPATH": str(tmp_path)})
        try:
            # Some go on without brokers, and say the error in their log.
            until(lambda: "crash of" in (tmp_path / "said").read_text() or process.poll() is not None)
        finally:
            process.terminate()
            process.wait()
    assert "crash of BrokerSettings" in (tmp_path / "said").read_text()


def test_an_address_that_is_wrong_shows_no_password(tmp_path: Path) -> None:
    """Nor does an option or a setting that is refused."""
    for number, (words, environ) in enumerate(
        [
            (["session", "list"], {"PACELINE_CONTROL_URL": f"ftp://ada:{CANARY}@host"}),
            (["session", "list"], {"PACELINE_CONTROL_URL": f"http://ada:{CANARY}@host:port"}),
            (["session", "list"], {"PACELINE_CONTROL_URL": f"http://ada:p'/ ?#{CANARY}@127.0.0.1:1"}),
            (["doctor"], {"PACELINE_SASL_OAUTH_TOKEN_URL": f"https://ada:{CANARY}/x@host"}),
            (["collect", "--dcgm", f"http://ada:{CANARY}@host"], {}),
            (["alerts", "--page", f"ftp://ada:{CANARY}@host", "--once"], {}),
            (["doctor"], {"PACELINE_SASL_PASSWORD_FILE": "/none"}),
            (["suggestions", "--prometheus", f"ftp://ada:{CANARY}@host"], {}),
            (["alerts", "--once"], {"PACELINE_ALERTS_TO": f"nothing://ada:{CANARY}@host"}),
            (["alerts", "--once"], {"PACELINE_ALERTS_TO": f"smtp://ada:{CANARY}@host"}),
            (["otlp", "--endpoint", IN_ADDRESS], {}),
            (["history", "jobs", "--from", f"s3://ada:{CANARY}@host/a"], {}),
            (["archive", "--to", f"s3://ada:{CANARY}@host/a"], {}),
            (["archive", "--to", "kept", "--iceberg", f"postgresql+psycopg://ada:{CANARY}@127.0.0.1:1/c"], {}),
            (["archive", "--to", "kept", "--prometheus", f"ftp://ada:{CANARY}@host"], {}),
            (["archive", "--to", "kept"], {"PACELINE_DATABASE": f"mysql://ada:{CANARY}@host/d"}),
            (["annotate", "--kubeconfig", "kubeconfig", "--once"], {"PACELINE_BROKERS": f"ada:{CANARY}@host:9092"}),
            (["tail", "finding"], {"PACELINE_BROKERS": f"ada:{CANARY}@host"}),
            (["doctor", "--brokers", f"kafka://ada:{CANARY}@host:9092"], {}),
            (["ui"], {"PACELINE_ALLOWED_HOSTS": f"https://ada:{CANARY}@host"}),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with no_secret(folder):
            assert started(words, folder, LOGIN, environ).wait(PATIENCE_S) != 0
        assert (folder / "said").read_text().count("\n") >= 1


#: A run that is timed, with all secrets in the environment of what trains.
TRAINED = """
from paceline import training
with training.watch():
    for _ in range(20):
        with training.phase("forward"):
            sum(range(200_000))
        training.step()
"""


@pytest.mark.bus
def test_a_stack_that_works_shows_no_secret(
    tmp_path: Path, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """All services of `up`, a run that they see, `status` and `doctor`: processes, logs, files, answers and the bus."""
    ports = {name: str(free_port()) for name in ("--port", "--ui-port", "--forecaster-port", "--control-port")}
    broker = f"127.0.0.1:{ports['--port']}"
    more = {"PACELINE_BROKERS": broker, "PACELINE_CONTROL_URL": f"http://127.0.0.1:{ports['--control-port']}"}
    login = dict.fromkeys((*LOGIN, *TOKENS), "")
    words = ["up", "--logs", "logs", *(word for pair in ports.items() for word in pair)]
    with no_secret(tmp_path) as held:
        stack = started(words, tmp_path, login, more)
        try:
            until(lambda: "paceline: ready after" in (tmp_path / "said").read_text() or stack.poll() is not None)
            run = ["run", "--no-panel", "--job", "seen", "--", sys.executable, "-c", TRAINED]
            ended = {}
            for command in (run, ["status"], ["doctor", "--json"], ["doctor"], ["session", "list"]):
                process = started(command, tmp_path, login, more)
                held.append(Shown(process).look())
                ended[command[0]] = process.wait(PATIENCE_S)
            held.append(Shown(stack).look())
            for name in ("--ui-port", "--forecaster-port", "--control-port"):
                held += [asked(int(ports[name]), path) for path in ("/readyz", "/metrics", "/", "/openapi.json")]
            held += on_the_bus(broker, until, "seen")
        finally:
            stack.terminate()
            stack.wait()
    assert (ended["run"], ended["status"]) == (0, 0)


def on_the_bus(broker: str, until: Callable[..., object], word: str = "") -> list[str]:
    """All that its topics hold, once that holds ``word``."""
    consumer = clients.consumer(BrokerSettings((broker,)), *TOPICS, from_beginning=True)
    records = list[str]()

    def read() -> bool:
        """Whether there was something, and now is no more."""
        polled = [record for each in consumer.poll(500).values() for record in each]
        records.extend(f"{record.key!r} {record.value!r} {record.headers!r}" for record in polled)
        return not polled and any(word in record for record in records)

    until(read)
    consumer.close()
    return records


@pytest.mark.bus
def test_nothing_on_the_bus_holds_a_secret(
    tmp_path: Path, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """What control is asked with is in no audit entry, whether it was right or wrong."""
    port = free_port()
    with embedded.start() as broker, no_secret(tmp_path) as held:
        more = {"PACELINE_BROKERS": broker.address, "PACELINE_SECURITY_PROTOCOL": "PLAINTEXT"}
        login = dict.fromkeys(LOGIN, "")
        process = started(["control", "--port", str(port)], tmp_path, login, more)
        try:
            until(lambda: "ready" in asked(port, "/readyz") or process.poll() is not None)
            for token in (SECRETS["PACELINE_CONTROL_TOKEN"], f"{CANARY}wrong"):
                for path in ("/v1/sessions", "/v1/jobs/j/thresholds", "/v1/suggestions/s/accept"):
                    held.append(posted(port, path, token))
        finally:
            process.terminate()
            process.wait()
        held += on_the_bus(broker.address, until)


def posted(port: int, path: str, token: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        b'{"name": "s", "job": "j"}',
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return f"{reply.headers}{reply.read().decode(errors='replace')}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode(errors='replace')}"
