"""``make images-check``: every image of ours built from the Dockerfile, weighed, and started until it is healthy.

Each runs what its image says (entrypoint, command, user, health check) on a broker of this machine. What an engine adds
is not tried: namespaces, read-only file systems, limits.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.terminal import say

from ..processes import ROOT, RunError, started
from .builder import BASE, Builder, missing

EXAMPLES = """\
examples:
  python -m experiments.images                        every image
  python -m experiments.images collectors streams     these
"""
IMAGES = ("annotator", "archive", "collectors", "streams", "forecaster", "control", "ui", "demo")
#: What an image may weigh above its base, and packages that it must not hold.
MOST_MB = {"collectors": 40}
FOREIGN = {
    "collectors": ("torch", "pandas", "numpy"),
    "streams": ("torch", "pandas"),
    "ui": ("torch",),
    "forecaster": ("torch",),
    "annotator": ("torch", "numpy"),
    "archive": ("torch", "pandas"),
}
#: What else the compose file runs in an image, and must end well.
COMMANDS = {"streams": (["paceline", "topics", "create"], ["paceline", "alerts", "--help"])}
#: An API that is not there: the annotator waits for it, and is alive.
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": ""}}],
    "current-context": "none",
}
HEALTHY_S, TRAINED_S = 120.0, 180.0
#: What of the demo's own command is shortened here: how many ranks, and for how many seconds.
SHORTER = {"--nproc-per-node": "2", "--rank": "1", "--seconds": "5"}


class Check:
    """One run of it; ``broken`` are the promises that did not hold."""

    def __init__(self, builder: Builder, folder: Path, brokers: str) -> None:
        self._builder, self._folder, self._brokers = builder, folder, brokers
        self.broken: list[str] = []

    def require(self, holds: object, words: str) -> None:
        """One promise."""
        say(("held:   " if holds else "BROKEN: ") + words)
        if not holds:
            self.broken.append(words)

    def image(self, name: str, base_bytes: int) -> None:
        """Build, weigh and start one."""
        began = time.monotonic()
        self._builder.build(name)
        took_s = time.monotonic() - began
        container, files = self._builder.container(name)
        try:
            mb = (weight(files) - base_bytes) / 1e6
            bound = MOST_MB.get(name)
            words = f"{name}: built in {took_s:.0f} s, {mb:.0f} MB above its base"
            self.require(bound is None or mb <= bound, words + (f", {bound} allowed" if bound else ""))
            if foreign := FOREIGN.get(name):
                held = [one for one in foreign if any(files.glob(f"opt/paceline/lib/*/site-packages/{one}"))]
                self.require(not held, f"{name}: holds none of {', '.join(foreign)}; it holds {held or 'none'}")
            configuration = self._builder.configuration(name)
            self.require(configuration["User"] == "10001", f"{name}: runs as user {configuration['User']}")
            if name == "annotator":
                (files / "tmp" / "kubeconfig").write_text(json.dumps(KUBECONFIG))
            if name == "demo":
                self._trains(container, configuration)
            else:
                self._starts(name, container, configuration)
        finally:
            self._builder.remove(container)

    def _starts(self, name: str, container: str, configuration: dict[str, list[str]]) -> None:
        """Its own command, until its own health check says that it is well."""
        environ = {"PACELINE_BROKERS": self._brokers, "KUBECONFIG": "/tmp/kubeconfig"}
        for other in COMMANDS.get(name, ()):
            done = subprocess.run(self._builder.running(container, other, environ), capture_output=True, check=False)
            self.require(done.returncode == 0, f"{name}: `{' '.join(other)}` ends with status {done.returncode}")
        command = [*configuration["Entrypoint"], *configuration["Cmd"]]
        check = configuration["Healthcheck"]["Test"][1:]  # type: ignore[call-overload]
        log = self._folder / f"{name}.log"
        with started(self._builder.running(container, command, environ), log, dict(os.environ)) as process:
            began = time.monotonic()
            while subprocess.run(
                self._builder.running(container, check, environ), capture_output=True, check=False
            ).returncode:
                if process.poll() is not None or time.monotonic() - began > HEALTHY_S:
                    said = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
                    self.require(False, f"{name}: not healthy after {time.monotonic() - began:.0f} s; it said: {said}")
                    return
                time.sleep(0.5)
            self.require(process.poll() is None, f"{name}: healthy after {time.monotonic() - began:.0f} s")

    def _trains(self, container: str, configuration: dict[str, list[str]]) -> None:
        """Its own command, on fewer ranks and for some seconds."""
        command = [*configuration["Entrypoint"], "--brokers", "none", *shorter(configuration["Cmd"])]
        environ = {"OMP_NUM_THREADS": "1", "PACELINE_SPOOL_DIR": "/tmp/spool"}
        log = self._folder / "demo.log"
        with started(self._builder.running(container, command, environ), log, dict(os.environ)) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TRAINED_S)
            lines = log.read_text(errors="replace").strip().splitlines()
            said = " / ".join(line for line in lines if "[train]" in line) or " / ".join(lines[-3:])
            ended = "has not ended" if process.poll() is None else f"ended with status {process.returncode}"
            self.require(process.poll() == 0, f"demo: {ended}; it said: {said}")


def shorter(command: Sequence[str]) -> list[str]:
    """A training command with the values of ``SHORTER``.

    >>> shorter(["torchrun", "--nproc-per-node", "4", "-m", "m", "--seconds", "120"])
    ['torchrun', '--nproc-per-node', '2', '-m', 'm', '--seconds', '5']
    """
    return [SHORTER.get(before, word) for before, word in zip(["", *command], command, strict=False)]


def weight(files: Path) -> int:
    """Bytes of all files below."""
    told = subprocess.run(["du", "-s", "--block-size=1", str(files)], capture_output=True, text=True, check=True).stdout
    return int(told.split()[0])


def main() -> int:
    """Check the images that were asked for; 0 where every promise held."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.images", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("images", nargs="*", metavar="IMAGE", help=f"default: {' '.join(IMAGES)}")
    made.add_argument(
        "--store", metavar="DIR", type=Path, default=ROOT / ".paceline" / "images", help="where images lie"
    )
    options = made.parse_args()
    if unknown := set(options.images) - set(IMAGES):
        made.error(f"{', '.join(sorted(unknown))}: no image; there are: {', '.join(IMAGES)}")
    if lacking := missing():
        say(lacking)
        return 2
    builder = Builder(options.store)
    with tempfile.TemporaryDirectory(prefix="paceline-images-") as folder, embedded.start() as broker:
        ensure_topics(BrokerSettings(brokers=(broker.address,)))
        check = Check(builder, Path(folder), broker.address)
        try:
            builder.base()
            container, files = builder.container(BASE)
            base_bytes = weight(files)
            builder.remove(container)
            say(f"base: {base_bytes / 1e6:.0f} MB")
            for name in options.images or IMAGES:
                check.image(name, base_bytes)
        except RunError as error:
            check.require(False, str(error))
    say("all held" if not check.broken else f"{len(check.broken)} did not hold")
    return 1 if check.broken else 0


if __name__ == "__main__":
    sys.exit(main())
