"""Nothing heavy is imported before the first paint."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from console.ui.app import ConsoleApp
from console.ui.themes import DEFAULT_THEME, load_themes
from console.ui.widgets.meter import UNICODE

HEAVY = {"asyncssh", "httpx", "plotext", "textual_plotext", "prometheus_client", "sqlite3"}
seen = []

async def updates():
    seen.append(sorted(HEAVY & set(sys.modules)))
    yield from_nothing
    await asyncio.Event().wait()

async def main():
    app = ConsoleApp(updates, themes=load_themes().themes, theme=DEFAULT_THEME, glyphs=UNICODE)
    async with app.run_test(size=(120, 40)) as pilot:
        while not seen:
            await pilot.pause()

from console.domain.host_view import HostView
from_nothing = HostView(name="x")
asyncio.run(main())
print(seen)
"""


def test_the_watch_begins_after_the_first_paint_and_nothing_heavy_before_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[[]]\n", done.stderr
