"""The exception that ends a process, noted without changing anything of it."""

import sys
import threading

import pytest

from paceline.training.failure_messages import FAILED, LONGEST_TEXT, encode_failed
from paceline.training.last_words import LONGEST_NAME, ThreadFailures, at_exit, failed, while_handled


class OddError(Exception):
    def __str__(self):
        raise ValueError


def caught(function):
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError


def fail(text="bad loss"):
    raise ValueError(text)


def noted(function):
    error = caught(function)
    return failed(error, error.__traceback__)


def test_it_has_type_text_and_the_innermost_line_of_the_users_code():
    seen = noted(lambda: "".join(iter([fail()])))
    assert (seen.error, seen.message, seen.first) == ("ValueError", "bad loss", "")
    assert "test_last_words.py:" in seen.line
    assert seen.line.endswith(" fail")


def test_an_exception_in_a_library_has_the_line_that_called_it():
    seen = noted(lambda: threading.Semaphore(-1))
    assert seen.line.endswith(" <lambda>")


def test_the_first_of_several_is_told_even_where_it_is_hidden():
    def wrap():
        try:
            fail("Connection closed by peer")
        except ValueError:
            raise RuntimeError("training failed") from None

    assert noted(wrap).first == "ValueError: Connection closed by peer"


def test_exceptions_that_go_in_a_circle_end():
    one, other = ValueError("one"), KeyError("other")
    one.__context__, other.__context__ = other, one
    assert failed(one, None).first == "KeyError: 'other'"


def test_an_exception_that_cannot_say_anything_has_no_text():
    seen = failed(OddError(), None)
    assert (seen.error, seen.message, seen.line) == (f"{__name__}.OddError", "", "")


def test_text_is_cut_and_harmless_and_has_no_login():
    seen = failed(ValueError("\x1b[31m\ud800 " + "x" * 10_000), None, thread="t" * 1000)
    assert len(seen.message) == LONGEST_TEXT
    assert len(seen.thread) == LONGEST_NAME
    assert "\x1b" not in seen.message
    assert encode_failed(seen).startswith(FAILED)
    assert "pw" not in failed(ValueError("no answer of http://me:pw@host/"), None).message


def test_deep_recursion_is_bounded():
    def deep(left):
        return deep(left - 1) if left else fail()

    assert noted(lambda: deep(500)).line.endswith(" fail")


def on_its_way_out(function):
    """What is noted while the exception of ``function`` leaves the process."""
    seen = []

    def leave():
        try:
            function()
        finally:
            seen.append(at_exit())

    caught(leave)
    return seen[0]


class TestExit:
    def test_an_exception_that_is_on_its_way_out_is_noted(self):
        """Multiprocessing calls its finalizers so."""
        seen = on_its_way_out(fail)
        assert (seen.error, seen.handled) == ("ValueError", False)

    @pytest.mark.parametrize(("code", "error"), [(1, "ValueError"), ("text", "ValueError"), (0, None), (None, None)])
    def test_sys_exit_with_a_failure_has_the_exception_that_it_was_called_for(self, code, error):
        def leave():
            try:
                fail()
            except ValueError:
                sys.exit(code)

        seen = on_its_way_out(leave)
        assert (seen.error if seen else None) == error

    def test_what_python_keeps_of_the_main_thread_is_noted(self, monkeypatch):
        monkeypatch.setattr(sys, "last_value", caught(fail), raising=False)
        assert at_exit().line.endswith(" fail")
        monkeypatch.delattr(sys, "last_value")
        assert at_exit() is None

    def test_one_that_the_script_handles_is_marked_so(self):
        assert while_handled() is None
        try:
            fail()
        except ValueError:
            assert while_handled().handled


class TestThreads:
    @pytest.fixture
    def hooked(self, monkeypatch):
        """What a hook of the script's own is called with, and our hook after it."""
        calls = []
        monkeypatch.setattr(threading, "excepthook", calls.append)
        failures = ThreadFailures()
        failures.follow()
        return failures, calls

    def run(self, function, name="reader"):
        thread = threading.Thread(target=function, name=name)
        thread.start()
        thread.join()

    def test_the_first_is_noted_and_the_scripts_own_hook_is_called_for_all(self, hooked):
        failures, calls = hooked
        self.run(fail)
        self.run(lambda: fail("later"), "other")
        assert (failures.first.thread, failures.first.message) == ("reader", "bad loss")
        assert [str(call.exc_value) for call in calls] == ["bad loss", "later"]

    def test_a_hook_of_the_script_that_came_after_ours_stays(self, hooked):
        failures, _ = hooked
        before = threading.excepthook
        theirs = [].append
        threading.excepthook = theirs
        failures.leave()
        assert threading.excepthook is theirs
        threading.excepthook = before
        failures.leave()
        assert threading.excepthook != before

    def test_following_twice_hooks_once(self, hooked):
        failures, calls = hooked
        failures.follow()
        self.run(fail)
        assert len(calls) == 1
