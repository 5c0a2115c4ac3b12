"""``paceline top``: in a real terminal of 80 columns and 24 lines, and as plain text for pipes."""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import uuid
from collections.abc import Callable, Iterator

import pyte
import pytest

from paceline import topics
from paceline.commands import top
from paceline.delivery.publisher import Publisher
from paceline.install import install
from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from tests.derived_events import HOSTILE, described, finding, job_window, rank_window, suggestion
from tests.patience import PATIENCE_S

Until = Callable[..., None]
COMMAND = [sys.executable, "-m", "paceline", "top"]


def publish(settings: BrokerSettings, job: str) -> None:
    """A job with one slow rank of eight."""
    publisher = Publisher(settings, client_id="test")
    publisher.publish(topics.JOB, described(job=job, producer=job))
    publisher.publish(topics.WINDOW, job_window(job=job))
    for rank in range(8):
        publisher.publish(topics.WINDOW, rank_window(rank, 0.9 if rank == 3 else 0.5, job=job))
    publisher.publish(topics.FINDING, finding(id=f"f-{job}", job=job, summary=HOSTILE))
    publisher.publish(topics.SUGGESTION, suggestion(id=f"s-{job}", job=job, title=f"Cordon {HOSTILE}", expires_s=4e9))
    assert publisher.close(PATIENCE_S).sent == 12


@pytest.fixture
def job() -> str:
    return f"top-{uuid.uuid4().hex[:8]}"


class Terminal:
    """A terminal that a program runs in, and what stands on its screen: pyte reads its codes as xterm would."""

    def __init__(self, command: list[str], columns: int = 80, lines: int = 24) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self._resize(columns, lines)
        environ = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
        )
        os.close(slave)

    def _resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """As when the window of an ssh session is drawn larger."""
        self._resize(columns, lines)
        self.screen.resize(lines, columns)
        os.killpg(self.process.pid, 28)  # SIGWINCH

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def text(self) -> str:
        """What stands on the screen, once all that was written so far is read."""
        with contextlib.suppress(OSError):  # The program has gone, and the terminal with it.
            while select.select([self.master], [], [], 0)[0]:
                self.stream.feed(os.read(self.master, 65_536))
        return "\n".join(self.screen.display)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*options: str) -> Terminal:
        opened.append(Terminal([*COMMAND, *options]))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.bus
def test_in_a_terminal_of_80_columns(
    embedded_broker: embedded.EmbeddedBroker, terminal: Callable[..., Terminal], job: str, until: Until
) -> None:
    """It shows a job and its slow rank, follows a change of size, and ends."""
    publish(BrokerSettings().with_brokers(embedded_broker.address), job)
    window = terminal("--brokers", embedded_broker.address, "--job", job)
    until(lambda: all(word in window.text() for word in (job, "rank 3 1.80x", "Straggler", "Cordon", "q Quit")))
    assert f"Ranks of {job}, slowest first (8)" in window.text()
    window.press("\t\t\r")
    until(lambda: "confidence 90%" in window.text())
    window.press("\x1b")
    until(lambda: "q Quit" in window.text())
    window.resize(132, 40)
    until(lambda: window.text().splitlines()[39].strip().endswith("q Quit"))
    window.press("q")
    until(lambda: window.process.poll() is not None)
    window.text()
    assert window.process.returncode == 0


@pytest.mark.bus
def test_a_broker_that_goes_and_comes_back(
    terminal: Callable[..., Terminal], job: str, until: Until, free_port: Callable[[], int]
) -> None:
    """A banner says so, earlier data stays, and reading goes on."""
    first = embedded.start(free_port())
    settings = BrokerSettings().with_brokers(first.address)
    try:
        publish(settings, job)
        window = terminal("--brokers", first.address, "--job", job)
        until(lambda: "rank 3 1.80x" in window.text())
    finally:
        first.process.kill()
        first.process.wait()
    until(lambda: "earlier data is shown below" in window.text())
    assert "rank 3 1.80x" in window.text()
    with embedded.start(first.port):
        publish(settings, job)
        until(lambda: "connected" in window.text() and "earlier data" not in window.text())


def test_once_is_plain_text(broker: BrokerSettings, job: str) -> None:
    """Nothing in a pipe is cut, and no control code is in it, whatever a name holds."""
    publish(broker, job)
    done = subprocess.run(
        [*COMMAND, "--brokers", broker.address, "--once", "--job", job], capture_output=True, check=True
    )
    said = done.stdout.decode()
    assert all(line.isprintable() for line in said.splitlines())
    assert "Straggler: rank 3, slow computation on the worker" in said
    assert f"Ranks of {job}, slowest first" in said
    assert done.stderr == b""


def test_once_as_json_is_one_object(broker: BrokerSettings, job: str) -> None:
    publish(broker, job)
    done = subprocess.run([*COMMAND, "--brokers", broker.address, "--once", "--json"], capture_output=True, check=True)
    held = json.loads(done.stdout)
    (row,) = [row for row in held["jobs"] if row["job"] == job]
    assert (row["worst_rank"], row["findings"]) == (3, 1)
    assert f"f-{job}" in [row["finding"]["id"] for row in held["findings"]]
    assert b"\x1b" not in done.stdout


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(embedded_broker: embedded.EmbeddedBroker) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--brokers", embedded_broker.address, "--once"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_without_a_broker_it_says_why(free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main(["--once", "--brokers", f"127.0.0.1:{free_port()}"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Connection refused" in said.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"), [([], "use `paceline top --once` for plain text"), (["--json"], "--json is for --once")]
)
def test_what_needs_a_terminal_says_so(options: list[str], said: str) -> None:
    done = subprocess.run([*COMMAND, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.slow
def test_without_textual_it_names_the_mend(terminal: Callable[..., Terminal], until: Until) -> None:
    """And what is left to do without."""
    script = (
        "import sys; sys.modules['textual'] = sys.modules['rich'] = None;"
        "from paceline.commands.top import main; sys.exit(main([]))"
    )
    window = Terminal([sys.executable, "-c", script])
    try:
        until(lambda: window.process.poll() is not None)
        assert install("top") in window.text().replace("\n", "")
        assert window.process.returncode == 2
    finally:
        window.close()


@pytest.mark.slow
def test_once_needs_no_textual() -> None:
    script = "import sys, paceline.commands.top; sys.exit(any(name in sys.modules for name in ('textual', 'rich')))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
