"""Small real programs of each kind of job, to be recorded: ``python -m experiments.forecasting.programs NAME``.

Each is what people run, made small: it trains, answers requests that come over HTTP, works through files, or waits for
somebody who types. What differs from run to run (sizes, pauses, rates) is drawn from ``--seed``.
"""

import argparse
import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: A program runs until this time, of ``time.monotonic``.
Until = float
Random = np.random.Generator


def going(until: Until) -> Iterator[int]:
    """Numbers, until the time is over."""
    number = 0
    while time.monotonic() < until:
        yield number
        number += 1


# --- training ---------------------------------------------------------------------------------------------------------


def _trained(
    model: Any, batch: Callable[[], Any], loss: Callable[[Any, Any], Any], until: Until, random: Random, folder: Path
) -> None:
    """The usual loop: steps, an evaluation now and then, a checkpoint less often."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    every, kept = int(random.integers(30, 120)), int(random.integers(150, 400))
    for step in going(until):
        optimizer.zero_grad()
        missed = loss(model, batch())
        missed.backward()
        optimizer.step()
        if step % every == every - 1:
            with torch.no_grad():
                for _ in range(8):
                    loss(model, batch()).item()
        if step % kept == kept - 1:
            torch.save(model.state_dict(), folder / "checkpoint.pt")


def cnn(until: Until, random: Random, folder: Path) -> None:
    """A convolutional network on images."""
    import torch
    from torch import nn

    width = int(random.choice([16, 32, 48]))
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * width, 10),
    )  # fmt: skip
    size = int(random.choice([16, 32, 64]))
    images, labels = torch.randn(2000, 3, 32, 32), torch.randint(0, 10, (2000,))

    def batch() -> Any:
        at = torch.randint(0, len(images), (size,))
        return images[at] + 0.1 * torch.randn(size, 3, 32, 32), labels[at]

    _trained(model, batch, lambda made, of: nn.functional.cross_entropy(made(of[0]), of[1]), until, random, folder)


def language_model(until: Until, random: Random, folder: Path) -> None:
    """A small transformer on characters."""
    import torch
    from torch import nn

    width, length = int(random.choice([64, 128])), int(random.choice([32, 64]))
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    body, out = nn.TransformerEncoder(layer, 2), nn.Linear(width, 96)
    model = nn.ModuleDict({"in": nn.Embedding(96, width), "body": body, "out": out})
    text = torch.randint(0, 96, (200_000,))
    mask = nn.Transformer.generate_square_subsequent_mask(length)

    def batch() -> Any:
        at = torch.randint(0, len(text) - length - 1, (16,))
        rows = torch.stack([text[one : one + length + 1] for one in at])
        return rows[:, :-1], rows[:, 1:]

    def loss(made: Any, of: Any) -> Any:
        hidden = made["body"](made["in"](of[0]), mask=mask)
        return nn.functional.cross_entropy(made["out"](hidden).flatten(0, 1), of[1].flatten())

    _trained(model, batch, loss, until, random, folder)


def graph_network(until: Until, random: Random, folder: Path) -> None:
    """Messages along the edges of a graph, whole each step."""
    import torch
    from torch import nn

    nodes, width = int(random.choice([2000, 6000])), 32
    edges = torch.randint(0, nodes, (2, 8 * nodes))
    graph = torch.sparse_coo_tensor(edges, torch.full((8 * nodes,), 0.125), (nodes, nodes)).coalesce()
    features, labels = torch.randn(nodes, width), torch.randint(0, 5, (nodes,))
    model = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, 5)])

    def loss(made: Any, of: Any) -> Any:
        hidden = torch.relu(made[0](torch.sparse.mm(graph, features)))
        return nn.functional.cross_entropy(made[1](torch.sparse.mm(graph, hidden))[of], labels[of])

    _trained(model, lambda: torch.randint(0, nodes, (256,)), loss, until, random, folder)


def diffusion(until: Until, random: Random, folder: Path) -> None:
    """A network that takes noise out of images."""
    import torch
    from torch import nn

    width = int(random.choice([16, 24]))
    model = nn.Sequential(
        nn.Conv2d(4, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
        nn.Conv2d(width, 3, 3, padding=1),
    )  # fmt: skip

    def batch() -> Any:
        images, noise, much = torch.rand(16, 3, 32, 32), torch.randn(16, 3, 32, 32), torch.rand(16, 1, 1, 1)
        return torch.cat([images * (1 - much) + noise * much, much.expand(-1, 1, 32, 32)], 1), noise

    _trained(model, batch, lambda made, of: nn.functional.mse_loss(made(of[0]), of[1]), until, random, folder)


def reinforcement(until: Until, random: Random, folder: Path) -> None:
    """Episodes of a cart with a pole, in Python, and a step of the policy after each few."""
    import torch
    from torch import nn

    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer, each = torch.optim.Adam(policy.parameters(), lr=1e-2), int(random.choice([4, 8]))
    for _ in going(until):
        optimizer.zero_grad()
        for _ in range(each):
            state, chances = random.uniform(-0.05, 0.05, 4), []
            for _ in range(200):
                logits = torch.log_softmax(policy(torch.as_tensor(state, dtype=torch.float32)), 0)
                right = int(random.random() < float(logits[1].exp()))
                chances.append(logits[right])
                push = 10.0 if right else -10.0
                turn = (9.8 * np.sin(state[2]) - np.cos(state[2]) * push / 1.1) / 0.65
                state = state + 0.02 * np.array([state[1], push / 1.1, state[3], turn])
                if abs(state[0]) > 2.4 or abs(state[2]) > 0.21:
                    break
            loss: Any = -torch.stack(chances).sum() * len(chances) / 200
            loss.backward()
        optimizer.step()


def from_files(until: Until, random: Random, folder: Path) -> None:
    """A network on tables that a loader's worker reads from disk."""
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    for number in range(40):
        np.save(folder / f"part-{number}.npy", random.standard_normal((4000, 33)).astype(np.float32))

    class Parts(Dataset[Any]):
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, at: int) -> Any:
            rows = np.load(folder / f"part-{at % 40}.npy")
            return rows[at % 4000 : at % 4000 + 64] if at % 4000 < 3900 else rows[:64]

    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    loader = iter(DataLoader(Parts(), batch_size=4, num_workers=1))
    _trained(
        model, lambda: next(loader).flatten(0, 1),
        lambda made, of: nn.functional.mse_loss(made(of[:, :32]), of[:, 32:]), until, random, folder,
    )  # fmt: skip


# --- online inference -------------------------------------------------------------------------------------------------


def _served(answer: Callable[[bytes], bytes], until: Until, folder: Path) -> None:
    """An HTTP server on a port of the kernel's choice, which it writes to ``port``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        (folder / "port").write_text(str(server.server_port))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        time.sleep(max(0.0, until - time.monotonic()))
        server.shutdown()


def serve_images(until: Until, random: Random, folder: Path) -> None:
    """A classifier of images behind HTTP."""
    import torch
    from torch import nn

    width = int(random.choice([32, 64]))
    model = nn.Sequential(
        nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000),
    ).eval()  # fmt: skip
    lock = threading.Lock()

    def answer(body: bytes) -> bytes:
        pixels = torch.frombuffer(bytearray(body.ljust(3 * 96 * 96, b"\0")[: 3 * 96 * 96]), dtype=torch.uint8)
        with lock, torch.no_grad():
            made = model(pixels.float().view(1, 3, 96, 96) / 255)
        return json.dumps(made.softmax(1).topk(5).indices.tolist()).encode()

    _served(answer, until, folder)


def serve_text(until: Until, random: Random, folder: Path) -> None:
    """A language model that answers token by token."""
    import torch
    from torch import nn

    width = int(random.choice([128, 192]))
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    embed, body, out = nn.Embedding(256, width), nn.TransformerEncoder(layer, 3).eval(), nn.Linear(width, 256)
    lock = threading.Lock()

    def answer(asked: bytes) -> bytes:
        tokens = torch.tensor([list(asked[:32] or b" ")])
        for _ in range(20 + asked[0] % 60 if asked else 20):
            with lock, torch.no_grad():
                following = out(body(embed(tokens[:, -64:]))[:, -1]).argmax(1, keepdim=True)
            tokens = torch.cat([tokens, following], 1)
        return bytes(tokens[0].tolist())

    _served(answer, until, folder)


def serve_search(until: Until, random: Random, folder: Path) -> None:
    """The nearest of many vectors, for each request."""
    vectors = random.standard_normal((int(random.choice([20_000, 60_000])), 128)).astype(np.float32)

    def answer(asked: bytes) -> bytes:
        wanted = np.frombuffer(asked.ljust(512, b"\1")[:512], np.uint8).reshape(128, 4)[:, 0].astype(np.float32)
        return json.dumps(np.argpartition(vectors @ wanted, -10)[-10:].tolist()).encode()

    _served(answer, until, folder)


def clients(until: Until, random: Random, folder: Path) -> None:
    """Who asks a server: at random, in waves, sometimes hardly at all. Not recorded."""
    while not (folder / "port").exists() and time.monotonic() < until:
        time.sleep(0.1)
    where = f"http://127.0.0.1:{(folder / 'port').read_text()}"
    rate, wave = random.uniform(1.0, 8.0), random.uniform(15, 60)

    def ask() -> None:
        body = random.bytes(int(random.integers(20, 2000)))
        with contextlib.suppress(OSError):
            urllib.request.urlopen(urllib.request.Request(where, body, method="POST"), timeout=30).read()

    for _ in going(until):
        now = rate * (1.05 + np.sin(time.monotonic() / wave * 2 * np.pi))
        time.sleep(min(5.0, random.exponential(1.0 / now)))
        threading.Thread(target=ask, daemon=True).start()


# --- batch inference --------------------------------------------------------------------------------------------------


def score_images(until: Until, random: Random, folder: Path) -> None:
    """Shards of images from disk through a network, and the answers to disk."""
    import torch
    from torch import nn

    width, count = int(random.choice([16, 32])), int(random.choice([64, 128]))
    model = nn.Sequential(
        nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000),
    ).eval()  # fmt: skip
    for number in range(12):
        np.save(folder / f"shard-{number}.npy", random.integers(0, 255, (512, 3, 48, 48), dtype=np.uint8))
    for number in going(until):
        images = torch.from_numpy(np.load(folder / f"shard-{number % 12}.npy"))
        made = []
        with torch.no_grad():
            for begin in range(0, len(images), count):
                made.append(model(images[begin : begin + count].float() / 255).argmax(1))
                if time.monotonic() > until:
                    return
        np.save(folder / f"answers-{number % 50}.npy", torch.cat(made).numpy())


def score_text(until: Until, random: Random, folder: Path) -> None:
    """How likely each line of a file is, by a transformer; lines of all lengths."""
    import torch
    from torch import nn

    width = int(random.choice([96, 160]))
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    embed, body, out = nn.Embedding(256, width), nn.TransformerEncoder(layer, 3).eval(), nn.Linear(width, 256)
    path = folder / "lines.bin"
    path.write_bytes(random.bytes(4_000_000))
    with path.open("rb") as lines, (folder / "scores.jsonl").open("w") as scores:
        for number in going(until):
            length = int(random.choice([32, 64, 128]))
            told = lines.read(16 * length)
            if len(told) < 16 * length:
                lines.seek(0)
                continue
            tokens = torch.frombuffer(bytearray(told), dtype=torch.uint8).long().view(16, length)
            with torch.no_grad():
                made = out(body(embed(tokens))).log_softmax(2).gather(2, tokens[..., None]).sum((1, 2))
            for at, one in enumerate(made.tolist()):
                scores.write(json.dumps({"line": 16 * number + at, "score": one}) + "\n")


def embed_rows(until: Until, random: Random, folder: Path) -> None:
    """Vectors of many rows, all of them written."""
    weights = [random.standard_normal(shape).astype(np.float32) for shape in ((256, 1024), (1024, 512))]
    rows = random.standard_normal((4096, 256)).astype(np.float32)
    for number in going(until):
        vectors = np.maximum(rows @ weights[0], 0) @ weights[1]
        np.save(folder / f"vectors-{number % 20}.npy", vectors.astype(np.float16))


# --- preparation of data ----------------------------------------------------------------------------------------------


def tokenise(until: Until, random: Random, folder: Path) -> None:
    """Text files to numbers of words."""
    words = ["".join(chr(97 + one) for one in random.integers(0, 26, random.integers(2, 10))) for _ in range(5000)]
    for number in range(10):
        (folder / f"text-{number}.txt").write_text(" ".join(random.choice(words, 120_000)))
    known: dict[str, int] = {}
    for number in going(until):
        text = (folder / f"text-{number % 10}.txt").read_text()
        ids = [known.setdefault(word, len(known)) for word in re.findall(r"[a-z]+|\d+", text)]
        np.array(ids, np.uint16).tofile(folder / f"ids-{number % 10}.bin")


def resize(until: Until, random: Random, folder: Path) -> None:
    """Large images to small ones, turned and cut, compressed."""
    images = random.integers(0, 255, (8, 600, 800, 3), dtype=np.uint8)
    for number in going(until):
        made = []
        for image in images:
            top, left = random.integers(0, 88), random.integers(0, 288)
            part = image[top : top + 512, left : left + 512].reshape(128, 4, 128, 4, 3).mean((1, 3))
            made.append(part[:, :: -1 if random.random() < 0.5 else 1].astype(np.uint8))
        np.savez_compressed(folder / f"images-{number % 30}.npz", np.stack(made))


def tables(until: Until, random: Random, folder: Path) -> None:
    """Tables read, joined, grouped and written in columns."""
    import pandas as pd

    rows = int(random.choice([60_000, 150_000]))
    columns = {
        "key": random.integers(0, 5000, rows),
        "value": random.random(rows),
        "name": random.integers(0, 50, rows),
    }
    pd.DataFrame(columns).to_csv(folder / "rows.csv", index=False)
    keys = pd.DataFrame({"key": np.arange(5000), "group": random.integers(0, 40, 5000)})
    for number in going(until):
        table = pd.read_csv(folder / "rows.csv").merge(keys, on="key")
        table["share"] = table["value"] / table.groupby("group")["value"].transform("sum")
        table.to_parquet(folder / f"part-{number % 20}.parquet")
        table.groupby(["group", "name"])["value"].describe().to_csv(folder / "summary.csv")


def compress(until: Until, random: Random, folder: Path) -> None:
    """Files packed by the usual programs."""
    (folder / "plain").write_bytes(random.integers(0, 40, 8_000_000, dtype=np.uint8).tobytes())
    tool = [["gzip", "-kf6"], ["xz", "-kf3"], ["bzip2", "-kf"]][int(random.integers(0, 3))]
    for _ in going(until):
        subprocess.run([*tool, "plain"], cwd=folder, check=True)


# --- somebody who types, and nobody -----------------------------------------------------------------------------------

CELLS = (
    "import numpy as np; a = np.random.rand(1500, 1500)",
    "b = a @ a; print(b.mean())",
    "[sum(i * i for i in range(2_000_000)) for _ in range(2)][0]",
    "import pandas as pd; t = pd.DataFrame(a[:, :20]); t.describe()",
    "np.linalg.svd(a[:400, :400])[1][:5]",
    "print(len(str(2 ** 200_000)))",
    "x = sorted(np.random.rand(2_000_000).tolist())[:3]",
    "help",
    "1 + 1",
)
COMMANDS = (
    "ls -R /usr/lib > /dev/null",
    "find /usr -name '*.py' | head -2000 | wc -l",
    "grep -r import /usr/lib/python3* 2>/dev/null | wc -l",
    "echo done",
    "df -h; ps aux | tail -3",
    "for i in 1 2 3; do sha256sum /bin/bash; done",
    "du -s /usr/share 2>/dev/null",
    "cat /proc/meminfo | sort",
)


def _typed(command: list[str], lines: tuple[str, ...], pause_s: float, until: Until, random: Random) -> None:
    """``lines`` typed to a program, with pauses to think, of this length in the middle."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, text=True) as typed:
        assert typed.stdin is not None
        for _ in going(until):
            typed.stdin.write(str(random.choice(lines)) + "\n")
            typed.stdin.flush()
            time.sleep(min(random.lognormal(np.log(pause_s), 0.8), 30.0, max(0.0, until - time.monotonic())))
        typed.kill()


def notebook(until: Until, random: Random, folder: Path) -> None:
    """Cells run one by one, with pauses to read and write."""
    _typed([sys.executable, "-i", "-q"], CELLS, random.uniform(4, 9), until, random)


def shell(until: Until, random: Random, folder: Path) -> None:
    """Commands in a shell, with pauses between them."""
    _typed(["bash"], COMMANDS, random.uniform(3, 7), until, random)


def idle_notebook(until: Until, random: Random, folder: Path) -> None:
    """A kernel with its packages and data in memory, and nobody there: it answers heartbeats."""
    import torch

    held = torch.randn(int(random.integers(1_000_000, 20_000_000)))
    for _ in going(until):
        time.sleep(random.uniform(0.5, 3.0))
        held[0] += 1


def idle_tail(until: Until, random: Random, folder: Path) -> None:
    """Somebody's tail of a log in which little happens."""
    (folder / "log").write_text("begin\n")
    with subprocess.Popen(["tail", "-f", str(folder / "log")], stdout=subprocess.DEVNULL) as tail:
        for _ in going(until):
            time.sleep(random.exponential(8.0))
            with (folder / "log").open("a") as log:
                log.write("still here\n")
        tail.kill()


def idle_shell(until: Until, random: Random, folder: Path) -> None:
    """A shell that was left open."""
    with subprocess.Popen(["bash"], stdin=subprocess.PIPE) as left:
        time.sleep(max(0.0, until - time.monotonic()))
        left.kill()


# --- what is none of these --------------------------------------------------------------------------------------------


def compile_python(until: Until, random: Random, folder: Path) -> None:
    """The standard library compiled again and again, as a build does: no kind that has a name here."""
    source = Path(os.__file__).parent
    for name in ("json", "asyncio", "email", "http", "xml", "unittest", "concurrent", "logging"):
        shutil.copytree(source / name, folder / name)
    for _ in going(until):
        subprocess.run([sys.executable, "-m", "compileall", "-qf", str(folder)], check=False)


@dataclass(frozen=True)
class Program:
    """What runs, and what kind of job it is; ``asked``: clients are started beside it."""

    run: Callable[[Until, Random, Path], None]
    kind: str
    asked: bool = False


KINDS: dict[str, tuple[Callable[[Until, Random, Path], None], ...]] = {
    "training": (cnn, language_model, graph_network, diffusion, reinforcement, from_files),
    "inference": (serve_images, serve_text, serve_search),
    "batch_inference": (score_images, score_text, embed_rows),
    "data_prep": (tokenise, resize, tables, compress),
    "interactive": (notebook, shell),
    "idle": (idle_notebook, idle_tail, idle_shell),
    "unknown": (compile_python,),
}
PROGRAMS = {
    one.__name__: Program(one, kind, asked=kind == "inference") for kind, programs in KINDS.items() for one in programs
}


def main() -> int:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*PROGRAMS, "clients"])
    parser.add_argument("--seconds", type=float, default=90.0, metavar="S")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where it works (one that goes with it)")
    args = parser.parse_args()
    run = clients if args.name == "clients" else PROGRAMS[args.name].run
    with tempfile.TemporaryDirectory() as own:
        run(time.monotonic() + args.seconds, np.random.default_rng(args.seed), args.folder or Path(own))
    return 0


if __name__ == "__main__":
    sys.exit(main())
