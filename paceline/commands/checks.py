"""What ``paceline doctor`` looks at: one function a question, each with an answer and, if need be, the fix.

Rule of this file: a check never raises for what it is there to find, and changes nothing on the bus but for a topic of
its own that it removes again. What cannot be measured is said to be "not measured".
"""

import contextlib
import os
import platform
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from importlib import metadata
from typing import Literal

import msgspec

from paceline.gpu import amd
from paceline.gpu.driver import AbsentError
from paceline.gpu.nvml import real, text
from paceline.install import install
from paceline.kafka import acls, clients, compat
from paceline.kafka.errors import BusError, explained
from paceline.kafka.reach import attempt
from paceline.kafka.settings import BrokerSettings, split
from paceline.patience import patient
from paceline.rights import SERVICES, Rule, rules
from paceline.topics import PARTITIONS, TOPICS, usual_partitions

#: "info": it is not there, and need not be.
Status = Literal["ok", "info", "warn", "fail"]
#: Brokers and collectors further apart than this make windows of different nodes drift apart.
CLOCK_WARN_S = 1.0
_REACH_S = 3.0


class Check(msgspec.Struct, frozen=True):
    """One line of the report."""

    name: str
    status: Status
    says: str
    fix: str | None = None


def versions() -> list[Check]:
    """Python and the packages that matter, those that are installed."""
    checks = [Check("python", "ok", platform.python_version())]
    for package, wanted in (("kafka-python", "3.0."), ("msgspec", ""), ("faust-streaming", ""), ("torch", "")):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            checks.append(Check(package, "info", "not installed (only its own service needs it)"))
            continue
        if version.startswith(wanted):
            checks.append(Check(package, "ok", version))
        else:
            fix = f"pip install '{package}~={wanted}0'"
            checks.append(Check(package, "warn", f"{version}, tested with {wanted}x", fix))
    return checks


def _readable(ask: Callable[..., str | bytes], *handle: object) -> str:
    try:
        return text(ask(*handle))
    except UnicodeDecodeError:
        return "not readable: no UTF-8"


def nvml() -> Check:
    """Whether this machine's GPUs can be asked."""
    try:
        binding = real()
    except ModuleNotFoundError:
        fix = f"{install('collectors')} where there are GPUs"
        return Check("nvml", "warn", "nvidia-ml-py is not installed: NVIDIA's GPUs are not measured here", fix)
    try:
        binding.nvmlInit()
    except binding.NVMLError as error:
        fix = "install NVIDIA's driver, or nothing where there is no GPU"
        return Check("nvml", "warn", f"{error}: NVIDIA's GPUs are not measured here", fix)
    try:
        gpus = [binding.nvmlDeviceGetHandleByIndex(index) for index in range(binding.nvmlDeviceGetCount())]
        names = ", ".join(sorted({_readable(binding.nvmlDeviceGetName, gpu) for gpu in gpus}))
        version = _readable(binding.nvmlSystemGetDriverVersion)
        return Check("nvml", "ok", f"{len(gpus)} GPU ({names}), driver {version}")
    except binding.NVMLError as error:
        return Check("nvml", "warn", f"a GPU does not answer: {error}", "run nvidia-smi; look for Xid lines in dmesg")
    finally:
        with contextlib.suppress(binding.NVMLError):
            binding.nvmlShutdown()


def amd_smi() -> list[Check]:
    """Whether AMD's GPUs can be asked; no line where there is no ROCm."""
    try:
        driver = amd.load()
    except AbsentError:
        return []
    try:
        driver.open()
    except driver.errors() as error:
        says = f"{driver.reason(error)}: AMD's GPUs are not measured here"
        return [Check("amd smi", "warn", says, "load amdgpu, or nothing where there is no GPU of AMD's")]
    try:
        names = {driver.rated["name"](driver.library, driver.handle(index)) for index in range(driver.count())}
        said = ", ".join(sorted(str(name) for name in names if name)) or "unnamed"
        return [Check("amd smi", "ok", f"{driver.count()} GPU ({said})")]
    except driver.errors() as error:
        return [
            Check("amd smi", "warn", f"a GPU does not answer: {driver.reason(error)}", "run amd-smi; look at dmesg")
        ]
    finally:
        with contextlib.suppress(*driver.errors()):
            driver.close()


def brokers(settings: BrokerSettings) -> list[Check]:
    """Whether each broker named in the settings answers and lets us in."""
    checks = []
    for address in settings.brokers:
        began = time.monotonic()
        try:
            attempt(address, settings, patient(_REACH_S, os.environ))
        except BusError as error:
            checks.append(Check("broker", "fail", f"{address}: {error.cause}", error.mend))
        else:
            checks.append(Check("broker", "ok", f"{address} answers after {(time.monotonic() - began) * 1000:.0f} ms"))
    return checks


def login(settings: BrokerSettings) -> Check:
    """How we are let in, and who else would be."""
    protocol = settings.security_protocol
    if settings.sasl and settings.tls:
        return Check("login", "ok", f"{protocol} as {settings.user} ({settings.sasl_mechanism})")
    if settings.tls:
        who = "our certificate" if settings.ssl_certfile else "no user"
        return Check("login", "ok", f"{protocol} as {who}")
    if all(_is_loopback(address) for address in settings.brokers):
        return Check("login", "ok", f"{protocol}, on this machine alone")
    fix = "set PACELINE_SECURITY_PROTOCOL=SASL_SSL, PACELINE_SASL_USERNAME and PACELINE_SASL_PASSWORD"
    risk = f"the {'token' if settings.sasl_oauth else 'password'} and all events" if settings.sasl else "all events"
    return Check("login", "warn", f"{protocol}: anyone on the network can read {risk}", fix)


def advertised(settings: BrokerSettings) -> list[Check]:
    """Whether the addresses that the brokers give out to clients can be reached from here."""
    with contextlib.closing(clients.admin(settings)) as client:
        nodes = client.describe_cluster()["brokers"]
    checks = []
    for node in nodes:
        address = f"{node['host']}:{node['port']}"
        if address in settings.brokers:
            continue
        try:
            attempt(address, settings, patient(_REACH_S, os.environ))
        except BusError as error:
            says = f"the broker sends its clients to {address}, and from here: {error.cause}"
            checks.append(Check("advertised", "fail", says, "correct advertised.listeners on the broker"))
    return checks or [Check("advertised", "ok", f"{len(nodes)} broker(s), all reachable from here")]


def topics(settings: BrokerSettings) -> list[Check]:
    """Whether the topics are there, with the partitions of the table; those that we may not see are said as such."""
    with contextlib.closing(clients.admin(settings)) as client:
        rows = {row["name"]: len(row["partitions"]) for row in client.describe_topics() if row["partitions"]}
    unseen = sorted(acls.lacking(settings, [Rule("", "topic", topic.name, ("Describe",)) for topic in TOPICS]))
    if not unseen:
        return compare(rows)
    enough = [name for name, held in SERVICES.items() if not {topic.name for topic in held.uses} & {*unseen}]
    says = f"this login may not see {', '.join(unseen)}: enough for {', '.join(enough) or 'no service'}"
    fix = "`paceline doctor --service NAME` names what a service lacks"
    return [*compare(rows, unseen), Check("rights", "ok" if enough else "warn", says, None if enough else fix)]


def authorizer(settings: BrokerSettings) -> list[Check]:
    """Brokers that ask nobody for rights; nothing where they do, or do not say."""
    if acls.authorized(settings) is not False:
        return []
    if all(_is_loopback(address) for address in settings.brokers):
        return [Check("rights", "ok", "these brokers have no authorizer: all users of this machine may do everything")]
    return [Check("rights", "warn", acls.NO_AUTHORIZER, acls.AUTHORIZER)]


def rights(settings: BrokerSettings, service: str) -> Check:
    """Whether this login may do on the topics what ``service`` does there; groups and prefixes are not asked."""
    missed = acls.lacking(settings, rules(service, ""))
    if not missed:
        return Check("rights", "ok", f"this login may do on the topics what {service} does")
    said = "; ".join(f"{', '.join(operations)} on {name}" for name, operations in missed.items())
    fix = f"`paceline rights {service} --user {service}=USER --apply`, as an administrator"
    return Check("rights", "fail", f"this login lacks, as {service}: {said}", fix)


def compare(partitions: Mapping[str, int], unseen: Collection[str] = ()) -> list[Check]:
    """The table against what is there (name to partition count), but for those that the login may not see.

    All may have another number of partitions than the table says, as of an embedded broker; one alone may not.
    """
    checks = []
    seen = [topic for topic in TOPICS if topic.name not in unseen]
    missing = [topic.short for topic in seen if topic.name not in partitions]
    usual = usual_partitions(partitions, seen)
    for topic in seen:
        wanted = topic.split(usual)
        count = partitions.get(topic.name, wanted)
        if count != wanted:
            says = f"{topic.name} has {count} partitions, not {wanted}: streams cannot join it with the others"
            fix = f"delete it when its data may go (kafka-topics.sh --delete --topic {topic.name}); it is created again"
            checks.append(Check("topics", "fail", says, fix))
    if missing:
        fix = "`paceline topics create`; where no rights are asked, `paceline streams` or the first publisher does"
        checks.append(Check("topics", "warn", f"missing: {', '.join(missing)}", fix))
    if not seen:
        return []
    whose = f"all {len(TOPICS)}" if len(seen) == len(TOPICS) else f"the {len(seen)} that this login may see"
    return checks or [Check("topics", "ok", f"{whose} exist; those with a key have {usual or PARTITIONS} partitions")]


def clock(settings: BrokerSettings) -> Check:
    """How far our clock is from the broker's."""
    try:
        offset_s, rounding_s = clock_offset(settings)
    except BusError as error:
        if all(_is_loopback(address) for address in settings.brokers):
            return Check("clock", "ok", "the broker runs on this machine: the same clock")
        return Check("clock", "warn", f"not measured: {error}", "compare `date` here and on the broker")
    says = f"{offset_s:+.3f} s ahead of the broker, to within {rounding_s:.3f} s"
    if abs(offset_s) - rounding_s > CLOCK_WARN_S:
        return Check("clock", "warn", says, "run chrony or another NTP client on both")
    return Check("clock", "ok", says)


def clock_offset(settings: BrokerSettings) -> tuple[float, float]:
    """Seconds our clock is ahead of the broker's, and how uncertain that is.

    The broker stamps a message on a topic made for that; it was stamped between our sending and our hearing of it.

    Raises:
        BusError: no broker, no right to make a topic, or a broker that does not stamp.
    """
    name = f"paceline.doctor.{uuid.uuid4().hex}"
    row = {"num_partitions": 1, "configs": {"message.timestamp.type": "LogAppendTime", "retention.ms": "60000"}}
    with explained(settings), contextlib.closing(clients.admin(settings)) as client:
        client.create_topics({name: row}, wait_for_metadata=True)
        try:
            producer = clients.producer(settings, "paceline-doctor", max_block_ms=5000)
            try:
                producer.partitions_for(name)
                producer.send(name, value=b"warm up").get(5)
                before = time.time()
                stamped = producer.send(name, value=b"now", timestamp_ms=1).get(5).timestamp / 1000
                after = time.time()
            finally:
                compat.discard(producer)
        finally:
            client.delete_topics([name])
    if stamped < 1:
        raise BusError(settings.address, "this broker does not stamp messages", "compare clocks by hand")
    return (before + after) / 2 - stamped, (after - before) / 2 + 0.001


def _is_loopback(address: str) -> bool:
    host = split(address)[0]
    return host in ("localhost", "::1") or host.startswith("127.")
