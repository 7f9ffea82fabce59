"""Themes: the shipped ones can be read by everybody, and a user's wrong one is explained and left out."""

from __future__ import annotations

import fcntl
import math
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from itertools import combinations
from pathlib import Path

import pytest
from textual.app import App
from textual.theme import Theme

from console.domain.errors import ThemeError
from console.settings import shipped_folder
from console.ui import themes
from console.ui.themes import DEFAULT_THEME, load_themes

SHIPPED = {theme.name: theme for theme in load_themes().themes}
VARIABLES = re.findall(r"\$([a-z]+-?[a-z]*)", themes.__doc__ or "")
TEXT_COLOURS = [name for name in VARIABLES if not name.startswith("bar-")]


def channels(colour: str) -> tuple[float, float, float]:
    """Linear red, green and blue from 0 to 1 (IEC 61966-2-1)."""

    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[start : start + 2], 16) / 255) for start in (1, 3, 5))
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""

    def luminance(colour: str) -> float:
        red, green, blue = channels(colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.1523, 1.0526, -0.2049), (0.1145, 0.7863, 0.0992), (-0.0039, -0.0481, 1.0520)),
    "deuteranopia": ((0.3673, 0.8606, -0.2280), (0.2801, 0.6725, 0.0474), (-0.0118, 0.0429, 0.9689)),
    "tritanopia": ((1.2555, -0.0767, -0.1788), (-0.0784, 0.9308, 0.1476), (0.0047, 0.6914, 0.3039)),
}
"""Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB."""


def difference(one: str, other: str, vision: str) -> float:
    """CIE76 colour difference as seen with this vision; about 2 can just be told apart."""
    return math.dist(lab(one, vision), lab(other, vision))


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    seen = [
        min(
            1.0,
            max(0.0, sum(weight * channel for weight, channel in zip(row, channels(colour), strict=True))),
        )
        for row in VISIONS[vision]
    ]
    to_xyz = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0178, 0.1095, 0.8727))  # D65 as white
    x, y, z = (sum(weight * channel for weight, channel in zip(row, seen, strict=True)) for row in to_xyz)
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


class TestShipped:
    def test_these_are_shipped_and_the_default_comes_first(self) -> None:
        assert list(SHIPPED) == [
            "dsv4-dark",
            "dsv4-colour-blind",
            "dsv4-high-contrast",
            "dsv4-light",
            "dsv4-mono",
        ]
        assert next(iter(SHIPPED)) == DEFAULT_THEME

    @pytest.mark.parametrize("name", SHIPPED)
    def test_every_variable_of_the_manual_is_set(self, name: str) -> None:
        assert len(VARIABLES) == 24
        assert set(VARIABLES) <= set(SHIPPED[name].variables)

    @pytest.mark.parametrize("name", SHIPPED)
    def test_text_can_be_read(self, name: str) -> None:
        theme, needed = SHIPPED[name], 7.0 if name == "dsv4-high-contrast" else 4.5
        texts = [theme.variables[each] for each in (*TEXT_COLOURS, "foreground-muted")]
        texts += [
            theme.foreground or "",
            theme.primary,
            theme.accent or "",
            theme.warning or "",
            theme.error or "",
        ]
        for ground in (theme.background, theme.surface):
            assert ground is not None
            assert [text for text in texts if contrast(text, ground) < needed] == []

    @pytest.mark.parametrize("name", SHIPPED)
    def test_bars_stand_out_from_their_track(self, name: str) -> None:
        variables = SHIPPED[name].variables
        for level in ("low", "mid", "high"):
            assert contrast(variables[f"bar-{level}"], variables["bar-track"]) >= 3.0

    @pytest.mark.parametrize("vision", VISIONS)
    def test_the_colour_blind_theme_tells_roles_and_states_apart(self, vision: str) -> None:
        variables = SHIPPED["dsv4-colour-blind"].variables
        for group in ("role-", "state-"):
            colours = [colour for name, colour in variables.items() if name.startswith(group)]
            assert min(difference(one, other, vision) for one, other in combinations(colours, 2)) > 15

    def test_the_mono_theme_has_no_hue(self) -> None:
        colours = SHIPPED["dsv4-mono"].variables.values()
        assert [each for each in colours if len({each[1:3], each[3:5], each[5:7]}) > 1] == []

    @pytest.mark.parametrize("name", SHIPPED)
    async def test_textual_takes_it(self, name: str) -> None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            app.register_theme(SHIPPED[name])
            app.theme = name
            await pilot.pause()
            assert app.theme_variables["role-decode"] == SHIPPED[name].variables["role-decode"]

    def test_a_broken_shipped_one_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "dsv4-dark.toml").write_text("dark = true\n")
        monkeypatch.setattr(themes, "shipped_folder", lambda name: tmp_path)
        with pytest.raises(ThemeError, match=r"dsv4-dark.toml: colors: missing"):
            load_themes()


class TestUsers:
    def load(self, folder: Path, text: str, name: str = "mine") -> tuple[dict[str, Theme], tuple[str, ...]]:
        (folder / f"{name}.toml").write_text(text)
        found, notices = load_themes(folder)
        return {theme.name: theme for theme in found}, notices

    def test_no_folder_is_no_fault(self, tmp_path: Path) -> None:
        assert load_themes(tmp_path / "none").notices == ()

    def test_a_theme_of_ones_own_extends_a_shipped_one(self, tmp_path: Path) -> None:
        text = 'extends = "dsv4-light"\n[roles]\ndecode = "#123456"\n'
        found, notices = self.load(tmp_path, text)
        assert notices == ()
        assert found["mine"].variables["role-decode"] == "#123456"
        assert found["mine"].variables["role-prefill"] == SHIPPED["dsv4-light"].variables["role-prefill"]
        assert found["mine"].dark is False

    def test_a_file_named_like_a_shipped_theme_replaces_it(self, tmp_path: Path) -> None:
        text = 'extends = "dsv4-dark"\n[colors]\nprimary = "#abcdef"\n'
        found, _ = self.load(tmp_path, text, name="dsv4-dark")
        assert found["dsv4-dark"].primary == "#abcdef"
        assert len(found) == len(SHIPPED)

    def test_a_complete_file_needs_no_other(self, tmp_path: Path) -> None:
        text = (shipped_folder("themes") / "dsv4-mono.toml").read_text()
        found, notices = self.load(tmp_path, text)
        assert notices == ()
        assert found["mine"].variables == SHIPPED["dsv4-mono"].variables

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("dark = tru", "mine.toml: is not TOML: Invalid value (at line 1, column 8)"),
            ('extends = "dsv4-drak"', "mine.toml: extends: expected one of dsv4-colour-blind, dsv4-dark,"),
            ("extends = []", "mine.toml: extends: expected one of"),
            ("dark = true", "mine.toml: colors: missing, expected this key or table"),
            (
                'dark = true\n[colors]\nsurface = "#000000"',
                'background: missing, expected a colour as "#rrggbb"',
            ),
            (
                'extends = "dsv4-dark"\nfont = "big"',
                "mine.toml: font: unknown key, expected one of dark, colors,",
            ),
            (
                'extends = "dsv4-dark"\n[log]\neror = "#ff0000"',
                "log.eror: unknown key, expected one of ready, error,",
            ),
            (
                'extends = "dsv4-dark"\n[log]\nerror = "red"',
                'mine.toml: log.error: expected a colour as "#rrggbb"',
            ),
            (
                'extends = "dsv4-dark"\n[log]\nerror = 3',
                'mine.toml: log.error: expected a colour as "#rrggbb"',
            ),
            ('extends = "dsv4-dark"\nlog = 3', "mine.toml: log: Expected a table, got `int`"),
            ('extends = "dsv4-dark"\ndark = "yes"', "mine.toml: dark: Expected `bool`, got `str`"),
        ],
    )
    def test_a_wrong_one_is_left_out_with_a_notice(self, tmp_path: Path, text: str, told: str) -> None:
        """File, key and what was expected; the other themes are there."""
        found, notices = self.load(tmp_path, text)
        assert found.keys() == SHIPPED.keys()
        assert len(notices) == 1
        assert told in notices[0]

    def test_a_file_that_is_not_text_is_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "mine.toml").write_bytes(b'dark = "\xff"')
        assert "mine.toml: is not TOML" in load_themes(tmp_path).notices[0]


APP_WITHOUT_COLOUR = """
import os
from textual.app import App
from textual.widgets import Label
from console.domain.logline import LogLine
from console.ui.themes import load_themes, native_colours
from console.ui.widgets.log_pane import LogPane

class Coloured(App):
    CSS = "LogPane { border: round $primary; height: 5; } Label { background: $error; }"
    def compose(self):
        yield LogPane("decode :30001", role="decode")
        yield Label("marked", id="marked")
    def on_mount(self):
        for theme in load_themes().themes:
            self.register_theme(theme)
        self.theme = "dsv4-dark"
        self.query_one(LogPane).extend([LogLine(1, "an error", "error"), LogLine(2, "a warning", "warning")])
        self.set_timer(0.3, self.exit)

Coloured(ansi_color=native_colours(os.environ)).run()
"""


def drawn(environment: dict[str, str]) -> str:
    """What an app writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    env = {**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
    with subprocess.Popen(
        [sys.executable, "-c", APP_WITHOUT_COLOUR],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        cwd=Path(__file__).parents[2],
    ) as app:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
        assert app.wait(timeout=20) == 0
    os.close(ours)
    return written.decode("utf-8", "replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end was closed
        return b""


def colour_codes(written: str) -> set[str]:
    """The parameters of SGR that set a colour: 30-38 and 40-48 (ECMA-48), 90-97 and 100-107 (xterm)."""
    parameters = {each for sgr in re.findall(r"\x1b\[([\d;]*)m", written) for each in sgr.split(";")}
    return {each for each in parameters if re.fullmatch(r"[34][0-8]|9[0-7]|10[0-7]", each)}


class TestNoColour:
    """G07: NO_COLOR is no colour at all, and everything is still told by words and signs."""

    def test_nothing_coloured_reaches_the_terminal(self) -> None:
        written = drawn({"NO_COLOR": "1"})
        assert "✗ " in re.sub(r"\x1b\[[\d;]*m", "", written)
        assert colour_codes(written) == set()

    def test_without_it_there_is_colour(self) -> None:
        assert colour_codes(drawn({})) >= {"38", "48"}
