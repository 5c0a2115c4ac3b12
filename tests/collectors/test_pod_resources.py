"""The kubelet's socket: a real gRPC server answers as a kubelet does, or as none should."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import grpc
import pytest

from collectors import pod_resources
from collectors.pod_resources import MOST_NAMES, MOST_PARTS, PodResources, PodResourcesError
from tests.collectors.kubelet import MESSAGES, Kubelet, answer, claiming, pod

A = "GPU-51ed0000-0000-4000-8000-000000000000"


@pytest.fixture
def kubelet(tmp_path):
    made = Kubelet(tmp_path / "kubelet.sock").start()
    yield made
    made.stop()


def why(path, timeout_s=5.0):
    with pytest.raises(PodResourcesError) as refused:
        PodResources(path, timeout_s).ask()
    return str(refused.value)


def test_containers_and_what_they_hold(kubelet):
    """A line a device, with the plugin's resource or the claim's driver; pods that hold nothing give none."""
    kubelet.answer = answer(
        pod("llm-0", A, f"{A}::1", container="train"),
        claiming("dra-0", "gpu-1", "nvidia.com/gpu=1"),
        claiming("old-0", "", "nvidia.com/gpu=1", driver=""),
        pod("web"),
    )
    assert PodResources(kubelet.path).ask() == [
        ("ml", "llm-0", "train", "nvidia.com/gpu", (A,)),
        ("ml", "llm-0", "train", "nvidia.com/gpu", (f"{A}::1",)),
        ("ml", "dra-0", "main", "gpu.nvidia.com", ("gpu-1", "nvidia.com/gpu=1")),
        ("ml", "old-0", "main", "nvidia.com/gpu", ("nvidia.com/gpu=1",)),
    ]


def test_a_node_without_pods(kubelet):
    """An empty answer is an answer."""
    assert PodResources(kubelet.path).ask() == []


def test_a_kubelet_that_restarts_is_asked_at_its_new_socket(kubelet):
    """Away it is a reason; the socket that it makes anew is another one of the same name."""
    asked = PodResources(kubelet.path)
    asked.ask()
    kubelet.stop()
    kubelet.path.unlink(missing_ok=True)
    with pytest.raises(PodResourcesError, match=r"no socket of the kubelet at .*; mount its folder"):
        asked.ask()
    again = Kubelet(kubelet.path).start()
    again.answer = answer(pod("llm-0", A))
    assert len(asked.ask()) == 1
    again.stop()


def test_a_socket_that_a_kubelet_left_behind(tmp_path):
    """Nobody listens any more."""
    path = tmp_path / "left.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    assert f"no kubelet listens at {path}; mount its folder" in why(path)


def test_no_permission_says_who_may():
    """The kubelet's socket is root's; the reason says how to mend it."""
    with tempfile.TemporaryDirectory() as folder:  # Pytest's own folders let nobody else in.
        Path(folder).chmod(0o755)
        kubelet = Kubelet(Path(folder, "kubelet.sock")).start()
        kubelet.path.chmod(0o600 if os.geteuid() == 0 else 0)
        before = os.geteuid()
        os.seteuid(before or 65534)
        try:
            said = why(kubelet.path)
        finally:
            os.seteuid(before)
        kubelet.stop()
    assert said == f"no permission for the kubelet's socket {kubelet.path}; run the collector as root"


@pytest.mark.parametrize("path", ["/", "/dev/null", "/proc/version/x", f"/{'x' * 200}", "/a\0b"])
def test_what_is_no_socket_is_a_reason(path):
    """Whatever somebody has named."""
    assert why(Path(path))


@pytest.mark.long
def test_a_kubelet_that_hangs_costs_the_deadline(kubelet):
    """And not a second more, on any machine."""
    kubelet.hang()
    assert why(kubelet.path, 0.2) == "the kubelet gives no answer within 0.2 s"


@pytest.mark.long
@pytest.mark.parametrize("backlog", [0, 1])
def test_a_socket_that_accepts_nothing_or_says_nothing(tmp_path, backlog):
    """Whoever listens and is no gRPC server costs the deadline, too."""
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen(backlog)
        if not backlog:
            waiting = socket.socket(socket.AF_UNIX)
            waiting.connect(str(path))
        assert "0.3 s" in why(path, 0.3)
        if not backlog:
            waiting.close()


def test_whoever_ends_waits_for_no_kubelet(kubelet, until):
    """What is being asked is given up, from another thread."""
    asked, refused = PodResources(kubelet.path, 200.0), []

    def ask():
        with pytest.raises(PodResourcesError) as error:
            asked.ask()
        refused.append(str(error.value))

    kubelet.hang()
    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: kubelet.asked)
    asked.close()
    thread.join()
    assert refused == ["the kubelet does not tell: given up"]
    with pytest.raises(PodResourcesError, match="the collector ends"):
        asked.ask()


def abort(code, words):
    return lambda context: context.abort(code, words)


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        (abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service"), "Kubernetes has it from 1.20 on"),
        (
            abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"),
            "asked too often: rejected by rate limit",
        ),
        (abort(grpc.StatusCode.INTERNAL, "no pods\n\x1b[31m"), "the kubelet does not tell: no pods"),
        (b"\xff\xff garbage", "is no kubelet"),
        (b"GET / HTTP/1.1\r\n\r\n", "is no kubelet"),
        (answer(pod("llm-0", A)).replace(b"llm-0", b"llm\xff\xfe"), "is no kubelet"),
        (answer(pod("llm-0", A))[:-3], "is no kubelet"),
    ],
)
def test_an_answer_that_is_none_is_a_reason(kubelet, answered, said, caplog, capfd):
    """One line, harmless for a terminal, and nothing of it on our standard error."""
    kubelet.answer = answered
    refused = why(kubelet.path)
    assert said in refused
    assert refused.isprintable()
    assert (caplog.records, capfd.readouterr().err) == ([], "")


def test_an_answer_over_the_bound_is_refused(kubelet, monkeypatch):
    """It is not read into memory."""
    kubelet.answer = answer(*[pod(f"p{n}", A) for n in range(1000)])
    assert len(PodResources(kubelet.path).ask()) == 1000
    small = tuple((name, 4096 if "max_receive" in name else value) for name, value in pod_resources._OPTIONS)
    monkeypatch.setattr(pod_resources, "_OPTIONS", small)
    assert "over the bound" in why(kubelet.path)


@pytest.mark.long
def test_ten_thousand_pods_are_read(kubelet):
    """Nothing is lost under the bounds: it is not here that pods are left out."""
    kubelet.answer = answer(*[pod(f"p{n}", A) for n in range(10_000)])
    assert len(PodResources(kubelet.path, 60.0).ask()) == 10_000


@pytest.mark.long
@pytest.mark.parametrize(
    "pods",
    [
        [pod(f"p{n}", A) for n in range(MOST_PARTS // 4 + 1)],
        [MESSAGES["PodResources"]()] * (MOST_PARTS + 1),
        [MESSAGES["PodResources"](containers=[MESSAGES["ContainerResources"]()] * MOST_PARTS)],
        [pod("p", *[""] * MOST_PARTS)],
    ],
    ids=["pods with a device each", "pods", "containers", "devices"],
)
def test_more_than_any_node_has_is_refused(kubelet, pods):
    """A small answer of many empty parts would take minutes to walk through, and as much memory as the node has."""
    kubelet.answer = answer(*pods)
    assert why(kubelet.path, 60.0) == "what answers is no kubelet: more than 100,000 containers and devices"


def test_a_claim_with_endless_names_is_cut(kubelet):
    """The first of them say what the device is."""
    kubelet.answer = answer(claiming("dra", "gpu-1", *(f"nvidia.com/gpu={n}" for n in range(5000))))
    (held,) = PodResources(kubelet.path).ask()
    assert len(held.names) == MOST_NAMES + 1


@pytest.mark.slow
def test_without_a_socket_no_grpc_is_loaded(tmp_path):
    """It takes as much memory as the rest of the collector; nodes outside Kubernetes do not pay for it."""
    script = (
        "import sys\n"
        "import collectors.__main__\n"
        "from pathlib import Path\n"
        "from collectors.pod_resources import PodResources, PodResourcesError\n"
        "try:\n    PodResources(Path(sys.argv[1])).ask()\n"
        "except PodResourcesError as error:\n    print(error.absent, 'grpc' in sys.modules, 'google' in sys.modules)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "none.sock")], check=True, capture_output=True, text=True
    )
    assert said.stdout == "True False False\n"
