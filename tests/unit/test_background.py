"""Blocking calls in a thread that nobody waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from console.remote.ssh.background import in_background


async def test_the_result_comes_back() -> None:
    assert await in_background(lambda: threading.current_thread().daemon) is True


async def test_an_error_comes_back() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_background(lambda: 1 // 0)


async def test_a_cancelled_wait_does_not_mind_a_late_result() -> None:
    release, returned = threading.Event(), threading.Event()

    def call() -> None:
        release.wait()
        returned.set()

    waiting = asyncio.create_task(in_background(call))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert returned.wait(5)


def test_a_result_after_the_loop_has_gone_is_dropped() -> None:
    release, threads = threading.Event(), []

    def call() -> None:
        threads.append(threading.current_thread())
        release.wait()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await in_background(call)

    asyncio.run(give_up())
    release.set()
    threads[0].join(5)
    assert not threads[0].is_alive()
