"""The garbage collector is paused inside blocks alone, whatever else happens."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from taskloom.garbage_collector import collector_paused


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    before = gc.isenabled()
    gc.enable()
    yield
    gc.enable() if before else gc.disable()


def test_the_collector_works_again_after_nested_blocks_and_exceptions() -> None:
    with pytest.raises(KeyError), collector_paused():  # noqa: PT012 - the block is what is tested
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_a_thread_that_ends_while_another_begins_does_not_leave_the_collector_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second thread sees the collector off, then the first turns it on, then the second turns it off."""
    disable, first_ended, second_began = gc.disable, threading.Event(), threading.Event()

    def disable_late() -> None:
        if threading.current_thread() is second:
            second_began.set()
            first_ended.wait(1)
        disable()

    def pause() -> None:
        with collector_paused():
            second_began.set()

    second = threading.Thread(target=pause)
    monkeypatch.setattr(gc, "disable", disable_late)
    with collector_paused():
        second.start()
        assert second_began.wait(5)
    first_ended.set()
    second.join(5)
    assert gc.isenabled()
