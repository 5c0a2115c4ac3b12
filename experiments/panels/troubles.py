"""What goes wrong on the way to the workers, once each: panels that count losses have nothing to show without.

Rule of this file: messages as a broken or lossy producer sends them; nothing is told to Prometheus but by the workers.
"""

import time

from paceline import topics, wire
from paceline.columns import durations, offsets, whole
from paceline.events import DeliveryAccount, HostSamples, Speakers, StepTimings
from paceline.kafka.clients import producer
from paceline.kafka.settings import BrokerSettings

NODE, JOB = "troubled", "troubled"
#: Weighs a tenth of a megabyte and unpacks to more than is read.
BOMB_BYTES = 100 * 2**20


def send(settings: BrokerSettings, sequence: int) -> None:
    """A collector and a sidecar that have shed messages speak, and skip two numbers."""
    client = producer(settings, "troubles")
    lossy = DeliveryAccount(sent=sequence, waiting=3, spooled=5, spooled_bytes=4096, outages=1, shed=_shed())
    for topic, event in ((topics.HOST, _host(sequence, lossy)), (topics.OP, _steps(sequence, lossy))):
        client.send(topic.name, key=NODE.encode(), value=wire.encode(event)).get(30)
    client.close()


def spoil(settings: BrokerSettings) -> None:
    """A message that is nothing of ours, and a batch that nobody should unpack."""
    client = producer(settings, "spoils")
    client.send(topics.HOST.name, key=NODE.encode(), value=b"no message of ours").get(30)
    client.close()
    bomb = producer(settings, "bomb", compression_type="gzip", max_request_size=2**30)
    bomb.send(topics.OP.name, value=bytes(BOMB_BYTES)).get(60)
    bomb.close()


def _shed() -> dict[str, int]:
    return {topics.HOST.name: 7, topics.OP.name: 9}


def _host(sequence: int, account: DeliveryAccount) -> HostSamples:
    none: list[float | None] = [None]
    return HostSamples(
        cluster="default", producer="troubled-collector", sequence=sequence, account=account, node=NODE,
        t0_s=time.time(), time_s=[0.0], cpu_ratio=[0.5], cpu_ratio_per_core=[[0.5]], cpu_steal_ratio=none,
        cpu_frequency_mhz=none, load1=none, pressure_cpu_ratio=none, pressure_memory_ratio=none,
        pressure_io_ratio=none, memory_used_bytes=[None], memory_total_bytes=[None], swap_used_bytes=[None],
        disk_read_bytes_per_s=none, disk_write_bytes_per_s=none, network_rx_bytes_per_s=none,
        network_tx_bytes_per_s=none, tcp_retransmits=[None],
    )  # fmt: skip


def _steps(sequence: int, account: DeliveryAccount) -> StepTimings:
    return StepTimings(
        cluster="default", producer="troubled-sidecar", sequence=sequence, account=account, job=JOB, attempt=0,
        node=NODE, t0_s=time.time(), lost=1,
        speakers=Speakers(ranks=whole([0]), world_sizes=whole([1]), devices=["cpu"]), rank=whole([0]),
        step=whole([sequence]), start_s=offsets([0.0]), step_s=durations([0.1]), phases={"forward": durations([0.1])},
    )  # fmt: skip
