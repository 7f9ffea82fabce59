"""config.toml: what it may say, and one line for each way in which it can be wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from console import settings as settings_module
from console.domain.errors import SettingsError
from console.settings import HostSettings, Settings, load_settings, shipped_folder

FULL = """
default_host = "ct200"
theme = "paper"

[hosts.ct200]
ssh = "ops@10.0.0.7:2222"
python = "/opt/sglang/bin/python"
interval_s = 2
readonly = true

[hosts."spare box"]
ssh = "spare"
protected = true

[keys]
"pane.gpus" = "f1,1"
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DSV4_CONSOLE_CONFIG", "DSV4_CONSOLE_HOST", "DSV4_CONSOLE_THEME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


class TestLoading:
    def test_everything(self, file: Path) -> None:
        file.write_text(FULL)
        assert load_settings(file) == Settings(
            default_host="ct200",
            theme="paper",
            hosts={
                "ct200": HostSettings(
                    ssh="ops@10.0.0.7:2222", python="/opt/sglang/bin/python", interval_s=2.0, readonly=True
                ),
                "spare box": HostSettings(ssh="spare", protected=True),
            },
            keys={"pane.gpus": "f1,1"},
        )

    def test_without_a_file_the_defaults_hold(self) -> None:
        assert load_settings() == Settings()

    def test_an_empty_file_is_the_defaults(self, file: Path) -> None:
        file.write_bytes(b"\xef\xbb\xbf")
        assert load_settings(file) == Settings()

    def test_the_users_config_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "xdg" / "dsv4-console"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text('theme = "paper"')
        assert load_settings().theme == "paper"

    def test_flag_then_environment_then_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("flag", "environment"):
            (tmp_path / name).write_text(f'theme = "{name}"\ndefault_host = "{name}"')
        monkeypatch.setenv("DSV4_CONSOLE_CONFIG", str(tmp_path / "environment"))
        assert load_settings().theme == "environment"
        assert load_settings(tmp_path / "flag").theme == "flag"
        monkeypatch.setenv("DSV4_CONSOLE_THEME", "paper")
        monkeypatch.setenv("DSV4_CONSOLE_HOST", "ct200")
        both = load_settings(tmp_path / "flag")
        assert (both.theme, both.default_host) == ("paper", "ct200")

    def test_an_empty_variable_is_unset(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file.write_text('theme = "paper"')
        for name in ("CONFIG", "HOST", "THEME"):
            monkeypatch.setenv(f"DSV4_CONSOLE_{name}", "")
        assert load_settings(file) == Settings(theme="paper")

    @pytest.mark.parametrize(
        "ssh", ["ct200", "ops@ct200", "ops@ct200:22", "ct200:65535", "ops@[fe80::1%eth0]:22", "a@b@gateway"]
    )
    def test_ssh_targets(self, ssh: str) -> None:
        assert HostSettings(ssh=ssh).ssh == ssh

    def test_settings_are_frozen(self) -> None:
        with pytest.raises(AttributeError):
            Settings().theme = "paper"  # type: ignore[misc] # that it is refused is the test


def message(file: Path | None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestWrongValues:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("theme = 1", "theme: expected a string, got a whole number"),
            ("hosts = 1", "hosts: expected a table, got a whole number"),
            ("hosts = []", "hosts: expected a table, got an array"),
            ("[hosts]\nct200 = 'x'", "hosts.ct200: expected a table, got a string"),
            ("[hosts.a]\nreadonly = 1", "hosts.a.readonly: expected true or false, got a whole number"),
            ("[hosts.a]\nssh = 1", "hosts.a.ssh: expected a string, got a whole number"),
            ("[hosts.'a b']\nssh = 1", "hosts.'a b'.ssh: expected a string, got a whole number"),
            (
                "[hosts.a]\npython = ' '",
                "hosts.a: python must be the path of a Python on the host, not empty",
            ),
            ("[keys]\nquit = 1", "keys.quit: expected a string, got a whole number"),
        ],
    )
    def test_file_key_and_what_was_expected(self, file: Path, text: str, said: str) -> None:
        file.write_text(text)
        assert message(file) == f"{file}: {said}. Next: correct that key."

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('thene = "x"', "thene: no such setting. Next: write theme."),
            ("[hosts.ct200]\ninterval = 1", "hosts.ct200.interval: no such setting. Next: write interval_s."),
            (
                "xyz = 1",
                "xyz: no such setting. Next: use one of default_host, theme, hosts, keys, log_patterns.",
            ),
            (
                '"a\\nb" = 1',
                "'a\\nb': no such setting. Next: use one of default_host, theme, hosts, keys, log_patterns.",
            ),
        ],
    )
    def test_an_unknown_key_and_the_near_one(self, file: Path, text: str, said: str) -> None:
        file.write_text(text)
        assert message(file) == f"{file}: {said}"

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("theme = ", "at end of document"),
            ("a = 1\n b c", "at line 2, column 4"),
            ("a = 1\na = 2\n", "at line 2, column 6"),
        ],
    )
    def test_not_toml(self, file: Path, text: str, place: str) -> None:
        file.write_text(text)
        said = re.escape(f"{file}: not TOML: ") + ".+" + re.escape(f" ({place}). Next: correct that line.")
        assert re.fullmatch(said, message(file))

    @pytest.mark.parametrize("value", ["0.1", "0", "-1", "10.5", "inf", "nan"])
    def test_interval_out_of_range(self, file: Path, value: str) -> None:
        file.write_text(f"[hosts.a]\ninterval_s = {value}")
        wanted = f"hosts.a: interval_s must be a number of seconds from 0.2 to 10, not {value}"
        assert message(file) == f"{file}: {wanted}. Next: correct that key."

    @pytest.mark.parametrize(
        "ssh", ["", "a b", "-oProxyCommand=x", "ops@", "@a", "a:0", "a:65536", "fe80::1", "a:b"]
    )
    def test_ssh_targets(self, file: Path, ssh: str) -> None:
        file.write_text(f'[hosts.a]\nssh = "{ssh}"')
        wanted = f"hosts.a: ssh must be an ssh_config alias or user@host[:port], not '{ssh}'"
        assert message(file) == f"{file}: {wanted}. Next: correct that key."


class TestUnusableFiles:
    def test_a_named_file_must_exist(self, file: Path) -> None:
        assert message(file) == f"{file}: no such file. Next: create it, or name another with --config."

    def test_so_must_one_named_by_the_environment(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DSV4_CONSOLE_CONFIG", str(file))
        assert message(None).startswith(f"{file}: no such file.")

    def test_a_folder(self, tmp_path: Path) -> None:
        wanted = f"{tmp_path}: a folder, not a file. Next: name the file in it: {tmp_path / 'config.toml'}."
        assert message(tmp_path) == wanted

    def test_not_utf_8(self, file: Path) -> None:
        file.write_bytes(b'theme = "paper"\ndefault_host = "caf\xe9"\n')
        assert message(file) == f"{file}: not UTF-8 at line 2. Next: save the file as UTF-8."

    def test_unreadable(self, file: Path) -> None:
        # A loop, because the superuser may read whatever has no permission bits.
        file.symlink_to(file)
        why = os.strerror(40)
        assert message(file) == f"{file}: cannot be read: {why}. Next: check its owner and permissions."


class TestShippedFolder:
    @pytest.mark.parametrize("name", ["profiles", "themes"])
    def test_in_a_checkout_it_stands_beside_the_package(self, name: str) -> None:
        package = Path(settings_module.__file__).parent
        assert shipped_folder(name) == package.parent / name  # type: ignore[arg-type] # parametrised

    def test_in_a_wheel_it_is_inside_the_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inside = tmp_path / "console" / "_shipped" / "themes"
        inside.mkdir(parents=True)
        monkeypatch.setattr(settings_module, "__file__", str(tmp_path / "console" / "settings.py"))
        assert shipped_folder("themes") == inside
