"""What the service costs, and what its forecasts of free GPUs are worth: `make bench-forecaster`.

    python -m experiments.forecasting.service --gpus 10000      forecasts on the bus of a fleet, a day of minutes held
    python -m experiments.forecasting.service --only batch      1,000 questions at a time, over HTTP
    python -m experiments.forecasting.service --only free       forecasts of free GPUs beside what came

The fleet is made up: jobs of 1 to 32 GPUs come by the hour of the day, wait in one queue, and use what they have.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from forecaster import exceedance
from forecaster.forecast import forecast
from forecaster.held_forecast import LEVELS
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from forecaster.models.registry import Registry, shipped
from forecaster.publisher import TOGETHER, order
from forecaster.question import Question
from forecaster.scores import pinball
from forecaster.series import Array
from forecaster.standing_forecasts import StandingForecasts
from paceline import wire
from paceline.events import DeviceWindow

from ..machine import headline, machine
from ..markdown import table, write

ROOT = Path(__file__).parents[2]
PARTS = "fleet", "batch", "free"
DAY, MINUTE_S = 1440, 60.0
#: The batch of the promise: so many series, samples in each, steps ahead.
SERIES, SAMPLES, STEPS = 1000, 1440, 60
#: Free GPUs: moments that are asked at, minutes ahead, and how many GPUs somebody wants.
MOMENTS, AHEAD, WANTED = 150, (15, 60, 240, 480, 720, 1440), (8, 32, 64)
#: What is known: days of it, and minutes that are one value. In the service minutes are forecast an hour ahead.
KNOWN = {"minutes of 3 days": (3, 1), "quarter hours of 8 days": (8, 15), "quarter hours of 28 days": (28, 15)}
HOUR_AHEAD = 60
#: Reliability is told by such bins of probability.
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0001)
#: By minutes ahead: what was said of each wanted number and whether it came, whether inside, and the loss.
Scores = tuple[dict[int, list[tuple[float, bool]]], dict[int, list[bool]], dict[int, list[float]]]


def free_gpus(gpus: int, minutes: int, rng: np.random.Generator) -> Array:
    """Free GPUs, a minute each: first come, first served; more jobs by day, fewer at week-ends."""
    free, queue, running = gpus, list[tuple[int, int]](), list[tuple[int, int]]()
    held = np.empty(minutes, dtype=np.float64)
    for minute in range(minutes):
        ended = [size for end, size in running if end <= minute]
        running = [one for one in running if one[0] > minute]
        free += sum(ended)
        hour, day = minute / 60.0 % 24.0, minute // DAY % 7
        rate = gpus / 256 * 0.17 * (1.0 + 0.8 * np.sin((hour - 9.0) / 24.0 * 2.0 * np.pi)) * (0.5 if day >= 5 else 1.0)
        for _ in range(rng.poisson(rate)):
            size = int(rng.choice([1, 2, 4, 8, 16, 32], p=[0.3, 0.2, 0.15, 0.2, 0.1, 0.05]))
            queue.append((size, max(2, int(np.exp(rng.normal(np.log(60.0), 1.4))))))
        while queue and queue[0][0] <= free:
            size, lasts = queue.pop(0)
            free -= size
            running.append((minute + lasts, size))
        held[minute] = free
    return held


def use(minutes: int, rng: np.random.Generator) -> Array:
    """The use of one GPU: jobs with pauses to evaluate, and rests between them."""
    values, minute = np.zeros(minutes, dtype=np.float64), 0
    while minute < minutes:
        lasts, level = max(5, int(rng.lognormal(4.0, 1.0))), rng.uniform(0.5, 1.0)
        values[minute : minute + lasts] = level
        every = int(rng.integers(10, 60))
        values[minute + every : minute + lasts : every] *= 0.3
        minute += lasts + int(rng.exponential(20.0))
    return np.clip(values + 0.02 * rng.standard_normal(minutes), 0.0, 1.0)


def fleet(gpus: int, minutes: int) -> str:
    """Seconds of a processor that a minute of a fleet takes: to take in, and to forecast the use of every GPU."""
    rng, memory = np.random.default_rng(1), Memory()
    uses = [use(DAY + minutes, rng) for _ in range(200)]
    for gpu in range(gpus):
        subject = SeriesSubject(_key(gpu), "", MINUTE_S, "c", node=f"n{gpu // 8}", device=f"g{gpu % 8}", high=1.0)
        memory.put(subject, [MINUTE_S * at for at in range(DAY)], uses[gpu % len(uses)][:DAY].tolist())
    standing, rows, done = StandingForecasts(memory, shipped()), [], dict[str, float]()
    for minute in range(DAY, DAY + minutes):
        began_s = time.thread_time()
        for gpu in range(gpus):
            memory.update(_window(gpu, minute, float(uses[gpu % len(uses)][minute])))
        took_in_s = time.thread_time() - began_s
        began_s, sent, choices = time.thread_time(), 0, 0
        series = memory.keys()
        standing.begin(dict(series))
        keys = order(series, done)
        for first in range(0, len(keys), TOGETHER):
            for key, made in standing.forecasts(keys[first : first + TOGETHER]).items():
                done[key] = made.time_s
                sent += len(wire.encode(made))
                choices += made.backtest.moments > 0
        rows.append(
            [
                str(minute - DAY + 1),
                f"{took_in_s:.1f}",
                f"{time.thread_time() - began_s:.1f}",
                str(choices),
                f"{sent / 1e6:.0f}",
            ]
        )
        print(f"minute {minute - DAY + 1} of {minutes}", file=sys.stderr, flush=True)
    head = ["minute", "s of a processor to take in", "to forecast all", "with a back-test's weights", "MB"]
    return (
        f"A fleet of {gpus:,} GPUs with a day of minutes each, a forecast of the use of each of them a minute; sending "
        f"is not in it:\n\n{table(head, rows)}\n"
    )


def _key(gpu: int) -> str:
    return f"c/device/n{gpu // 8}/g{gpu % 8}/sm_active_ratio"


def _window(gpu: int, minute: int, value: float) -> DeviceWindow:
    return DeviceWindow(
        cluster="c",
        start_s=MINUTE_S * minute,
        length_s=MINUTE_S,
        node=f"n{gpu // 8}",
        device=f"g{gpu % 8}",
        samples=60,
        mean={"sm_active_ratio": value},
        max={"sm_active_ratio": value},
    )


def batch(port: int = 18471) -> str:
    """Seconds until a batch is answered by a service of its own."""
    rng = np.random.default_rng(2)
    questions = [
        {"values": np.round(use(SAMPLES, rng), 4).tolist(), "interval_s": MINUTE_S, "horizon": STEPS}
        for _ in range(SERIES)
    ]
    body = json.dumps({"questions": questions}).encode()
    command = [sys.executable, "-m", "paceline", "forecaster", "--no-bus", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as service:
        try:
            took_s = list(_asked(f"http://127.0.0.1:{port}", body))
        finally:
            service.send_signal(signal.SIGTERM)
    return (
        f"A batch of {SERIES:,} series of {SAMPLES:,} samples, {STEPS} steps ahead, over HTTP with {os.cpu_count()} "
        f"processes: {took_s[0]:.1f} s the first time, when processes start, then {min(took_s[1:]):.1f} to "
        f"{max(took_s[1:]):.1f} s.\n"
    )


def _asked(where: str, body: bytes) -> Iterator[float]:
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{where}/healthz", timeout=5).close()
            break
        except OSError:
            time.sleep(0.5)
    for _ in range(4):
        request = urllib.request.Request(
            f"{where}/v1/forecast/batch", body, {"content-type": "application/json"}, method="POST"
        )
        began_s = time.perf_counter()
        with urllib.request.urlopen(request, timeout=600) as answer:
            held = json.load(answer)
        yield time.perf_counter() - began_s
        if len(next(iter(held.values()))) != SERIES:
            raise SystemExit("experiments.forecasting.service: the batch was not answered whole")


def free(held_by: Registry) -> str:
    """How often so many GPUs were free, beside how probable that was by the forecasts; what lay inside intervals."""
    rng = np.random.default_rng(3)
    held = free_gpus(256, (29 + 35) * DAY, rng)
    moments = rng.integers(29 * DAY, len(held) - max(AHEAD), MOMENTS)
    rows, whole = list[list[str]](), list[tuple[float, bool]]()
    for name, (days, minutes) in KNOWN.items():
        said: dict[int, list[tuple[float, bool]]] = {step: [] for step in AHEAD}
        inside: dict[int, list[bool]] = {step: [] for step in AHEAD}
        losses: dict[int, list[float]] = {step: [] for step in AHEAD}
        for at in moments:
            known = held[at - days * DAY : at].reshape(-1, minutes).mean(axis=1)
            _ask(known, minutes, held[at:], held_by, (said, inside, losses))
        rows += [_scored(name, step, said[step], inside[step], losses[step], held) for step in AHEAD]
        whole += [pair for step, pairs in said.items() if (step > HOUR_AHEAD) == (minutes > 1) for pair in pairs]
        print(name, file=sys.stderr, flush=True)
    head = ["known", "minutes ahead", "inside 80 %", "pinball loss", "Brier score", "of how often it is so at all"]
    return (
        f"Free GPUs of a made-up cluster of 256, asked at {MOMENTS} moments. Pinball loss in GPUs; Brier scores of "
        f"whether {', '.join(map(str, WANTED[:-1]))} and {WANTED[-1]} GPUs are free (0 is perfect):\n\n"
        + table(head, rows)
        + "\n\nHow probable it was by the forecasts, minutes up to an hour ahead and quarter hours beyond, and how "
        + "often it came so:\n\n"
        + table(["probability", "forecasts", "on average", "came"], list(_reliability(whole)))
        + "\n"
    )


def _ask(known: Array, minutes: int, came: Array, held_by: Registry, scores: Scores) -> None:
    """Add what a forecast from ``known`` says of each time ahead, beside the minute that came."""
    said, inside, losses = scores
    levels = np.array(LEVELS)
    low, high = LEVELS.index(0.1), LEVELS.index(0.9)
    asked = Question(known, MINUTE_S * minutes, max(AHEAD) // minutes, levels, 0.0, 256.0)
    made = forecast(asked, held_by).values
    near = made if minutes > 1 else forecast(replace(asked, horizon=HOUR_AHEAD), held_by).values
    for step in AHEAD:
        rows = near if step <= HOUR_AHEAD else made
        value, row = float(came[step - 1]), rows[step // minutes - 1]
        inside[step].append(bool(row[low] <= value <= row[high]))
        losses[step].append(float(pinball(np.array([value]), row[None, :], levels).mean()))
        said[step] += [(exceedance.above(row, levels, float(gpus)), value >= gpus) for gpus in WANTED]


def _scored(
    name: str, step: int, said: list[tuple[float, bool]], inside: list[bool], losses: list[float], held: Array
) -> list[str]:
    usual = [(_usual(held, gpus), bool(one)) for gpus, one in _came(said)]
    return [
        name,
        str(step),
        f"{np.mean(inside):.0%}",
        f"{np.mean(losses):.1f}",
        f"{_brier(said):.3f}",
        f"{_brier(usual):.3f}",
    ]


def _came(pairs: list[tuple[float, bool]]) -> Iterator[tuple[int, bool]]:
    return ((WANTED[place % len(WANTED)], came) for place, (_, came) in enumerate(pairs))


def _usual(held: Array, gpus: int) -> float:
    return float(np.mean(held >= gpus))


def _brier(pairs: list[tuple[float, bool]]) -> float:
    return float(np.mean([(said - came) ** 2 for said, came in pairs]))


def _reliability(pairs: list[tuple[float, bool]]) -> Iterator[list[str]]:
    said, came = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
    for least, most in pairwise(BINS):
        chosen = (said >= least) & (said < most)
        if chosen.any():
            yield [
                f"{least:.0%} to {min(most, 1.0):.0%}",
                str(int(chosen.sum())),
                f"{said[chosen].mean():.0%}",
                f"{came[chosen].mean():.0%}",
            ]


def main() -> int:
    """Run the parts and print or write what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=10_000, metavar="N", help="of the fleet (10000)")
    parser.add_argument("--minutes", type=int, default=4, metavar="N", help="that the fleet is followed (4)")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    args = parser.parse_args()
    there, began_s = machine(), time.perf_counter()
    chosen = PARTS if args.only is None else (args.only,)
    runs: dict[str, Callable[[], str]] = {
        "fleet": lambda: fleet(args.gpus, args.minutes),
        "batch": batch,
        "free": lambda: free(shipped()),
    }
    made = [runs[part]() for part in chosen]
    said = headline({"machine": there, "quick": args.only is not None, "took_s": time.perf_counter() - began_s})
    text = "\n".join([f"{said}.\n", *made])
    print(text)
    if args.write:
        write(ROOT / "docs" / "benchmarks.md", "forecaster", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
