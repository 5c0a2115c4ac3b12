"""What all tests stand on: clean surroundings, a way to wait, ports, brokers, and the rule of the rings.

Rules of this file: before the first test is collected, whatever the session inherited is put to what a fresh login
has (``pytest_sessionstart``), and every program a test starts inherits that: no test has to do it again. A test waits
on a condition (``until``), with no deadline of its own. A test that takes ``broker`` runs on the embedded broker and
on Apache Kafka, which the session shares: its topics hold other tests' messages, so a test looks for its own job or
key. Where Java or Maven are missing, Apache Kafka is skipped by name; in CI nothing may be skipped. A test without a
mark starts no process (``_no_process_without_a_mark``): what does is no quick test, and chooses its ring by its mark.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import IO, Any, TypeVar

import hypothesis
import pytest
from _pytest.logging import LogCaptureHandler, caplog_handler_key, catching_logs

# 2.6 s of each process: `jsonschema`, which the Kubernetes client asks, makes a grammar for a format of no schema here.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

with warnings.catch_warnings():
    # The Kafka client reads its schemas by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from paceline import child
    from paceline.kafka import clients, embedded
    from paceline.kafka.errors import BusError
    from paceline.kafka.reach import wait_for_broker
    from paceline.kafka.settings import BrokerSettings
    from paceline.kafka.topic_admin import ensure_topics
    from paceline.topics import Topic
    from tests.chosen_files import may_choose
    from tests.patience import PATIENCE_S

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
KAFKA = ROOT / "deploy" / "kafka" / "kafka.sh"
#: A test with one of these may start processes.
PROGRAM_MARKS = ("bus", "browser", "e2e", "training", "network", "gpu", "frameworks", "slow")
#: A broker of a test lives for seconds: to compile its code a second time, for speed, is a third of what it computes.
QUICK_JAVA = "-XX:TieredStopAtLevel=1"
#: What Python's audit hooks call the start of a process.
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
#: How much longer than elsewhere our programs wait for each other: a busy machine is no reason to give up.
PATIENCE = "20"
#: Variables that change what a program does: settings, schedulers and launchers around us, screen and site.
FOREIGN_PREFIXES = ("PACELINE_", "SLURM", "TORCHELASTIC_", "KUBERNETES_", "OTEL_", "STREAMLIT_", "LC_", "XDG_")
FOREIGN_PREFIXES += ("OMPI_", "PMIX_", "PMI_", "MPI_", "HOROVOD_", "RAY_")
FOREIGN = {"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"}
FOREIGN |= {"MASTER_PORT", "NODE_NAME", "POD_NAMESPACE", "LANGUAGE", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
FOREIGN |= {"PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "DISPLAY", "WAYLAND_DISPLAY", "PYTHONWARNINGS"}
FOREIGN |= {"POD_NAME", "JOB_COMPLETION_INDEX", "JOBSET_RESTART_ATTEMPT"}
FOREIGN |= {"PYTHONOPTIMIZE", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONSAFEPATH"}
FOREIGN |= {
    "PORT",
    "DATA",
    "HEAP",
    "JAVA_OPTIONS",
    "LOG_LEVEL",
    "EXTRA_PROPERTIES",
    "SCRAM_USERS",
    "SCRAM_USERS_FILE",
}  # what kafka.sh reads
#: The signals that end a program.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What our programs configure of logging.
CONFIGURED = (logging.getLogger(), logging.getLogger("paceline"))
#: No test meets a Kafka that it did not start, though one may listen at the default address.
OURS = {
    "PACELINE_BROKERS": "none",
    "PACELINE_PATIENCE": PATIENCE,
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "TZ": "UTC",
}
#: Maven keeps what it has fetched there; a worker of pytest-xdist is started when HOME is another one already.
INHERITED_HOME = os.environ.setdefault("PYTEST_INHERITED_HOME", os.environ.get("HOME", "/"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Signals, environment, home and umask as after a fresh login, whoever started the tests and from where."""
    _reset_signals()
    for name in [name for name in os.environ if name in FOREIGN or name.startswith(FOREIGN_PREFIXES)]:
        del os.environ[name]
    home = tempfile.TemporaryDirectory(prefix="paceline-tests-", ignore_cleanup_errors=True)
    session.config.add_cleanup(home.cleanup)
    session.config.add_cleanup(_reserved.close)
    # PyTorch and Streamlit set the last two themselves where they are not set, in the middle of a test.
    os.environ.update(OURS, HOME=home.name, TORCHINDUCTOR_CACHE_DIR=f"{home.name}/torchinductor", MPLBACKEND="Agg")
    os.environ["PACELINE_SPOOL_DIR"] = f"{home.name}/spool"
    for name in ("no_proxy", "NO_PROXY"):  # A proxy is for fetching Kafka; what the tests start is on this machine.
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1,localhost"]))
    time.tzset()
    os.umask(0o022)


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """What a test changes of the process, it puts back: another test would depend on the order.

    Logging is put back for it: each of our programs that it runs in the process configures that.
    """
    before, logs = _of_the_process(), [(logger, logger.level, logger.handlers[:]) for logger in CONFIGURED]
    yield
    for logger, level, handlers in logs:
        if (logger.level, logger.handlers) != (level, handlers):
            logger.setLevel(level)
            logger.handlers[:] = handlers
    after = _of_the_process()
    assert after == before, "the test leaves the process changed: see the difference"


def _of_the_process() -> dict[str, object]:
    # Twice a test, 13,000 times: `os.environ.items()` decodes each variable, a tenth of what an empty test takes.
    environ = os.environ._data.copy()
    environ.pop(b"PYTEST_CURRENT_TEST", None)
    return {"environ": environ, "handlers": [signal.getsignal(number) for number in ENDING], "folder": os.getcwd()}


def _reset_signals() -> None:
    """A shell that is not interactive starts what is in the background with SIGINT ignored, nohup with SIGHUP.

    Both go on to every child. Python itself ignores SIGPIPE and SIGXFSZ, and puts them back for its children.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """The Kafka client leaves the socket of a refused connection to the garbage collector, which warns.

    Hypothesis' deadline of 200 ms an example is one of a machine's speed.
    """
    config.addinivalue_line("filterwarnings", "ignore:unclosed <s:ResourceWarning")
    hypothesis.settings.register_profile("no-deadline", deadline=None)
    hypothesis.settings.load_profile("no-deadline")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which no test can be chosen is not imported, by each process again: a seventh of them, and PyTorch.

    A file that is named on the command line is not asked about.
    """
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return None if may_choose(config.option.markexpr, collection_path.read_text(encoding="utf-8")) else True


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives to the end: the garbage collector need not go through it, now or while tests run.

    13,000 tests and what they import are 800,000 objects, and going through them took a seventh of the quick tests.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """A file's tests share a process, and so do all that start PyTorch: two of those at once need four cores, but
    where ranks wait most of the time (``pytorch-waits``).

    What needs a broker and no program of ours, and is not slow, is in ring 1 on the embedded one; what names a broker
    (``landing_on``) on that one.
    """
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    asked = getattr(item, "callspec", None)
    brokers = set() if asked is None else {asked.params.get(name) for name in ("broker", "own_broker")}
    plain = not any(item.get_closest_marker(name) for name in ("e2e", "browser", "training", "slow"))
    one = item.get_closest_marker("landing_on")
    wanted = one.args if one is not None else ("embedded",) if plain else ()
    if brokers.intersection(wanted):
        item.add_marker(pytest.mark.landing)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, and quick ones then fill the end: what starts PyTorch, other programs, then verdicts,
    which compute most.
    """

    def quickness(item: pytest.Item) -> tuple[bool, bool, bool]:
        marks = {mark.name: mark for mark in reversed(list(item.iter_markers()))}
        group = marks["xdist_group"].args[0]
        return (
            group not in ("pytorch", "pytorch-waits"),
            marks.keys().isdisjoint(("e2e", "bus", "browser")),
            not item.nodeid.startswith("tests/streams/"),
        )

    items.sort(key=quickness)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests of a group share a process, or what a file sets up is set up by every process: seen under pytest 9.2."""
    if getattr(session.config.option, "loadgroup", False) and "PYTEST_XDIST_WORKER" in os.environ and session.items:
        name = session.items[0].nodeid
        assert "@" in name, f"pytest-xdist groups no tests under pytest {pytest.__version__}: see pyproject.toml"


#: What the running test has started although it has no mark for it.
_started: list[str] = []
_may_start = True


def _notice_starts(event: str, arguments: tuple[object, ...], starts: frozenset[str] = frozenset(STARTS)) -> None:
    # Importing PyTorch asks the C library's cache where a library is. At the end of Python the module's names are None.
    if event in starts and not _may_start and arguments[:1] != ("/sbin/ldconfig",):
        _started.append(f"{event}{arguments!r}"[:200])


sys.addaudithook(_notice_starts)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first fixture of the test, whatever its scope."""
    global _may_start
    _may_start = any(item.get_closest_marker(name) for name in PROGRAM_MARKS)
    _started.clear()


@pytest.fixture(autouse=True)
def _no_process_without_a_mark() -> Iterator[None]:
    """A process a test is what makes a suite slow, and dependent on the machine: it bears a mark that says so."""
    yield
    assert not _started, "the test starts a process and has no mark for it (slow, bus, e2e, …): see CONTRIBUTING.md"


@pytest.fixture(autouse=True, scope="session")
def _programs_of_a_failed_test_end() -> Iterator[None]:
    """``with subprocess.Popen``, whose block raises, would wait for the program for ever, and the run with it."""
    leave = subprocess.Popen.__exit__

    def left(process: "subprocess.Popen[bytes]", kind: type[BaseException] | None, *error: Any) -> None:
        if kind is not None:
            process.kill()
        leave(process, kind, *error)

    subprocess.Popen.__exit__ = left  # type: ignore[method-assign, assignment]
    yield
    subprocess.Popen.__exit__ = leave  # type: ignore[method-assign]


@pytest.fixture
def caplog(request: pytest.FixtureRequest) -> Iterator[pytest.LogCaptureFixture]:
    """pytest's own, for those who ask for it alone: its plugin, which is off, makes one for every test."""
    handler = request.node.stash[caplog_handler_key] = LogCaptureHandler()
    made = pytest.LogCaptureFixture(request.node, _ispytest=True)
    with catching_logs(handler):
        yield made
    made._finalize()


class ApacheKafka:
    """One Apache Kafka node of its own; ``kill`` and ``start`` keep its data and its port."""

    def __init__(self, folder: Path, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = _free_port()
        self.environ = environ or {}
        self.process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> BrokerSettings:
        return BrokerSettings().with_brokers(self.address)

    def start(self, settings: BrokerSettings | None = None) -> "ApacheKafka":
        """Start it and wait until it lets ``settings`` in (default: in the clear)."""
        own = {"PORT": str(self.port), "DATA": str(self.folder / "data"), "HEAP": "256m", **self.environ}
        own |= {"HOME": INHERITED_HOME, "JDK_JAVA_OPTIONS": QUICK_JAVA}
        self._log = (self.folder / "kafka.log").open("ab")
        self.process = child.spawn([str(KAFKA)], self._log, {**os.environ, **own})
        self._wait(settings or self.settings)
        return self

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._log is not None:
            self._log.close()

    def _wait(self, settings: BrokerSettings) -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.process is not None and self.process.poll() is not None:
                self._did_not_start()
            with contextlib.suppress(BusError):
                wait_for_broker(settings, 0.5)
                return
        self._did_not_start()

    def _did_not_start(self) -> None:
        self.stop()
        said = (self.folder / "kafka.log").read_text(errors="replace").strip().splitlines()[-3:]
        reason = " / ".join(said) or "it printed nothing"
        if "is missing" in reason and os.environ.get("CI") != "true":
            pytest.skip(f"Apache Kafka cannot run here: {reason}")
        pytest.fail(f"Apache Kafka did not start: {reason}")


_reserved = contextlib.ExitStack()


def _free_port() -> int:
    """A port that nobody listens on, below those the kernel hands out, and that no other test run is given either.

    From the answer until a program listens there, seconds go by: an abstract Unix socket keeps the number meanwhile,
    for as long as this process lives.
    """
    for candidate in range(30_000, 32_700):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0paceline-test-port-{candidate}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", candidate))
        except OSError:
            reservation.close()
            continue
        _reserved.enter_context(reservation)
        return candidate
    raise RuntimeError("no free port")


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Gives a port of 127.0.0.1 for a program that is started later."""
    return _free_port


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[embedded.EmbeddedBroker]:
    """The embedded broker, shared by the session."""
    with embedded.start() as running:
        yield running


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Apache Kafka, shared by the session: do not kill it."""
    running = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    try:
        yield running.start()
    finally:
        running.stop()


@contextlib.contextmanager
def _own_nodes(folders: pytest.TempPathFactory) -> Iterator[Callable[..., ApacheKafka]]:
    made: list[ApacheKafka] = []

    def make(**environ: str) -> ApacheKafka:
        made.append(ApacheKafka(folders.mktemp("own-kafka"), environ))
        return made[-1]

    try:
        yield make
    finally:
        for node in made:
            node.stop()


@pytest.fixture
def new_apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ApacheKafka]]:
    """Makes Apache Kafka nodes of one's own, stopped after the test: to kill, or with other properties."""
    with _own_nodes(tmp_path_factory) as make:
        yield make


@pytest.fixture(scope="module")
def new_apache_kafka_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ApacheKafka]]:
    """The same, stopped after the module: with other properties, for all its tests."""
    with _own_nodes(tmp_path_factory) as make:
        yield make


BOTH = [pytest.param("embedded", marks=pytest.mark.bus), pytest.param("apache", marks=pytest.mark.bus)]


@pytest.fixture(params=BOTH)
def broker(request: pytest.FixtureRequest) -> BrokerSettings:
    """Each of the two brokers in turn, with the topics made."""
    fixture = {"embedded": "embedded_broker", "apache": "apache_kafka"}[request.param]
    settings = BrokerSettings().with_brokers(request.getfixturevalue(fixture).address)
    ensure_topics(settings)
    return settings


@pytest.fixture(params=BOTH)
def own_broker(request: pytest.FixtureRequest) -> Iterator[BrokerSettings]:
    """Each of the two in turn, a new one: nobody has written to it or read from it, and its topics may be deleted."""
    with contextlib.ExitStack() as stack:
        if request.param == "apache":
            settings = request.getfixturevalue("new_apache_kafka")().start().settings
        else:
            settings = BrokerSettings().with_brokers(stack.enter_context(embedded.start()).address)
        ensure_topics(settings)
        yield settings


@pytest.fixture(scope="module")
def new_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Starts a Prometheus that holds what an OpenMetrics text says, and gives its address."""
    if which("prometheus") is None or which("promtool") is None:
        pytest.skip("no prometheus here; fix: sudo apt-get install prometheus")
    with contextlib.ExitStack() as stack:

        def make(metrics: str) -> str:
            folder, port = tmp_path_factory.mktemp("prometheus"), _free_port()
            (folder / "metrics").write_text(metrics)
            (folder / "prometheus.yml").write_text("global: {}\n")
            fill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "metrics", "data"]
            subprocess.run(fill, check=True, capture_output=True, cwd=folder)
            command = [
                "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y",
            ]  # fmt: skip
            log = stack.enter_context((folder / "log").open("wb"))
            process = stack.enter_context(subprocess.Popen(command, stderr=log, stdout=log, cwd=folder))
            stack.callback(process.terminate)
            end = time.monotonic() + PATIENCE_S
            while not _answers(f"http://127.0.0.1:{port}/-/ready"):
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < end, "Prometheus is not ready in time"
                time.sleep(0.1)
            return f"http://127.0.0.1:{port}"

        yield make


@pytest.fixture(scope="module")
def new_alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Starts an Alertmanager with that configuration, and gives its address without the scheme."""
    program = which("prometheus-alertmanager") or which("alertmanager")
    if program is None:
        pytest.skip("no alertmanager here; fix: sudo apt-get install prometheus-alertmanager")
    with contextlib.ExitStack() as stack:

        def make(config: str) -> str:
            folder, at = tmp_path_factory.mktemp("alertmanager"), f"127.0.0.1:{_free_port()}"
            (folder / "config.yml").write_text(config)
            command = [
                program, f"--config.file={folder / 'config.yml'}", f"--storage.path={folder / 'data'}",
                f"--web.listen-address={at}", "--cluster.listen-address=",
            ]  # fmt: skip
            log = stack.enter_context((folder / "log").open("wb"))
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            stack.callback(process.terminate)
            end = time.monotonic() + PATIENCE_S
            while not _answers(f"http://{at}/-/ready"):
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < end, "Alertmanager is not ready in time"
                time.sleep(0.05)
            return at

        yield make


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as reply:
        return reply.status == 200
    return False


@pytest.fixture(scope="session")
def bomb() -> Callable[[BrokerSettings, Topic, str], None]:
    """Puts a batch on a topic that weighs a tenth of a megabyte and unpacks to a hundred."""

    def send(settings: BrokerSettings, topic: Topic, codec: str) -> None:
        producer = clients.producer(settings, "bomb", compression_type=codec, max_request_size=2**30)
        producer.send(topic.name, value=bytes(100 * 2**20)).get(PATIENCE_S)
        producer.close()

    return send


class NotInTimeError(AssertionError):
    """What was waited for did not come: the one kind of failure that a busy machine can be the reason of."""


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], T]], T]:
    """Waits until a condition holds, asking again and again, and gives what it said; fails after ``PATIENCE_S``."""

    def wait(condition: Callable[[], T]) -> T:
        end, pause_s = time.monotonic() + PATIENCE_S, 0.002
        while not (said := condition()):
            if time.monotonic() > end:
                raise NotInTimeError(f"the condition did not come true within {PATIENCE_S:g} s")
            time.sleep(pause_s)
            pause_s = min(1.2 * pause_s, 0.25)  # Asking costs the machine, too.
        return said

    return wait


@pytest.fixture
def promtool() -> Callable[[str], None]:
    """Has the real ``promtool`` read the text of ``/metrics``: it fails at what it cannot read or finds odd."""
    if which("promtool") is None:
        pytest.skip("needs promtool; make system")

    def check(told: str) -> None:
        ended = subprocess.run(
            ["promtool", "check", "metrics"], input=told.encode(), capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert (ended.returncode, ended.stdout + ended.stderr) == (0, b"")

    return check
