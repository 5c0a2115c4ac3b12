"""Where the thread that trains is, in a few words."""

import json
import threading
import time

import pytest

from paceline.training import looking
from paceline.training.look_messages import (
    LONGEST_FRAME,
    LOOKED,
    MOST_FRAMES,
    MOST_OTHERS,
    decode_look,
    encode_look,
    encode_looked,
)
from paceline.training.looking import look
from paceline.training.probe import Probe


@pytest.fixture
def at():
    """What a look sees of a thread that waits inside of ``function``."""

    def seen(function):
        probe, ready, release = Probe(), threading.Event(), threading.Event()

        def wait():
            ready.set()
            release.wait()

        def train():
            probe.adopt_thread()
            function(wait)

        thread = threading.Thread(target=train)
        thread.start()
        ready.wait()
        try:
            return look(probe, 7)
        finally:
            release.set()
            thread.join()

    return seen


def in_a_module(name, filename):
    """A function of a module ``name`` in ``filename``, called ``step``, that calls its argument."""
    namespace = {"__name__": name}
    exec(compile("def step(inner):\n    inner()\n", filename, "exec"), namespace)
    return namespace["step"]


@pytest.mark.long
def test_the_line_is_the_innermost_of_the_users_own_code(at):
    """Not threading.py's, in which it waits."""
    seen = at(lambda inner: inner())
    assert seen.number == 7
    assert "test_looking.py:" in seen.line
    assert seen.line.endswith(" wait")
    assert seen.frames[0].endswith(" wait")
    assert "threading.py:" in seen.frames[0]


@pytest.mark.parametrize(
    ("name", "filename", "users"),
    [
        ("train", "/home/x/train.py", True),
        ("torch.nn", "/x/lib/python3.11/site-packages/torch/nn.py", False),
        ("apt", "/usr/lib/python3/dist-packages/apt.py", False),
        ("made", "<string>", False),
        ("__main__", "/x/lib/python3.11/site-packages/tool/train.py", True),
        ("paceline.training.hooks.x", looking._OURS + "training/hooks/x.py", False),
    ],
)
def test_whose_code_a_frame_is(name, filename, users):
    """Installed packages, the standard library and ours are not the user's; the script always is."""
    step = in_a_module(name, filename)
    frames = []
    step(lambda: frames.append(__import__("sys")._getframe(1)))
    assert looking.is_users(frames[0]) is users


@pytest.mark.long
def test_deep_recursion_and_long_names_are_cut(at):
    """The answer has a bounded size whatever the script does; the innermost frames stay."""

    def deep(inner, left=900):
        return inner() if not left else deep(inner, left - 1)

    seen = at(deep)
    assert len(seen.frames) == MOST_FRAMES
    assert len(encode_looked(seen)) < MOST_FRAMES * LONGEST_FRAME * 2
    long = at(in_a_module("train", "/" + "d/" * 5000 + "train.py"))
    assert max(map(len, long.frames)) <= LONGEST_FRAME
    assert any(frame.endswith("d/train.py:2 step") for frame in long.frames)


@pytest.mark.long
def test_names_that_no_terminal_takes_are_escaped(at):
    """A file's name may hold a line end, an escape or half a character."""
    seen = at(in_a_module("train", "/x/a\n\x1b[31m\udc80.py"))
    frame = next(frame for frame in seen.frames if frame.endswith(" step"))
    assert "\n" not in frame
    assert "\x1b" not in frame
    assert json.loads(encode_looked(seen)[1:])["frames"] == seen.frames


@pytest.mark.long
def test_what_a_thread_does_between_two_sleeps_is_seen():
    """One look alone would nearly always find it asleep."""
    probe, ready, over = Probe(), threading.Event(), threading.Event()
    in_model, in_file = in_a_module("torch.nn", "/x/torch/nn/modules/module.py"), in_a_module("train", "/x/train.py")

    def train():
        probe.adopt_thread()
        while not over.is_set():
            for step in (in_file, in_model):
                step(lambda: time.sleep(0.01))
                ready.set()

    thread = threading.Thread(target=train)
    thread.start()
    ready.wait()
    try:
        seen = look(probe, 7)
    finally:
        over.set()
        thread.join()
    places = {place.rpartition("/")[2] for place in (*seen.frames, *seen.others)}
    assert {"module.py:2 step", "train.py:2 step"} <= places
    assert not set(seen.frames).intersection(seen.others)


@pytest.mark.long
def test_others_are_bounded():
    """A thread that is somewhere else each time."""
    probe, over = Probe(), threading.Event()

    def train():
        probe.adopt_thread()
        for number in range(10_000):
            if over.is_set():
                return
            in_a_module(f"m{number}", f"/x/{number}.py")(lambda: time.sleep(0.001))

    thread = threading.Thread(target=train)
    thread.start()
    try:
        seen = look(probe, 7)
    finally:
        over.set()
        thread.join()
    assert len(seen.others) <= MOST_OTHERS


@pytest.mark.long
def test_a_thread_that_has_ended_has_no_stack():
    """It is answered all the same."""
    probe = Probe()
    probe.thread = -1
    assert (look(probe, 1).line, look(probe, 1).frames) == ("", [])


@pytest.mark.long
def test_a_probe_that_is_off_says_so(at):
    """What its rank computes cannot be told from a loop then."""
    probe = Probe()
    assert look(probe, 1).timed
    probe.off = True
    assert not look(probe, 1).timed


@pytest.mark.parametrize(
    "data", [b"", b"[", b"[1]", b'{"look":1.5}', b'{"look":null}', b'{"look":99999999999999999999}']
)
def test_what_is_no_request_is_ignored(data):
    """Other words of the sidecar, of this version and of later ones."""
    assert decode_look(data) is None


@pytest.mark.long
def test_a_request_and_an_answer_travel():
    """A request is read as it was written, and an answer begins with its kind."""
    assert decode_look(encode_look(3)) == 3
    assert encode_looked(look(Probe(), 3))[:1] == LOOKED
