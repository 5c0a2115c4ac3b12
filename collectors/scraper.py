"""A dcgm-exporter as the source of GPU samples, in place of NVML: scrapes it, and says once when it is away.

Rule of this file: a door. What the text means is said in ``paceline.gpu.exporter``. An exporter may answer anything, at
any speed: time, size and redirects are bounded, and the host is measured all the same.
"""

import logging
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from random import Random
from typing import Any, NoReturn

from paceline.backoff import Backoff
from paceline.events import DeviceSamples
from paceline.gpu import exporter
from paceline.gpu.sample_rows import device_samples
from paceline.http_login import parted
from paceline.settings import DCGM_LOGIN, SettingError
from paceline.visible import visible

from .device_names import Holders, of_inventory
from .inventory import describe_host
from .row_batch import RowBatch

log = logging.getLogger("paceline.collect.dcgm")
#: Seconds between two scrapes at least: exporters renew their numbers every 30 s unless told otherwise.
SCRAPE_S = 5.0
#: A sample that comes so many seconds early, or a tenth of the interval, is in time: threads wake a little unevenly.
SLACK_S = 0.1
#: Seconds that one answer may take, and bytes that it may have.
TIMEOUT_S = 5.0
MOST_BYTES = 16 * 2**20
_CHUNK = 65_536
#: Seconds until an exporter that is away is asked again: doubling, with jitter.
RETRY_S, MOST_RETRY_S = 2.0, 60.0
#: Seconds after which the inventory is said again, so that a broker that has lost it learns it again.
INVENTORY_S = 600.0


class ExporterError(Exception):
    """The exporter cannot be read: why, in a few words."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> NoReturn:
        raise ExporterError(
            f"it redirects to {visible(parted(newurl)[0].partition('?')[0])[:200]}; give that address if it is meant"
        )


def fetch(url: str, timeout_s: float = TIMEOUT_S, login: Callable[[], str | None] = lambda: None) -> str:
    """The text at ``url``; ``login`` gives the header of Authorization, anew for each look.

    Raises:
        ExporterError: it does not answer, not in time, too much, or something else than its metrics.
    """
    # What a proxy of the environment is for is no exporter on this node.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    until_s, content = time.monotonic() + timeout_s, bytearray()
    try:
        request = urllib.request.Request(url)  # noqa: S310 - an address of http or https, by the options
        header = login()
        if header is not None:
            request.add_unredirected_header("Authorization", header)
        with opener.open(request, timeout=timeout_s) as answer:
            while part := answer.read1(_CHUNK):
                content += part
                if len(content) > MOST_BYTES:
                    raise ExporterError(f"an answer of more than {MOST_BYTES // 2**20} MiB")
                if time.monotonic() > until_s:
                    raise ExporterError(f"no whole answer in {timeout_s:g} s")
    except urllib.error.HTTPError as error:
        error.close()
        refused = f"; {DCGM_LOGIN.name}, its _FILE or ~/.netrc hold the login" if error.code in (401, 403) else ""
        raise ExporterError(f"status {error.code}{refused}") from error
    except SettingError as error:
        raise ExporterError(str(error)) from error
    except TimeoutError as error:
        raise ExporterError(f"no answer in {timeout_s:g} s") from error
    except urllib.error.URLError as error:
        raise ExporterError(visible(str(error.reason))[:200]) from error
    except (OSError, HTTPException, ValueError) as error:
        raise ExporterError(visible(str(error) or type(error).__name__)[:200]) from error
    return content.decode("utf-8", "replace")


class ExporterBuffer:
    """The rows of the GPUs behind one exporter, which is taken for this node's whatever host its labels name."""

    def __init__(
        self,
        get: Callable[[], str],
        every_s: float = SCRAPE_S,
        now: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self._get = get
        self._every_s = every_s
        self._now = now
        self._backoff = Backoff(RETRY_S, MOST_RETRY_S, random or Random())
        self._lock = threading.Lock()
        self._batch = RowBatch()
        self._about: dict[str, Any] = {}
        self._xids = exporter.LastXids()
        self._inventory: dict[str, Any] | None = None
        self._uuids: list[str] | None = None
        self._away: str | None = None
        self._due_s = self._inventory_due_s = float("-inf")
        self._told_left_out: set[str] = set()
        self._holders = Holders()

    def sample(self) -> None:
        """Scrape when that is due, and add a row a GPU."""
        now_s = self._now()
        if now_s < self._due_s:
            return
        try:
            scrapes = self._scrape()
        except ExporterError as error:
            self._due_s = now_s + self._backoff.next_s()
            self._say_away(str(error), now_s)
            return
        self._due_s = now_s + self._every_s - min(SLACK_S, self._every_s / 10)
        self._backoff.reset()
        if self._away is not None:
            log.warning("the dcgm-exporter answers again")
            self._away = None
        at_s = time.time()
        for scrape in scrapes:
            self._take(scrape, at_s if scrape.time_s is None else scrape.time_s, now_s)

    def _scrape(self) -> list[exporter.Scrape]:
        left_out: Counter[str] = Counter()
        told = exporter.scrapes(self._get(), left_out)
        # This node is one: others' GPUs would be taken for its own.
        scrapes = [scrape for scrape in told if scrape.node == told[0].node]
        if len(scrapes) < len(told):
            left_out["GPUs of other nodes than the first that it names"] += sum(
                len(scrape.gpus) for scrape in told if scrape.node != told[0].node
            )
        for reason in left_out.keys() - self._told_left_out:
            log.warning("left out %d of an answer: %s; not logged again", left_out[reason], reason)
            self._told_left_out.add(reason)
        if not scrapes:
            raise ExporterError("no metric of DCGM that is read in its answer")
        return scrapes

    def _say_away(self, why: str, now_s: float) -> None:
        if self._away is None:
            log.warning("GPUs not measured: dcgm-exporter: %s; the host is measured all the same", why)
        self._away = why
        if self._uuids is None and now_s >= self._inventory_due_s:
            self._describe(None, now_s)

    def _take(self, scrape: exporter.Scrape, at_s: float, now_s: float) -> None:
        rows, uuids = self._xids.rows(scrape), exporter.uuids(scrape)
        processes = exporter.processes(scrape)
        about = {
            "looked_s": at_s,
            "processes": processes,
            "uuids": uuids,
            "not_measured": exporter.not_measured(scrape),
        }
        if uuids != self._uuids or now_s >= self._inventory_due_s:
            self._uuids = uuids
            self._describe(scrape, now_s)
        names = of_inventory([gpu.described for gpu in scrape.gpus])
        seen = frozenset((uuids[one.device], one.pid, one.name) for one in processes)
        with self._lock:
            self._batch.append(at_s, rows)
            self._about = about
            self._holders = Holders(names, seen)

    def _describe(self, scrape: exporter.Scrape | None, now_s: float) -> None:
        self._inventory_due_s = now_s + INVENTORY_S
        why = {"cuda": "an exporter does not tell"}
        if scrape is None:
            why = {"devices": f"dcgm-exporter: {self._away}"}
        inventory = describe_host(time.time(), why) | {
            "driver": (scrape.driver or None) if scrape else None,
            "devices": [gpu.described for gpu in scrape.gpus] if scrape else [],
        }
        with self._lock:
            self._inventory = inventory

    def cut(self, **producer: Any) -> DeviceSamples | None:
        """The event of the rows since the last cut; None without any."""
        with self._lock:
            rows, about = self._batch.drain(), self._about
        return device_samples(rows, **about, **producer) if rows else None

    def inventory(self) -> dict[str, Any] | None:
        """The inventory, where there is one to say: the fields of NodeDescribed but the producer's."""
        with self._lock:
            inventory, self._inventory = self._inventory, None
        return inventory

    def holders(self) -> Holders:
        """What the pods that hold the devices are found by; an exporter tells of no process's cgroup."""
        with self._lock:
            return self._holders

    def close(self) -> None:
        """Nothing is held between two scrapes."""
