"""Lines taken along: to the clipboard, to a file, to a pager; each as it stands in the log."""

from __future__ import annotations

import base64
import os
import stat
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.logline import LogLine
from console.ui.widgets.log_export import (
    CLIPBOARD_BYTES,
    clipped,
    create_file,
    page,
    short_path,
    suggested_path,
    write_lines,
)
from tests.unit.log_app import PaneApp, numbered, shows, until

LINE = '[2026-06-17 16:24:52 TP0] Decode batch, #running-req: 16, "日本語" [red]x[/] é'


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))


class TestClipboard:
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30_000), max_size=6))
    def test_no_more_than_terminals_take_and_never_half_a_character(self, lines: list[str]) -> None:
        clip = clipped(lines)
        assert len(base64.b64encode(clip.text.encode())) <= 74_994
        assert clip.whole == (clip.text == "\n".join(lines))
        assert "\n".join(lines).startswith(clip.text)

    def test_all_that_fits_is_taken(self) -> None:
        assert clipped(["x" * CLIPBOARD_BYTES]) == ("x" * CLIPBOARD_BYTES, 1, True)
        assert clipped(["x" * 100, "y" * (CLIPBOARD_BYTES - 101)]).whole
        assert clipped(["x" * 100, "y" * (CLIPBOARD_BYTES - 100)]) == ("x" * 100, 1, False)
        assert len(clipped(["é" * CLIPBOARD_BYTES]).text) == CLIPBOARD_BYTES // 2

    async def test_the_top_line_is_copied_as_it_stands_in_the_log(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await shows(pilot, app, [LogLine(1, LINE, "stats"), *numbered(2, 9)], "line 10")
            await pilot.press("y")
            assert app.copied == [LINE]
            assert "copied 1 line" in app.told

    async def test_the_marked_line_is_copied_when_it_is_in_view(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            lines = [*numbered(1, 20), LogLine(21, LINE, "error"), *numbered(22, 20)]
            await shows(pilot, app, lines, "line 41")
            await pilot.press("e", "y", "G", "y")
            assert app.copied == [LINE, "line 32"]

    async def test_a_block_is_begun_extended_and_copied(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("V", "up", "k", "k")
            assert "4 selected" in app.said
            assert [row[1] for row in app.rows] == [" "] * 6 + ["▎"] * 4
            assert not app.pane.following
            await pilot.press("j", "y")
            assert app.copied == ["line 48\nline 49\nline 50"]
            assert "copied 3 lines" in app.told
            assert "selected" not in app.said

    async def test_pages_ends_and_jumps_extend_a_block(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            lines = [*numbered(1, 29), LogLine(30, "line 30", "error"), *numbered(31, 20)]
            await shows(pilot, app, lines, "line 50")
            for keys, count in ((["V", "pageup"], 10), (["e"], 21), (["g"], 50), (["G"], 1)):
                await pilot.press(*keys)
                assert f"{count} selected" in app.said, keys

    async def test_shift_with_an_arrow_begins_one_too(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("shift+up", "shift+up", "y")
            assert app.copied == ["line 48\nline 49\nline 50"]

    async def test_a_block_reaches_beyond_the_view_and_escape_ends_it(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("g", "V", *["pagedown"] * 3)
            assert "28 selected" in app.said
            assert app.rows[-1] == "▎ line 28" or app.rows[-1].endswith("line 28")
            await pilot.press("escape")
            assert "selected" not in app.said
            await pilot.press("down")
            assert app.rows[-1].endswith("line 29")

    async def test_hidden_lines_are_not_in_a_block(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("ampersand", *"7$", "enter", "V", "up", "y")
            assert app.copied == ["line 37\nline 47"]

    async def test_what_is_cut_is_told(self) -> None:
        app = PaneApp(limit=10_000)
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, numbered(1, 9999), "line 9999")
            await pilot.press("V", "g", "y")
            (text,) = app.copied
            assert len(base64.b64encode(text.encode())) <= 74_994
            count = text.count("\n") + 1
            assert f"copied the first {count:,} of 9,999 lines: a terminal takes no more" in app.told

    async def test_an_empty_log_has_nothing_to_take(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await pilot.press("y", "V", "shift+up", "n", "e")
            assert app.copied == []


class TestFile:
    async def test_the_whole_log_is_saved_for_its_owner_alone(self, tmp_path: Path) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, [LogLine(1, LINE, "stats"), *numbered(2, 50)], "line 51")
            app.pane.add_note("log rotated")
            await pilot.press("s")
            assert app.prompt.startswith("save 52 lines to ~/state/dsv4-console/logs/decode-30001-20")
            await pilot.press("enter")
            await until(pilot, lambda: any(said.startswith("saved 52 lines") for said in app.told))
            (file,) = (tmp_path / "state" / "dsv4-console" / "logs").iterdir()
            assert file.read_text().splitlines() == [
                LINE, *(f"line {number}" for number in range(2, 52)), "--- log rotated"
            ]  # fmt: skip
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    async def test_a_path_can_be_typed_and_what_passes_the_filter_is_saved(self, tmp_path: Path) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("ampersand", *"0$", "enter", "s")
            assert app.prompt.startswith("save 5 lines to ")
            await pilot.press("ctrl+u", *"~/mine.log", "enter")
            await until(pilot, lambda: any("saved 5 lines" in said for said in app.told))
            assert (tmp_path / "mine.log").read_text() == "line 10\nline 20\nline 30\nline 40\nline 50\n"

    async def test_a_block_is_saved_alone(self, tmp_path: Path) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("V", "up", "s", "ctrl+u", *"~/b", "enter")
            await until(pilot, lambda: any("saved 2 lines" in said for said in app.told))
            assert (tmp_path / "b").read_text() == "line 49\nline 50\n"

    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("~/there", "~/there: exists already, and is left as it is"),
            ("~/link", "~/link: exists already, and is left as it is"),
            ("~/no/folder", "~/no/folder: No such file or directory"),
            ("~", "~/.: exists already"),
            ("~nobody-of-that-name/x", "No such file or directory"),
            ("", "a path, please"),
        ],
    )
    async def test_a_path_that_cannot_be_used_is_told_and_can_be_corrected(
        self, tmp_path: Path, path: str, said: str
    ) -> None:
        (tmp_path / "there").write_text("mine")
        (tmp_path / "link").symlink_to(tmp_path / "target")
        app = PaneApp()
        async with app.run_test(size=(120, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("s", "ctrl+u", *path, "enter")
            await until(pilot, lambda: said in app.prompt)
            assert (tmp_path / "there").read_text() == "mine"
            assert not (tmp_path / "target").exists()
            await pilot.press("ctrl+u", *"~/other", "enter")
            await until(pilot, lambda: any("saved 50 lines" in notice for notice in app.told))

    def test_the_name_is_made_of_the_log_and_the_moment(self, tmp_path: Path) -> None:
        moment = datetime(2026, 6, 17, 16, 24, 52)
        folder = tmp_path / "state" / "dsv4-console" / "logs"
        assert suggested_path(" decode :30001", moment) == folder / "decode-30001-20260617-162452.log"
        assert suggested_path("../../etc/passwd\x1b[2J", moment).parent == folder
        assert suggested_path("", moment).name == "log-20260617-162452.log"

    def test_a_path_is_shown_as_a_person_writes_it(self, tmp_path: Path) -> None:
        assert short_path(tmp_path / "a") == "~/a"
        assert short_path(Path("/var/log/a")) == "/var/log/a"

    def test_what_cannot_be_encoded_is_written_all_the_same(self, tmp_path: Path) -> None:
        size = write_lines(create_file(tmp_path / "a"), ["\udcff", "é"])
        assert (tmp_path / "a").read_bytes() == b"\xff\n\xc3\xa9\n"
        assert size == 5


class TestPager:
    async def test_the_pager_gets_the_lines_and_nothing_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        out = tmp_path / "out"
        monkeypatch.setenv("PAGER", f'sh -c \'stat -c %a "$0" >{out}; cat "$0" >>{out}\'')
        await page([LINE, "second"])
        assert out.read_text() == f"600\n{LINE}\nsecond\n"
        assert os.listdir(tmp_path) == ["out"]

    @pytest.mark.parametrize(("pager", "error"), [("/no/such/pager", OSError), ("less '", ValueError)])
    async def test_a_pager_that_cannot_be_started_raises(
        self, pager: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setenv("PAGER", pager)
        with pytest.raises(error):
            await page(["a"])
        assert os.listdir(tmp_path) == []

    async def test_where_no_terminal_is_it_is_told(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("o")
            await until(pilot, lambda: "no pager can be shown here" in app.told)
