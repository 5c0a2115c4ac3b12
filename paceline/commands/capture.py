"""``paceline capture``: PyTorch profiler traces of chosen ranks of a running job, and what they say.

Rule of this file: control asks the ranks; this waits, saves what comes, and has it analysed by the command for that.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline import control_access, tls
from paceline.commands.asking import issuer, seconds
from paceline.control_client import ControlClient, ControlError, segment
from paceline.options import Parser
from paceline.terminal import Progress, say
from paceline.visible import visible

PROGRAM = "paceline capture"
EXAMPLES = """examples:
  paceline capture --job resnet-7 --ranks 2,5 --steps 3        traces in ./capture-resnet-7, and their analysis
  paceline capture --job resnet-7 --ranks 2 -o traces --no-analyze    only the files, for Perfetto or TensorBoard
  paceline import kineto traces/*.gz -o run.jsonl.zst          a recording of them

The run must have been started with `paceline run --captures`. The ranks' processes run torch.profiler over whole steps,
which makes those steps slower; at its end a rank waits up to some 0.4 s. Training goes on. Exit status 0: all
traces were received; 1: some were not, or there is no control."""
#: States in which something may still come.
PASSING = ("asked", "running", "arriving")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog=PROGRAM,
        description="Get PyTorch profiler traces of chosen ranks of a running job, and analyze them.\n"
        "Needs paceline control.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--job", required=True, metavar="J", help="the running job")
    made.add_argument("--cluster", metavar="C", help="its cluster; needed only if several run a job of this name")
    made.add_argument("--ranks", required=True, type=_ranks, metavar="R[,R...]", help="which ranks: 2,5; 16 at most")
    made.add_argument("--steps", type=int, default=3, metavar="N", help="steps to record, 1 to 20 (3)")
    made.add_argument("-o", "--output", metavar="DIR", help="folder for the traces (./capture-JOB, or ./capture-C-JOB)")
    made.add_argument("--wait", type=seconds(1.0, 86_400.0), default=700.0, metavar="S", help="seconds to wait (700)")
    made.add_argument("--no-analyze", action="store_true", help="do not analyze them")
    made.add_argument("--control", metavar="URL", help="address of control (default: PACELINE_CONTROL_URL)")
    made.add_argument("--json", action="store_true", help="the outcome of each rank as JSON, without analysis")
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    url, token = args.control or control_access.url(os.environ), control_access.token(os.environ)
    client = ControlClient(url, token, issuer(), tls.trusting(os.environ))
    try:
        asked = {"ranks": args.ranks, "steps": args.steps}
        asked |= {"cluster": args.cluster} if args.cluster else {}
        state = client.call("POST", f"/v1/jobs/{segment(args.job)}/captures", asked)
        state = _await(client, state, args.wait)
        files = _save(client, state, Path(args.output or _folder_name(args)))
    except ControlError as error:
        say(str(error), PROGRAM)
        return 1
    except OSError as error:
        say(f"{error.filename}: {error.strerror}", PROGRAM)
        return 1
    _tell(state, files, as_json=args.json)
    if files and not args.no_analyze and not args.json:
        command = [sys.executable, "-P", "-m", "paceline", "analyze", *map(str, files), "--breakdown"]
        subprocess.run(command, check=False)  # noqa: S603 - our own command on files of our own
    return 0 if len(files) == len(args.ranks) else 1


def _ranks(raw: str) -> list[int]:
    try:
        ranks = sorted({int(part) for part in raw.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{raw!r}: write numbers with commas between: 2,5") from None
    if not ranks or ranks[0] < 0 or len(ranks) > 16:
        raise argparse.ArgumentTypeError(f"{raw!r}: 1 to 16 ranks, from 0 on")
    return ranks


def _await(client: ControlClient, state: Mapping[str, Any], patience_s: float) -> Mapping[str, Any]:
    began_s, progress = time.monotonic(), Progress(quiet_s=2.0)
    try:
        while time.monotonic() - began_s < patience_s and any(row["state"] in PASSING for row in state["ranks"]):
            words = ", ".join(f"rank {row['rank']} {row['state']}" for row in state["ranks"])
            progress.tell(f"{words}, {time.monotonic() - began_s:.0f} s")
            time.sleep(0.5)
            state = client.call("GET", f"/v1/captures/{segment(state['capture'])}")
    finally:
        progress.end()
    return state


def _save(client: ControlClient, state: Mapping[str, Any], folder: Path) -> list[Path]:
    files = []
    for row in state["ranks"]:
        if row["state"] == "done":
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"rank{int(row['rank'])}.pt.trace.json.gz"
            part = path.with_name(f".{path.name}.part")
            with part.open("wb") as file:
                client.download(f"/v1/captures/{segment(state['capture'])}/traces/{int(row['rank'])}", file)
            part.replace(path)
            files.append(path)
    return files


def _tell(state: Mapping[str, Any], files: list[Path], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**state, "files": [str(path) for path in files]}), flush=True)
        return
    for row in state["ranks"]:
        if row["state"] != "done":
            reason = row["reason"] or "no answer in time"
            say(visible(f"rank {row['rank']}: {row['state']}: {reason}")[:600], PROGRAM)
        elif row["reason"]:
            say(visible(f"rank {row['rank']}: {row['reason']}")[:600], PROGRAM)
    for path in files:
        print(path, flush=True)


def _folder_name(args: argparse.Namespace) -> str:
    parts = ("capture", args.cluster, args.job)
    return "-".join(_file_name(part) for part in parts if part)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)[:100]
