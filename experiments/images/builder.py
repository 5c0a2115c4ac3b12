"""Images by buildah, with no engine: it changes its root where an engine would make namespaces.

Rule of this file: buildah's command line and nothing of ours. The base is Debian's own, by debootstrap, for no registry
is asked; the Dockerfile is the one that users build, with `BASE` set, as it lets them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from paceline.terminal import say

from ..processes import ROOT, RunError

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BASE = "localhost/paceline-base"
#: What python:3.11-slim-bookworm brings that our stages use.
PACKAGES = "python3,python3-venv,ca-certificates,openssl"
#: How this machine reaches its package index, lent to the build and not kept in the image.
LENT = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")


def needed(text: str, target: str) -> str:
    """The part of a Dockerfile that ``target`` is made from: buildah would build every stage before it.

    >>> needed("ARG BASE=x\\nFROM ${BASE} AS a\\nRUN 1\\nFROM x AS b\\nRUN 2\\nFROM a AS c\\nRUN 3\\n", "c")
    'ARG BASE=x\\nFROM ${BASE} AS a\\nRUN 1\\nFROM a AS c\\nRUN 3\\n'
    """
    head, *parts = re.split(r"^(?=FROM )", text, flags=re.MULTILINE)
    stages = {part.split()[3]: part for part in parts}
    wanted: set[str] = set()

    def want(name: str) -> None:
        if name in stages and name not in wanted:
            wanted.add(name)
            want(stages[name].split()[1])
            for other in re.findall(r"\bfrom=(\w+)", stages[name]):
                want(other)

    want(target)
    return head + "".join(part for name, part in stages.items() if name in wanted)


class Builder:
    """Images and containers in ``folder``, which may be kept for the next time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        store = ["--root", str(folder / "storage"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]
        self._buildah = ["buildah", *store]

    def base(self) -> None:
        """Make the base, unless it is there."""
        if BASE in self._ask("images", "--format", "{{.Name}}").split():
            return
        say("making the base: Debian 12 with its Python")
        system = self._folder / "debian"
        shutil.rmtree(system, ignore_errors=True)
        _run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(system)])
        for left in (
            "var/cache/apt/archives",
            "var/lib/apt/lists",
            "usr/share/doc",
            "usr/share/man",
            "usr/share/locale",
        ):
            shutil.rmtree(system / left, ignore_errors=True)
        container = self._ask("from", "scratch").strip()
        self._ask("copy", container, str(system), "/")
        self._ask("commit", "--rm", container, BASE)
        shutil.rmtree(system)

    def build(self, target: str) -> None:
        """Build one stage of the Dockerfile.

        Raises:
            RunError: what buildah says.
        """
        part = self._folder / f"Dockerfile.{target}"
        part.write_text(needed(DOCKERFILE.read_text(), target))
        lent = [option for path in LENT if Path(path).exists() for option in ("--volume", f"{path}:{path}:ro")]
        options = ["--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={BASE}", "--target", target]
        ignore = ["--ignorefile", str(ROOT / ".dockerignore")]
        self._ask("bud", *options, *ignore, *lent, "-f", str(part), "-t", f"localhost/{target}", str(ROOT))

    def container(self, image: str) -> tuple[str, Path]:
        """A container of an image: its name, and where its files lie."""
        name = self._ask("from", "--pull-never", f"localhost/{image}" if "/" not in image else image).strip()
        return name, Path(self._ask("mount", name).strip())

    def remove(self, container: str) -> None:
        """Remove a container."""
        self._ask("rm", container)

    def configuration(self, image: str) -> dict[str, Any]:
        """Entrypoint, Cmd, User and Healthcheck of an image."""
        told = json.loads(self._ask("inspect", "--type", "image", f"localhost/{image}"))
        return dict(told["Docker"]["config"])

    def running(self, container: str, command: list[str], environ: dict[str, str]) -> list[str]:
        """The command line that runs ``command`` in a container, as the image's own user."""
        settings = [option for name, value in environ.items() for option in ("--env", f"{name}={value}")]
        return [*self._buildah, "run", "--isolation", "chroot", *settings, container, "--", *command]

    def _ask(self, *arguments: str) -> str:
        return _run([*self._buildah, *arguments])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise RunError(
            f"{' '.join(command[:6])} …: " + " / ".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        )
    return done.stdout


def missing() -> str:
    """What this machine lacks for it; "" where nothing."""
    lacking = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    if sys.platform != "linux" or os.geteuid():
        return "images are built by root on Linux, for a root is changed"
    return f"no {' and no '.join(lacking)} here; fix: deploy/system-packages.sh images" if lacking else ""
