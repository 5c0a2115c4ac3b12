"""``paceline session``: recordings by name: start, stop, recover, export, and what they say.

Rule of this file: control does the work, here or elsewhere; this asks it, shows progress and saves what it sends.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline import control_access, tls
from paceline.commands.asking import issuer, seconds
from paceline.commands.session_table import listed, numbers, one
from paceline.control_client import ControlClient, ControlError, segment
from paceline.options import Parser
from paceline.terminal import Progress, say
from paceline.visible import visible

PROGRAM = "paceline session"
EXAMPLES = """examples:
  paceline session start tuesday --job resnet-7                 a job and its nodes; ends 2 min after the job
  paceline session start all-week --job resnet-7 --keep         goes on when that job has ended, with its next run
  paceline session start tuesday --job train --cluster east     where several clusters run a job of this name
  paceline session start racks --nodes n1 n2 --interval 0.2     two nodes, sampled five times a second
  paceline session start night --all --interval 0.2 --adaptive  everything; faster only while something changes
  paceline session list
  paceline session status tuesday                               with the proof: first, last and missing numbers
  paceline session stop tuesday
  paceline session recover tuesday                              its recorder was killed: complete it from Kafka
  paceline session export tuesday --format jsonl -o tuesday.jsonl && paceline analyze tuesday.jsonl
  paceline session export tuesday --format frames -o frames.jsonl     gswarm's frames; also parquet and csv
  paceline session stat tuesday --plot tuesday.pdf              or .png, .html
  paceline session delete tuesday

`paceline control` records sessions; `paceline up` starts it; PACELINE_CONTROL_URL is its address. Exit
status 0: done; 1: control refuses or does not answer; 2: the options contradict each other."""
FORMATS = ("jsonl", "frames", "parquet", "csv")
PLOTS = ("html", "png", "pdf")
#: States in which a session is on its way to another one.
ENDING = ("starting", "recording", "stopping")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog=PROGRAM,
        description="Record events under a name, and prove that nothing is missing.\nNeeds paceline control.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--control", metavar="URL", help="address of control (default: PACELINE_CONTROL_URL)")
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    start = actions.add_parser("start", help="start recording")
    start.add_argument("name", metavar="NAME", help="letters, digits, . _ and -; 100 at most")
    which = start.add_mutually_exclusive_group()
    which.add_argument("--job", metavar="J", help="this job, and the nodes that it runs on")
    which.add_argument("--nodes", metavar="N", nargs="+", help="these nodes, and the jobs that run there")
    which.add_argument("--all", action="store_true", help="everything (the default)")
    start.add_argument(
        "--cluster", metavar="C", help="only of this cluster; needed only if several run a job of this name"
    )
    start.add_argument(
        "--interval", type=seconds(0.05, 60.0), metavar="S", help="collectors sample every S seconds for it"
    )
    start.add_argument("--keep", action="store_true", help="with --job: continue after the job's end, until stopped")
    start.add_argument(
        "--adaptive", action="store_true", help="sample faster only while values change; needs --interval"
    )
    start.add_argument("--devices", metavar="D", nargs="+", default=[], help="export only these: NODE:INDEX or UUID")
    for name, text in (
        ("stop", "stop recording, after reading the rest"),
        ("recover", "complete a session whose recorder was killed"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", metavar="NAME", **({} if name == "stop" else {"nargs": "?"}))  # type: ignore[arg-type]
        action.add_argument("--no-wait", action="store_true", help="do not wait for the end")
        if name == "stop":
            action.add_argument("--because", default="", metavar="TEXT", help="for the audit log")
    actions.add_parser("list", help="all sessions")
    actions.add_parser("status", help="one session, with the proof of completeness").add_argument(
        "name", metavar="NAME"
    )
    actions.add_parser("delete", help="delete a session with all it holds").add_argument("name", metavar="NAME")
    export = actions.add_parser("export", help="write the session to a file")
    export.add_argument("name", metavar="NAME")
    export.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl is a recording (default: jsonl)")
    export.add_argument("-o", "--output", required=True, metavar="FILE", help="where to; - is standard output")
    stat = actions.add_parser("stat", help="numbers of a session, or a plot")
    stat.add_argument("name", metavar="NAME")
    stat.add_argument("--plot", metavar="FILE", help="x.pdf, x.png or x.html")
    for action in actions.choices.values():
        action.add_argument("--json", action="store_true", help="as JSON")
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    url, token = args.control or control_access.url(os.environ), control_access.token(os.environ)
    client = ControlClient(url, token, issuer(), tls.trusting(os.environ))
    try:
        return _ACTIONS[args.action](client, args)
    except ControlError as error:
        say(str(error), PROGRAM)
        return 1
    except KeyboardInterrupt:
        return 130


def _start(client: ControlClient, args: argparse.Namespace) -> int:
    if args.adaptive and args.interval is None:
        say("--adaptive needs --interval: how often while something changes", PROGRAM)
        return 2
    if args.keep and not args.job:
        say("--keep needs --job: any other session continues until it is stopped", PROGRAM)
        return 2
    body: dict[str, Any] = {"name": args.name, "devices": args.devices, "adaptive": args.adaptive}
    if args.keep:
        body["keep"] = True
    if args.cluster:
        body["cluster"] = args.cluster
    if args.interval is not None:
        body["interval_s"] = args.interval
    if args.job:
        body["job"] = args.job
    elif args.nodes:
        body["nodes"] = args.nodes
    else:
        body["all"] = True
    session = client.call("POST", "/v1/sessions", body)
    for warning in session.get("warnings") or ():
        say(visible(f"warning: {warning}")[:1000], PROGRAM)
    session = _await(client, args.name, ("starting",), session, patience_s=20.0)
    return _show(session, args, ok=("starting", "recording"))


def _stop(client: ControlClient, args: argparse.Namespace) -> int:
    session = client.call("POST", f"/v1/sessions/{segment(args.name)}/stop", {"because": args.because})
    if not args.no_wait:
        session = _await(client, args.name, ENDING, session)
    return _show(session, args, ok=("stopped", "stopping", "recording") if args.no_wait else ("stopped",))


def _recover(client: ControlClient, args: argparse.Namespace) -> int:
    if args.name is None:
        sessions = client.call("GET", "/v1/sessions")["sessions"]
        lost = [session for session in sessions if session["state"] in ("interrupted", "failed")]
        _print(lost, args, listed(lost) if lost else "nothing is to be recovered")
        return 0
    session = client.call("POST", f"/v1/sessions/{segment(args.name)}/recover")
    if not args.no_wait:
        session = _await(client, args.name, ENDING, session)
    return _show(session, args, ok=("stopped", *ENDING) if args.no_wait else ("stopped",))


def _list(client: ControlClient, args: argparse.Namespace) -> int:
    sessions = client.call("GET", "/v1/sessions")["sessions"]
    _print(sessions, args, listed(sessions) if sessions else "no session; start one with `paceline session start NAME`")
    return 0


def _status(client: ControlClient, args: argparse.Namespace) -> int:
    session = client.call("GET", f"/v1/sessions/{segment(args.name)}")
    _print(session, args, one(session))
    return 0


def _delete(client: ControlClient, args: argparse.Namespace) -> int:
    client.call("DELETE", f"/v1/sessions/{segment(args.name)}")
    _print({"deleted": args.name}, args, f"{args.name}: deleted")
    return 0


def _export(client: ControlClient, args: argparse.Namespace) -> int:
    return _save(client, f"/v1/sessions/{segment(args.name)}/export?format={args.format}", args.output)


def _stat(client: ControlClient, args: argparse.Namespace) -> int:
    path = f"/v1/sessions/{segment(args.name)}"
    if args.plot:
        suffix = Path(args.plot).suffix.removeprefix(".").lower()
        if suffix not in PLOTS:
            say(f"--plot {args.plot}: the name ends in .{', .'.join(PLOTS)}", PROGRAM)
            return 2
        return _save(client, f"{path}/plot?format={suffix}", args.plot)
    told = client.call("GET", f"{path}/stat", timeout_s=600.0)
    _print(told, args, numbers(told))
    return 0


def _save(client: ControlClient, path: str, output: str) -> int:
    """Bring the file at ``path`` to ``output``: whole or not at all."""
    try:
        if output == "-":
            client.download(path, sys.stdout.buffer)
            return 0
        part = Path(output).with_name(f".{Path(output).name}.part")
        try:
            with part.open("wb") as file:
                written = client.download(path, file)
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"cannot write {output}: {error.strerror}", PROGRAM)
        return 1
    say(f"{written} bytes in {output}", PROGRAM)
    return 0


def _await(
    client: ControlClient, name: str, passing: tuple[str, ...], session: Mapping[str, Any], patience_s: float = 600.0
) -> Mapping[str, Any]:
    """The session when it has left the states ``passing``, or as it is after ``patience_s``."""
    began_s, progress = time.monotonic(), Progress(quiet_s=2.0)
    try:
        while session["state"] in passing and time.monotonic() - began_s < patience_s:
            cause = visible(f" ({session['reason']})")[:300] if session.get("reason") else ""
            progress.tell(
                f"{name}: {session['state']}{cause}, {session['messages']} messages, {time.monotonic() - began_s:.0f} s"
            )
            time.sleep(0.3)
            session = client.call("GET", f"/v1/sessions/{segment(name)}")
    finally:
        progress.end()
    return session


def _show(session: Mapping[str, Any], args: argparse.Namespace, ok: tuple[str, ...]) -> int:
    _print(session, args, one(session))
    return 0 if session["state"] in ok else 1


def _print(value: Any, args: argparse.Namespace, text: str) -> None:
    print(json.dumps(value) if args.json else text, flush=True)


_ACTIONS = {
    "start": _start,
    "stop": _stop,
    "recover": _recover,
    "list": _list,
    "status": _status,
    "delete": _delete,
    "export": _export,
    "stat": _stat,
}
