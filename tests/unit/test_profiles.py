"""Profile files: the shipped ones, inheritance, variables, and one line for each way to be wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.domain.errors import ProfileError
from console.domain.profile import Profile, expectation, server_environment, server_flags
from console.domain.version import allows
from console.profiles import Folders, load_profile, load_profiles
from console.settings import shipped_folder

SHIPPED = Folders(shipped_folder("profiles"))

MINIMAL = """
title = "One"
why = "To test."
source = "Here."
kind = "single"
model = "/models/m"
[servers.single]
gpus = [0, 1]
port = 30000
nccl_port = 31000
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DSV4_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path / "shipped", tmp_path / "user")
    for folder in made:
        assert folder
        folder.mkdir()
    (made.shipped / "one.toml").write_text(MINIMAL)
    return made


def user_file(folders: Folders, name: str, text: str) -> Path:
    assert folders.user
    file = folders.user / f"{name}.toml"
    file.write_text(text)
    return file


def load(folders: Folders, text: str) -> Profile:
    user_file(folders, "mine", text)
    return load_profile("mine", folders)


def refusal(folders: Folders, text: str) -> str:
    """What is said of the user's file, after its path."""
    file = user_file(folders, "mine", text)
    with pytest.raises(ProfileError) as caught:
        load_profile("mine", folders)
    said = str(caught.value)
    assert said.startswith(f"{file}: ")
    assert caught.value.next_step
    assert "\n" not in said
    return said.removeprefix(f"{file}: ")


@pytest.fixture(scope="module")
def shipped() -> dict[str, Profile]:
    return load_profiles(SHIPPED).profiles


class TestShipped:
    def test_none_is_refused(self) -> None:
        assert load_profiles(SHIPPED).errors == ()

    def test_what_there_is(self, shipped: dict[str, Profile]) -> None:
        kinds = {name: profile.kind for name, profile in shipped.items()}
        pairs = "pd-untuned pd-ll pd-ll128 pd-simple pd-nvfp4 pd-nvfp4-serial pd-mtp cpu-pd"
        pairs += " demo-pd demo-ll demo-broken-flag demo-oom"
        singles = "tp4-untuned tp4-ll tp4-ll-mem70 tp8 tp4-ep4 cpu-single demo-single demo-tp8"
        assert kinds == {
            **dict.fromkeys(pairs.split(), "pd"),
            **dict.fromkeys(singles.split(), "single"),
            **dict.fromkeys(["tp2-x2", "tp2-x4"], "replicas"),
        }

    def test_titles_and_reasons_are_their_own(self, shipped: dict[str, Profile]) -> None:
        assert len({profile.title for profile in shipped.values()}) == len(shipped)
        assert len({profile.why for profile in shipped.values()}) == len(shipped)
        assert all(profile.source for profile in shipped.values())

    def test_the_nccl_block_is_all_that_tells_tuned_from_untuned(self, shipped: dict[str, Profile]) -> None:
        untuned, tuned = shipped["tp4-untuned"], shipped["tp4-ll"]
        assert tuned.flags == untuned.flags
        assert tuned.servers == untuned.servers
        added = {name: tuned.environment[name] for name in set(tuned.environment) - set(untuned.environment)}
        assert added == {
            "NCCL_IB_DISABLE": 1,
            "NCCL_P2P_LEVEL": 5,
            "NCCL_MIN_NCHANNELS": 8,
            "NCCL_MAX_NCHANNELS": 16,
            "NCCL_PROTO": "LL",
            "NCCL_ALGO": "Ring",
            "NCCL_BUFFSIZE": 16777216,
            "NCCL_NTHREADS": 512,
            "NCCL_DEBUG": "INFO",
        }

    def test_the_tuned_single_server_is_the_operators(self, shipped: dict[str, Profile]) -> None:
        profile = shipped["tp4-ll"]
        (server,) = profile.servers
        flags = server_flags(profile, server)
        environment = server_environment(profile, server)
        assert (server.port, server.gpus) == (30000, (0, 1, 2, 3))
        assert flags["moe-runner-backend"] == "marlin"
        assert flags["mem-fraction-static"] == 0.85
        assert flags["cuda-graph-max-bs-decode"] == 32
        assert flags["num-continuous-decode-steps"] == 4
        assert environment["OMP_NUM_THREADS"] == "8"
        assert environment["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
        assert environment["SGLANG_DSV4_FP4_EXPERTS"] == "1"
        assert environment["CUDA_HOME"] == "/usr/local/cuda-13.0"
        assert profile.bench.targets == {16: 1000}

    @pytest.mark.parametrize(
        ("name", "variable", "value"),
        [
            ("pd-ll", "NCCL_PROTO", "LL"),
            ("pd-ll128", "NCCL_PROTO", "LL128"),
            ("pd-simple", "NCCL_PROTO", "Simple"),
            ("pd-untuned", "NCCL_PROTO", None),
            ("pd-nvfp4-serial", "SGLANG_OPT_USE_MULTI_STREAM_OVERLAP", "0"),
            ("pd-nvfp4", "SGLANG_OPT_USE_MULTI_STREAM_OVERLAP", None),
            ("pd-nvfp4", "SGLANG_DSV4_FP4_EXPERTS", None),
        ],
    )
    def test_what_makes_the_difference(
        self, shipped: dict[str, Profile], name: str, variable: str, value: str | None
    ) -> None:
        profile = shipped[name]
        for server in profile.servers:
            assert server_environment(profile, server).get(variable) == value

    def test_a_protocol_that_is_asked_for_must_show_in_the_log(self, shipped: dict[str, Profile]) -> None:
        for name in ("tp4-ll", "tp8", "pd-ll", "pd-ll128", "pd-simple", "pd-nvfp4", "pd-mtp"):
            profile = shipped[name]
            expected = f"NCCL_PROTO set by environment to {profile.environment['NCCL_PROTO']}"
            for server in profile.servers:
                assert expected in expectation(profile, server).log

    def test_only_what_decodes_must_have_captured_decode_graphs(self, shipped: dict[str, Profile]) -> None:
        profile = shipped["pd-ll"]
        graphs = {server.role: expectation(profile, server).largest_graph for server in profile.servers}
        assert graphs == {"prefill": None, "decode": 32}

    def test_experiments_say_how_they_fail(self, shipped: dict[str, Profile]) -> None:
        assert {name for name, profile in shipped.items() if profile.known_failure} == {
            *("tp4-ep4", "pd-ll128"),
            *("demo-broken-flag", "demo-oom"),
        }

    def test_versions(self, shipped: dict[str, Profile]) -> None:
        assert allows(shipped["pd-ll"].requires, "0.5.12") is False
        assert allows(shipped["pd-ll"].requires, "0.5.15") is True
        assert allows(shipped["tp2-x4"].requires, "0.5.15") is False
        assert allows(shipped["cpu-pd"].requires, "0.5.15.post1") is True

    def test_paths_move_with_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DSV4_REALSTACK", "/srv/stack")
        profile = load_profile("cpu-pd", SHIPPED)
        assert profile.python == "/srv/stack/venv/bin/python"
        assert profile.model == "/srv/stack/model"
        assert profile.environment["PYTHONPATH"] == "/srv/stack/shims"

    def test_a_users_base_moves_the_paths_of_all(self, folders: Folders) -> None:
        user_file(folders, "_flash", 'extends = "_flash"\n[variables]\nDSV4_MODELS = "/data"')
        mine = load_profiles(Folders(SHIPPED.shipped, folders.user))
        assert mine.errors == ()
        assert mine.profiles["tp4-ll"].model == "/data/DeepSeek-V4-Flash"
        assert mine.profiles["pd-nvfp4"].model == "/data/DeepSeek-V4-Flash-NVFP4"


class TestExtending:
    def test_tables_merge_and_the_rest_is_replaced(self, folders: Folders) -> None:
        profile = load(
            folders,
            """
            extends = "one"
            title = "Mine"
            [flags]
            page-size = 64
            [servers.single]
            gpus = [4]
            """,
        )
        (server,) = profile.servers
        assert (profile.name, profile.title, profile.why) == ("mine", "Mine", "To test.")
        assert (server.gpus, server.port) == ((4,), 30000)
        assert profile.flags == {"page-size": 64}

    def test_false_takes_back(self, folders: Folders) -> None:
        user_file(
            folders,
            "below",
            """
            extends = "one"
            [flags]
            enable-metrics = true
            page-size = 64
            [environment]
            A = "a"
            B = "b"
            [servers.single.flags]
            page-size = false
            """,
        )
        profile = load(
            folders,
            """
            extends = "below"
            [flags]
            enable-metrics = false
            [servers.single.environment]
            A = false
            B = 2
            """,
        )
        (server,) = profile.servers
        assert server_flags(profile, server) == {}
        assert server_environment(profile, server) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "B": "2"}

    def test_of_several_the_later_goes_first_and_a_shared_one_counts_once(self, folders: Folders) -> None:
        user_file(folders, "_a", 'extends = "one"\ntitle = "A"\n[flags]\nx = "a"')
        user_file(folders, "_b", 'extends = "one"\n[flags]\nx = "b"')
        profile = load(folders, 'extends = ["_a", "_b"]')
        assert profile.title == "A"
        assert profile.flags == {"x": "b"}

    def test_a_users_file_replaces_a_shipped_one_also_for_those_that_extend_it(
        self, folders: Folders
    ) -> None:
        (folders.shipped / "two.toml").write_text('extends = "one"\n[flags]\ny = 1')
        user_file(folders, "one", 'extends = "one"\ntitle = "Mine"')
        got = load_profiles(folders)
        assert got.errors == ()
        assert {name: profile.title for name, profile in got.profiles.items()} == {
            "one": "Mine",
            "two": "Mine",
        }

    def test_a_base_is_not_a_profile(self, folders: Folders) -> None:
        user_file(folders, "_base", "[flags]\nx = 1")
        assert set(load_profiles(folders).profiles) == {"one"}

    def test_a_file_anywhere_extends_by_name(self, folders: Folders, tmp_path: Path) -> None:
        file = tmp_path / "elsewhere.toml"
        file.write_text('extends = "one"\ntitle = "There"')
        profile = load_profile(str(file), folders)
        assert (profile.name, profile.title, profile.file) == ("elsewhere", "There", str(file))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                'extends = "on"',
                "extends: no profile 'on'. Next: write one.",
            ),
            (
                'extends = "mine"',
                "extends: no profile 'mine'. Next: use one of one.",
            ),
            ("extends = 3", "extends: expected the name of a profile, or an array of names"),
            ("extends = [3]", "extends: expected the name of a profile, or an array of names"),
        ],
    )
    def test_what_cannot_be_extended(self, folders: Folders, text: str, said: str) -> None:
        assert refusal(folders, text).startswith(said)

    def test_a_circle(self, folders: Folders) -> None:
        user_file(folders, "other", 'extends = "mine"')
        assert refusal(folders, 'extends = "other"') == (
            "extends: comes back to this file. Next: break the circle."
        )


class TestVariables:
    def test_forms(self, folders: Folders) -> None:
        profile = load(
            folders,
            """
            extends = "one"
            model = "${ROOT}/m$$1"
            why = "Costs $5."
            [flags]
            paths = ["$ROOT", "x"]
            [environment]
            P = "$ROOT:$ROOT_2"
            [variables]
            ROOT = "/r"
            ROOT_2 = "/r2"
            """,
        )
        assert profile.model == "/r/m$1"
        assert profile.why == "Costs $5."
        assert profile.flags == {"paths": ("/r", "x")}
        assert profile.environment == {"P": "/r:/r2"}

    def test_the_environment_gives_only_names_of_ours(
        self, folders: Folders, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DSV4_MODELS", "/theirs")
        monkeypatch.setenv("ROOT", "/not/this")
        text = 'extends = "one"\nmodel = "$DSV4_MODELS$ROOT"\n[variables]\nDSV4_MODELS = "/m"\nROOT = "/r"'
        assert load(folders, text).model == "/theirs/r"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('model = "$HOME/m"', "model: no variable $HOME. Next: give it in [variables]."),
            (
                'model = "$DSV4_X"',
                "model: no variable $DSV4_X. Next: give it in [variables], "
                "or set DSV4_X in the console's environment.",
            ),
            ('model = "a$"', "model: no variable $. Next: write $$ for a dollar."),
            ('[flags]\na-b = ["$X"]', "flags.a-b: no variable $X. Next: give it in [variables]."),
            ("[variables]\nX = 1", "variables.X: expected a string, got a whole number"),
            ("variables = 1", "variables: expected a table, got a whole number"),
        ],
    )
    def test_what_is_missing(self, folders: Folders, text: str, said: str) -> None:
        assert refusal(folders, f'extends = "one"\n{text}').startswith(said)


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("titel = 'x'", "titel: no such key. Next: write title."),
            ("name = 'x'", "name: follows from the name of the file or table. Next: leave it out."),
            ("file = 'x'", "file: follows from the name of the file or table. Next: leave it out."),
            ("title = 1", "title: expected a string, got a whole number"),
            ("kind = 'triple'", "kind: expected single, pd, replicas, not 'triple'"),
            ("requires = '0.5.15'", "requires: expected versions such as >=0.5.12,<0.5.24, not '0.5.15'"),
            ("router = 1", "router: expected a table, got a whole number"),
            ("flags = 1", "flags: expected a table, got a whole number"),
            ("[flags]\na = {}", "flags.a: expected true or false, a whole number, a number, a string or"),
            ("[environment]\nA = 1.5", "environment.A: expected true or false, a whole number or a string"),
            ("[environment]\nA = []", "environment.A: expected true or false, a whole number or a string"),
            ("[environment]\nA = true", "environment.A: expected a string or a whole number"),
            ('[environment]\nA = "a\\u0000"', "environment.A: holds control characters"),
            ('[environment]\nA = "\\u001b[2J"', "environment.A: holds control characters"),
            ('title = "\\u202e"', "title: holds control characters"),
            ("[environment]\n'A B' = 1", "environment.A B: not the name of an environment variable"),
            ("[limits]\nstall_s = 0", "limits.stall_s: expected a number > 0.0"),
            ("[limits]\nceiling = 1", "limits.ceiling: no such key. Next: write ceiling_s."),
            ("[limits]\nceiling_s = 10", "limits.stall_s: longer than limits.ceiling_s"),
            ("[bench]\nconcurrency = [0]", "bench.concurrency.0: expected a whole number >= 1"),
            ("[bench.targets]\nx = 1", "bench.targets: expected a whole number, got a string"),
            ("[expect]\nlog = 'x'", "expect.log: expected an array, got a string"),
            ("[expect.server_info]\na = {}", "expect.server_info.a: expected true or false, a whole number"),
            ("[servers]\nsingle = 1", "servers.single: expected a table, got a whole number"),
            ("[servers.single]\nport = 0", "servers.single.port: expected a whole number >= 1"),
            ("[servers.single]\nport = 65536", "servers.single.port: expected a whole number <= 65535"),
            ("[servers.single]\nport = '1'", "servers.single.port: expected a whole number, got a string"),
            ("[servers.single]\nprot = 1", "servers.single.prot: no such key. Next: write port."),
            ("[servers.single]\nname = 'x'", "servers.single.name: follows from the name of the file or"),
            ("[servers.single]\ngpus = [1, 0]", "servers.single.gpus: must ascend in even steps"),
            ("[servers.single]\ngpus = [0, 0]", "servers.single.gpus: GPU 0 is used twice"),
            ("[servers.single.flags]\na = {}", "servers.single.flags.a: expected true or false"),
            (
                "[servers.single.expect]\nlogs = []",
                "servers.single.expect.logs: no such key. Next: write log",
            ),
            (
                "[servers.Big]\nport = 1\nnccl_port = 2",
                "servers: a single profile has one, not 2; servers.Big",
            ),
            ("[servers.two]\nport = 1", "servers.two.nccl_port: missing"),
        ],
    )
    def test_with_file_key_and_reason(self, folders: Folders, text: str, said: str) -> None:
        assert refusal(folders, f'extends = "one"\n{text}').startswith(said)

    def test_what_is_missing(self, folders: Folders) -> None:
        assert refusal(folders, "").startswith("title: missing")
        assert refusal(folders, MINIMAL[: MINIMAL.index("[servers")]).startswith("servers:")

    def test_the_file_that_is_named_is_the_one_that_is_wrong(self, folders: Folders) -> None:
        below = user_file(folders, "below", 'extends = "one"\n[servers.single]\nport = 0')
        user_file(folders, "above", 'extends = "below"\n[servers.single]\nnccl_port = 5')
        with pytest.raises(ProfileError) as caught:
            load_profile("above", folders)
        assert caught.value.where == str(below)

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"kind = ", "not TOML: Invalid value"),
            (b"\xff", "not TOML: 'utf-8' codec can't decode"),
            (b"a = " + b"[" * 5000, "not TOML: "),
        ],
    )
    def test_what_is_no_toml(self, folders: Folders, data: bytes, said: str) -> None:
        assert folders.user
        file = folders.user / "mine.toml"
        file.write_bytes(data)
        with pytest.raises(ProfileError) as caught:
            load_profile("mine", folders)
        assert str(caught.value).startswith(f"{file}: {said}")

    def test_what_cannot_be_read(self, folders: Folders) -> None:
        assert folders.user
        (folders.user / "gone.toml").symlink_to("nowhere")
        (folders.user / "folder.toml").mkdir()
        said = [str(error) for error in load_profiles(folders).errors]
        assert said == [
            f"{folders.user / 'folder.toml'}: cannot be read: Is a directory",
            f"{folders.user / 'gone.toml'}: cannot be read: No such file or directory",
        ]

    def test_an_unknown_name(self, folders: Folders) -> None:
        with pytest.raises(ProfileError, match=r"^no profile 'onne'\. Next: write one\.$"):
            load_profile("onne", folders)

    def test_a_name_with_control_characters(self, folders: Folders) -> None:
        user_file(folders, "a\nb", MINIMAL)
        (error,) = load_profiles(folders).errors
        assert "\n" not in str(error)


class TestAll:
    def test_a_broken_file_never_falls_back_to_the_shipped_one(self, folders: Folders) -> None:
        (folders.shipped / "two.toml").write_text('extends = "one"')
        (folders.shipped / "three.toml").write_text(MINIMAL)
        file = user_file(folders, "one", 'extends = "one"\nkind = 1')
        got = load_profiles(folders)
        assert list(got.profiles) == ["three"]
        assert [error.where for error in got.errors] == [str(file), str(file)]

    def test_no_folder_of_the_users(self, folders: Folders, tmp_path: Path) -> None:
        for user in (None, tmp_path / "nowhere"):
            assert set(load_profiles(Folders(folders.shipped, user)).profiles) == {"one"}

    def test_a_folder_that_cannot_be_listed_is_told(self, folders: Folders, tmp_path: Path) -> None:
        user = tmp_path / "file"
        user.touch()
        got = load_profiles(Folders(folders.shipped, user))
        assert set(got.profiles) == {"one"}
        assert [str(error) for error in got.errors] == [f"{user}: cannot be listed: Not a directory"]

    def test_any_printable_name_will_do(self, folders: Folders) -> None:
        user_file(folders, "本番-デコード🚀", MINIMAL)
        assert load_profile("本番-デコード🚀", folders).name == "本番-デコード🚀"
