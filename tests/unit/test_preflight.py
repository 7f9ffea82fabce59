"""What a plan is told before it touches anything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.domain.host_facts import (
    FlagCheck,
    FlagChecks,
    GpuFact,
    GpuHolder,
    Holders,
    HostFacts,
    PortFact,
    ProcessFact,
    PythonFact,
)
from console.domain.launch import launches
from console.domain.plan import Target
from console.domain.preflight import Check, judge, paths_of, refused
from console.domain.profile import Profile
from console.profiles import Folders, load_profile
from console.settings import shipped_folder

SHIPPED = Folders(shipped_folder("profiles"))
PYTHON = "/opt/sglang/bin/python"
MODEL = "/models/DeepSeek-V4-Flash"
NOW = 1_796_000_000.0
PACKAGES = {"sglang": "0.5.15", "sglang-router": "0.3.2", "nixl": "1.3.0", "torch": "2.9.1"}
FACTS = HostFacts(
    user="ops",
    state_folder="/home/ops/.local/state/dsv4-console",
    paths={MODEL: "folder"},
    pythons={PYTHON: PythonFact(path=PYTHON, usable=True, version="3.12.3", packages=PACKAGES)},
    driver="580.95.05",
    mem_available_mib=900_000.0,
    shm_free_mib=64_000.0,
    disk_free_mib={"/home/ops/.local/state/dsv4-console": 500_000.0},
)
FREE = Holders(gpus=tuple(GpuFact(index=index, mem_used_mib=620.0) for index in range(8)))
FLAGS = FlagChecks(lines=(FlagCheck(), FlagCheck()))
ALICE = ProcessFact(pid=52044, start_ticks=7, name="sglang::scheduler_TP0", user="alice")
DECODE = Target(
    name="decode :30001",
    role="decode",
    run="old-decode",
    pids=(700, 701),
    port=30001,
    ports=(30001, 31001),
    gpus=(4, 5, 6, 7),
)


@pytest.fixture(scope="module")
def pair() -> Profile:
    return load_profile("pd-ll", SHIPPED)


def look(
    profile: Profile,
    facts: HostFacts = FACTS,
    holders: Holders = FREE,
    flags: FlagChecks = FLAGS,
    ending: tuple[Target, ...] = (),
    version: str | None = "0.5.15",
) -> tuple[Check, ...]:
    return judge(profile, launches(profile, PYTHON, version), facts, holders, flags, ending, now=NOW)


def facts(**changes: Any) -> HostFacts:
    return msgspec.structs.replace(FACTS, **changes)


def of(checks: tuple[Check, ...], subject: str) -> Check:
    """The one check of the subject."""
    (found,) = (check for check in checks if check.subject == subject)
    return found


def outcomes(checks: tuple[Check, ...], subject: str) -> list[str]:
    return [check.outcome for check in checks if check.subject == subject]


def wrong(checks: tuple[Check, ...]) -> list[str]:
    """The subjects that are not well."""
    return [check.subject for check in checks if check.outcome != "ok"]


class TestAHostThatIsReady:
    def test_says_what_was_looked_at(self, pair: Profile) -> None:
        checks = look(pair)
        assert refused(checks) == ()
        said = [(check.subject, check.sentence) for check in checks if check.outcome == "ok"]
        assert ("profile", "pd-ll contradicts itself nowhere, and both roles agree") in said
        assert ("sglang", f"SGLang 0.5.15 in {PYTHON}") in said
        assert ("nixl", "nixl 1.3.0") in said
        assert ("model", f"{MODEL} is there") in said
        assert ("driver", "580.95.05, 8 GPUs") in said
        assert ("GPUs", "0, 1, 2, 3, 4, 5, 6, 7 are free") in said
        assert ("ports", "8000, 8998, 29000, 30000, 30001, 31000, 31001 are free") in said
        assert ("memory", "878.9 GiB available") in said

    def test_every_refusal_says_what_to_do(self, pair: Profile) -> None:
        bad = facts(
            pythons={}, paths={}, sudo="a password is required", kills_on_logout=True, disk_free_mib={}
        )
        found = refused(look(pair, bad, Holders(gpu_note="no driver"), FlagChecks(note="no")))
        assert len(found) >= 4
        assert all(check.next for check in found)

    def test_a_profile_on_the_cpu_asks_for_no_gpu(self) -> None:
        checks = look(load_profile("cpu-pd", SHIPPED), holders=Holders(gpu_note="no driver"))
        assert not {"GPUs", "driver", "/dev/shm"} & {check.subject for check in checks}

    def test_an_experimental_profile_is_announced(self) -> None:
        checks = look(load_profile("pd-ll128", SHIPPED))
        assert "experimental: NCCL does not choose LL128" in next(
            check.sentence for check in checks if check.outcome == "warning" and check.subject == "profile"
        )


class TestPython:
    @pytest.mark.parametrize("pythons", [{}, {PYTHON: PythonFact(path=PYTHON, usable=False)}])
    def test_that_cannot_be_run(self, pair: Profile, pythons: dict[str, PythonFact]) -> None:
        checks = look(pair, facts(pythons=pythons), flags=FlagChecks(note="no such file"))
        assert of(checks, "python").sentence == f"{PYTHON} cannot be run on the host"
        # One cause, one refusal: its parser could not be asked either.
        assert [check.subject for check in refused(checks)] == ["python"]

    def test_the_one_of_the_profile_goes_before_the_hosts(self) -> None:
        checks = look(load_profile("cpu-single", SHIPPED))
        assert "/venv/bin/python cannot be run" in of(checks, "python").sentence

    @pytest.mark.parametrize("package", ["sglang", "sglang-router", "nixl"])
    def test_without_a_package(self, pair: Profile, package: str) -> None:
        packages = {name: version for name, version in PACKAGES.items() if name != package}
        python = PythonFact(path=PYTHON, usable=True, packages=packages)
        check = of(look(pair, facts(pythons={PYTHON: python})), package)
        assert check.outcome == "refused"
        assert check.next == f"{PYTHON} -m pip install {package}"

    @pytest.mark.parametrize(("name", "package"), [("nixl-cu12", "nixl"), ("sglang_router", "sglang-router")])
    def test_a_package_under_its_other_name(self, pair: Profile, name: str, package: str) -> None:
        packages = {each: version for each, version in PACKAGES.items() if each != package} | {name: "1.4.0"}
        python = PythonFact(path=PYTHON, usable=True, packages=packages)
        assert of(look(pair, facts(pythons={PYTHON: python})), package).sentence == f"{package} 1.4.0"

    def test_a_single_server_needs_neither_router_nor_nixl(self) -> None:
        python = PythonFact(path=PYTHON, usable=True, packages={"sglang": "0.5.15"})
        checks = look(load_profile("tp4-ll", SHIPPED), facts(pythons={PYTHON: python}))
        assert refused(checks) == ()

    @pytest.mark.parametrize(
        ("version", "outcome"),
        [("0.5.12", "refused"), ("0.5.13", "ok"), ("0.5.23+cu130", "ok"), ("0.0.0", "warning")],
    )
    def test_the_version_that_the_profile_is_for(self, pair: Profile, version: str, outcome: str) -> None:
        python = PythonFact(path=PYTHON, usable=True, packages=PACKAGES | {"sglang": version})
        check = of(look(pair, facts(pythons={PYTHON: python})), "sglang")
        assert check.outcome == outcome
        assert version in check.sentence

    def test_a_profile_for_any_version_takes_one_that_has_no_number(self, pair: Profile) -> None:
        python = PythonFact(path=PYTHON, usable=True, packages=PACKAGES | {"sglang": "0.0.0.dev1"})
        profile = msgspec.structs.replace(pair, requires="")
        assert of(look(profile, facts(pythons={PYTHON: python})), "sglang").outcome == "ok"

    def test_a_pair_that_moves_kv_by_mooncake_needs_no_nixl(self, pair: Profile) -> None:
        flags = {**pair.flags, "disaggregation-transfer-backend": "mooncake"}
        checks = look(msgspec.structs.replace(pair, flags=flags))
        assert outcomes(checks, "nixl") == []


class TestFlags:
    def test_refused_in_the_parsers_own_words(self, pair: Profile) -> None:
        words = "ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode"
        checks = look(pair, flags=FlagChecks(lines=(FlagCheck(), FlagCheck(refused=words))))
        check = next(check for check in refused(checks))
        assert (check.subject, check.sentence) == ("flags of decode", words)

    def test_taken_by_both_is_said_once(self, pair: Profile) -> None:
        assert outcomes(look(pair), "flags of prefill and decode").count("ok") == 1

    def test_a_warning_of_the_parser(self, pair: Profile) -> None:
        checks = look(pair, flags=FlagChecks(lines=(FlagCheck(warnings=("--x is deprecated",)), FlagCheck())))
        assert of(checks, "flags of prefill").sentence == "--x is deprecated"

    def test_a_line_for_the_router_counts_too(self, pair: Profile) -> None:
        lines = (FlagCheck(), FlagCheck(), FlagCheck(refused="unrecognized arguments: --polcy"))
        assert refused(look(pair, flags=FlagChecks(lines=lines)))[0].subject == "flags of router"

    @pytest.mark.parametrize("lines", [(), (FlagCheck(),)])
    def test_that_could_not_be_parsed_forbid_the_plan(
        self, pair: Profile, lines: tuple[FlagCheck, ...]
    ) -> None:
        check = of(look(pair, flags=FlagChecks(lines=lines, note="No module named 'torch'")), "flags")
        assert check.outcome == "refused"
        assert check.sentence == "cannot be checked: No module named 'torch'"
        assert check.next

    def test_that_do_nothing_or_are_left_out(self) -> None:
        profile = load_profile("tp4-ll", SHIPPED)
        old = {**profile.flags, "enable-nan-detection": True, "cuda-graph-max-bs": 16}
        del old["cuda-graph-max-bs-decode"]
        checks = look(
            msgspec.structs.replace(profile, flags=old),
            flags=FlagChecks(lines=(FlagCheck(),)),
            version="0.5.23",
        )
        said = {check.sentence.split(":")[0]: check.outcome for check in checks if "flags" in check.subject}
        assert said["--num-continuous-decode-steps is accepted, but nothing reads it"] == "warning"
        assert said["--enable-nan-detection is gone since 0.5.13"] == "warning"
        assert said["--cuda-graph-max-bs is called --cuda-graph-max-bs-decode on this version"] == "ok"


class TestPaths:
    @pytest.mark.parametrize(
        ("found", "said"),
        [("missing", "is not there"), ("denied", "may not be read"), ("file", "is a file, not a folder")],
    )
    def test_the_model_must_be_there(self, pair: Profile, found: Any, said: str) -> None:
        check = of(look(pair, facts(paths={MODEL: found})), "model")
        assert (check.outcome, check.sentence) == ("refused", f"{MODEL} {said}")

    def test_nobody_looked(self, pair: Profile) -> None:
        assert of(look(pair, facts(paths={})), "model").outcome == "refused"

    @pytest.mark.parametrize(
        ("model", "outcome"),
        [
            ("deepseek-ai/DeepSeek-V4-Flash", "warning"),
            ("~/models/flash", "refused"),
            ("./flash", "refused"),
            ("/models/flash.gguf", "ok"),
        ],
    )
    def test_other_ways_to_name_a_model(self, pair: Profile, model: str, outcome: str) -> None:
        profile = msgspec.structs.replace(pair, model=model)
        assert of(look(profile, facts(paths={"/models/flash.gguf": "file"})), "model").outcome == outcome

    def test_those_of_environment_and_flags(self, pair: Profile) -> None:
        profile = msgspec.structs.replace(
            pair,
            environment={
                "PYTHONPATH": "/srv/shims:/srv/more",
                "CUDA_HOME": "/srv/cuda",
                "PATH": "/nowhere",
                "HTTP_PROXY": "http://proxy:3128",
            },
            flags={
                **pair.flags,
                "speculative-draft-model-path": "/srv/draft",
                "chat-template": "/srv/chat.jinja",
                "health-check-endpoint": "/health",
            },
        )
        wanted = ("/srv/shims", "/srv/more", "/srv/cuda", "/srv/draft", "/srv/chat.jinja")
        assert paths_of(profile) == (MODEL, *wanted)
        checks = look(profile, facts(paths={MODEL: "folder", **dict.fromkeys(wanted, "missing")}))
        assert outcomes(checks, "PYTHONPATH") == ["warning", "warning"]
        assert outcomes(checks, "CUDA_HOME") == ["warning"]
        assert outcomes(checks, "chat-template") == ["warning"]
        assert outcomes(checks, "speculative-draft-model-path") == ["refused"]

    def test_one_path_under_two_names_is_told_once(self, pair: Profile) -> None:
        profile = msgspec.structs.replace(pair, environment={"CUDA_HOME": "/c", "CUDA_PATH": "/c"})
        check = of(look(profile, facts(paths={MODEL: "folder", "/c": "missing"})), "CUDA_HOME")
        assert check.sentence == "/c is not there; CUDA_HOME and CUDA_PATH name it"

    @pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V4-Flash", "~/m"])
    def test_a_model_that_is_no_path_is_not_asked_for(self, pair: Profile, model: str) -> None:
        assert model not in paths_of(msgspec.structs.replace(pair, model=model))


def gpus(*held: GpuFact) -> Holders:
    """Eight GPUs, some of them as given."""
    known = {gpu.index: gpu for gpu in (*FREE.gpus, *held)}
    return Holders(gpus=tuple(known.values()))


class TestGpus:
    def test_that_are_not_there(self, pair: Profile) -> None:
        checks = look(pair, holders=Holders(gpus=FREE.gpus[:4]))
        assert [check.subject for check in refused(checks)] == ["GPU 4", "GPU 5", "GPU 6", "GPU 7"]
        assert of(checks, "GPU 7").sentence == "there is none; the host has 0, 1, 2, 3"
        assert of(checks, "GPUs").sentence == "0, 1, 2, 3 are free"

    def test_that_cannot_be_read(self, pair: Profile) -> None:
        check = of(look(pair, holders=Holders(gpu_note="Driver/library version mismatch")), "GPUs")
        assert (check.outcome, check.sentence) == (
            "refused",
            "none can be read: Driver/library version mismatch",
        )

    def test_one_that_is_lost(self, pair: Profile) -> None:
        check = of(look(pair, holders=gpus(GpuFact(index=3, note="GPU is lost"))), "GPU 3")
        assert (check.outcome, check.sentence) == ("refused", "cannot be used: GPU is lost")

    def test_one_that_somebody_else_holds(self, pair: Profile) -> None:
        held = GpuFact(
            index=4, mem_used_mib=101_700.0, holders=(GpuHolder(process=ALICE, mem_mib=101_044.0),)
        )
        check = of(look(pair, holders=gpus(held)), "GPU 4")
        assert check.outcome == "refused"
        assert check.sentence == "GPU 4 is held by pid 52044 (sglang::scheduler_TP0, user alice, 101,044 MiB)"

    def test_one_of_a_neighbour_that_is_not_wanted(self) -> None:
        held = GpuFact(index=7, holders=(GpuHolder(process=ALICE, mem_mib=90_000.0),))
        assert refused(look(load_profile("tp4-ll", SHIPPED), holders=gpus(held))) == ()

    def test_what_the_plan_ends_first_is_as_good_as_gone(self, pair: Profile) -> None:
        mine = ProcessFact(pid=701, start_ticks=9, name="sglang::scheduler_TP0", user="ops")
        forked = ProcessFact(pid=999, start_ticks=9, name="sglang::scheduler_TP1", run="old-decode")
        held = [
            GpuFact(index=4, holders=(GpuHolder(process=mine, mem_mib=90_000.0),)),
            GpuFact(index=5, holders=(GpuHolder(process=forked, mem_mib=90_000.0),)),
        ]
        checks = look(pair, holders=gpus(*held), ending=(DECODE,))
        assert refused(checks) == ()
        said = [check.sentence for check in checks if check.subject == "GPUs"]
        assert said == ["0, 1, 2, 3, 6, 7 are free", "4, 5: free once decode :30001 has ended"]

    def test_an_orphan_of_ours_is_named_with_its_run(self, pair: Profile) -> None:
        """Case C02: its parent is gone, its memory is not."""
        orphan = ProcessFact(
            pid=41931, start_ticks=5, name="sglang::scheduler_TP0", user="ops", run="r1-decode"
        )
        held = GpuFact(index=0, holders=(GpuHolder(process=orphan, mem_mib=100_998.0),))
        check = of(look(pair, holders=gpus(held)), "GPU 0")
        assert "run r1-decode, 100,998 MiB" in check.sentence
        assert check.next == "it is left over from run r1-decode: stop that first"

    def test_one_that_hangs_in_the_driver(self, pair: Profile) -> None:
        """Case C07: no signal ends it."""
        stuck = msgspec.structs.replace(ALICE, state="R", waits_in="uvm_spin_loop [nvidia_uvm]")
        held = gpus(GpuFact(index=4, holders=(GpuHolder(process=stuck, mem_mib=10_151.0),)))
        check = of(look(pair, holders=held), "GPU 4")
        assert (check.outcome, check.next) == ("refused", "reset the GPU or reboot the host")
        assert "hangs in the driver (uvm_spin_loop [nvidia_uvm])" in check.sentence
        ending = msgspec.structs.replace(DECODE, pids=(stuck.pid,))
        assert of(look(pair, holders=held, ending=(ending,)), "GPU 4").outcome == "warning"

    @pytest.mark.parametrize(
        ("name", "mem", "outcome"),
        [
            ("/usr/lib/xorg/Xorg", 61.0, "warning"),
            ("Xorg", 900.0, "refused"),
            ("Xorg", None, "refused"),
            ("python3 train.py", 61.0, "refused"),
        ],
    )
    def test_a_desktop_is_small(self, pair: Profile, name: str, mem: float | None, outcome: str) -> None:
        process = ProcessFact(pid=9, start_ticks=1, name=name)
        held = gpus(GpuFact(index=0, holders=(GpuHolder(process=process, mem_mib=mem),)))
        assert of(look(pair, holders=held), "GPU 0").outcome == outcome

    def test_memory_that_nobody_to_be_seen_holds(self, pair: Profile) -> None:
        held = gpus(GpuFact(index=4, mem_used_mib=101_044.0))
        check = of(look(pair, holders=held), "GPU 4")
        assert check.outcome == "refused"
        assert "101,044 MiB in use that no process to be seen holds" in check.sentence
        # In a container the driver shows no process: what a target asked for counts as its own.
        assert refused(look(pair, holders=held, ending=(DECODE,))) == ()

    def test_a_process_that_is_gone_holds_what_is_still_in_use(self, pair: Profile) -> None:
        """The driver's list may be older than its figure of the memory in use."""
        gone = ProcessFact(pid=9, start_ticks=0, name="gone from /proc", state="X")
        listed = GpuFact(index=4, mem_used_mib=600.0, holders=(GpuHolder(process=gone, mem_mib=70_708.0),))
        assert refused(look(pair, holders=gpus(listed))) == ()
        held = msgspec.structs.replace(listed, mem_used_mib=70_708.0)
        assert "no process to be seen holds" in of(look(pair, holders=gpus(held)), "GPU 4").sentence

    def test_a_holder_whose_memory_is_not_told_is_told_once(self, pair: Profile) -> None:
        held = gpus(GpuFact(index=4, mem_used_mib=101_044.0, holders=(GpuHolder(process=ALICE),)))
        check = of(look(pair, holders=held), "GPU 4")
        assert check.sentence == "GPU 4 is held by pid 52044 (sglang::scheduler_TP0, user alice)"

    def test_memory_that_cannot_be_read_is_no_refusal(self, pair: Profile) -> None:
        assert refused(look(pair, holders=gpus(GpuFact(index=4, mem_used_mib=None)))) == ()


def ports(*held: PortFact) -> Holders:
    return msgspec.structs.replace(FREE, ports=held)


class TestPorts:
    def test_one_that_a_left_over_process_holds(self, pair: Profile) -> None:
        """Case C03: the old server would answer for the new one."""
        old = ProcessFact(
            pid=40111, start_ticks=3, name="sglang::tokenizer", user="ops", started=NOW - 3 * 3600 - 5
        )
        check = of(look(pair, holders=ports(PortFact(port=30000, holder=old))), "port 30000")
        assert check.outcome == "refused"
        assert (
            check.sentence == "port 30000 is held by pid 40111 (sglang::tokenizer, user ops, started 3 h ago)"
        )

    @pytest.mark.parametrize("port", [30000, 30001, 8998, 8000, 29000, 31000, 31001])
    def test_each_port_of_a_pair_is_looked_at(self, pair: Profile, port: int) -> None:
        (check,) = refused(look(pair, holders=ports(PortFact(port=port, holder=ALICE))))
        assert check.subject == f"port {port}"

    def test_of_a_user_who_may_not_be_looked_at(self, pair: Profile) -> None:
        check = of(look(pair, holders=ports(PortFact(port=8998))), "port 8998")
        assert (check.outcome, check.sentence) == (
            "refused",
            "port 8998 is held by a process of another user, which may not be looked at",
        )

    def test_of_what_the_plan_ends_first(self, pair: Profile) -> None:
        mine = ProcessFact(pid=700, start_ticks=8, name="python3 -m sglang.launch_server")
        held = ports(PortFact(port=30001, holder=mine), PortFact(port=31001))
        checks = look(pair, holders=held, ending=(DECODE,))
        assert refused(checks) == ()
        assert "30001, 31001: free once decode :30001 has ended" in [check.sentence for check in checks]

    @pytest.mark.parametrize(
        ("ago", "said"), [(-2.0, "0 s"), (59.0, "59 s"), (61.0, "1 min"), (90_000.0, "1 d")]
    )
    def test_how_long_it_has_been_there(self, pair: Profile, ago: float, said: str) -> None:
        holder = msgspec.structs.replace(ALICE, started=NOW - ago)
        check = of(look(pair, holders=ports(PortFact(port=8000, holder=holder))), "port 8000")
        assert f"started {said} ago" in check.sentence


class TestTheMachine:
    @pytest.mark.parametrize(
        ("change", "subject", "outcome"),
        [
            ({"mem_available_mib": 5000.0}, "memory", "ok"),
            ({"mem_available_mib": 4000.0}, "memory", "warning"),
            ({"mem_available_mib": 900.0}, "memory", "refused"),
            ({"mem_available_mib": None}, "memory", "warning"),
            ({"shm_free_mib": 64.0}, "/dev/shm", "warning"),
            ({"shm_free_mib": None}, "/dev/shm", "warning"),
            ({"disk_free_mib": {FACTS.state_folder: 900.0}}, "disk", "warning"),
            ({"disk_free_mib": {FACTS.state_folder: 49.0}}, "disk", "refused"),
            ({"disk_free_mib": {"/": 9e6}}, "disk", "warning"),
            ({"kills_on_logout": True}, "logout", "refused"),
            ({"inherited": ("NCCL_PROTO", "SGLANG_X")}, "environment", "warning"),
        ],
    )
    def test_limits(self, pair: Profile, change: dict[str, Any], subject: str, outcome: str) -> None:
        assert of(look(pair, facts(**change)), subject).outcome == outcome

    def test_an_unreadable_amount_is_not_called_zero(self, pair: Profile) -> None:
        checks = look(pair, facts(mem_available_mib=None, shm_free_mib=None, disk_free_mib={}))
        assert all(
            of(checks, subject).sentence.startswith("n/a") for subject in ("memory", "/dev/shm", "disk")
        )

    def test_memory_of_what_ends_first_is_not_known_yet(self, pair: Profile) -> None:
        assert of(look(pair, facts(mem_available_mib=900.0), ending=(DECODE,)), "memory").outcome == "warning"

    def test_variables_of_the_login_are_named(self, pair: Profile) -> None:
        check = of(look(pair, facts(inherited=("NCCL_PROTO", "UCX_TLS"))), "environment")
        assert check.sentence == "left out of the launch: NCCL_PROTO, UCX_TLS of the login"

    def test_sudo_in_its_own_words(self, pair: Profile) -> None:
        words = "sudo: a password is required"
        wants = msgspec.structs.replace(pair, sudo=True)
        check = of(look(wants, facts(sudo=words)), "sudo")
        assert (check.outcome, check.sentence) == ("refused", f"sudo -n cannot be used: {words}")
        assert "ops ALL=(root) NOPASSWD: ALL" in (check.next or "")
        assert of(look(wants), "sudo").outcome == "ok"
        assert outcomes(look(pair, facts(sudo=words)), "sudo") == []

    def test_sudo_to_end_what_runs_as_root(self, pair: Profile) -> None:
        root = msgspec.structs.replace(DECODE, sudo=True)
        assert of(look(pair, facts(sudo="no"), ending=(root,)), "sudo").outcome == "refused"


class TestServersOfOthers:
    FOREIGN = msgspec.structs.replace(DECODE, run=None, server=(700, 8), owner="ops")

    def test_need_a_confirmation_of_their_own(self, pair: Profile) -> None:
        check = of(look(pair, ending=(self.FOREIGN,)), "decode :30001")
        assert check.outcome == "warning"
        assert check.sentence == "was not launched by the console: pid 700, 701 of user ops"

    @pytest.mark.parametrize(("user", "outcome"), [("ops", "refused"), ("root", "warning")])
    def test_of_another_user_can_be_ended_by_root_alone(self, pair: Profile, user: str, outcome: str) -> None:
        target = msgspec.structs.replace(self.FOREIGN, owner="alice")
        assert of(look(pair, facts(user=user), ending=(target,)), "decode :30001").outcome == outcome

    def test_ours_need_none(self, pair: Profile) -> None:
        assert wrong(look(pair, ending=(DECODE,))) == []

    def test_one_that_comes_back_by_itself(self, pair: Profile) -> None:
        member = ProcessFact(pid=700, start_ticks=8, name="python3", unit="docker-0123456789ab")
        checks = look(pair, holders=ports(PortFact(port=30001, holder=member)), ending=(self.FOREIGN,))
        assert "lives in docker-0123456789ab, which may start it again" in [
            check.sentence for check in checks if check.subject == "decode :30001"
        ]
        # Where the console itself works in a container, so do its own runs.
        assert wrong(look(pair, holders=ports(PortFact(port=30001, holder=member)), ending=(DECODE,))) == []


class TestRolesThatDisagree:
    """Case D08: both would print their ready line, and the first request would hang."""

    @pytest.mark.parametrize(
        ("flag", "prefill", "decode"),
        [
            ("page-size", 32, 64),
            ("kv-cache-dtype", "auto", "fp8_e4m3"),
            ("disaggregation-transfer-backend", "nixl", "mooncake"),
            ("revision", "a", "b"),
        ],
    )
    def test_are_refused(self, pair: Profile, flag: str, prefill: Any, decode: Any) -> None:
        values = {"prefill": prefill, "decode": decode}
        servers = tuple(
            msgspec.structs.replace(server, flags={**server.flags, flag: values[server.name]})
            for server in pair.servers
        )
        changed = msgspec.structs.replace(pair, servers=servers)
        (check,) = refused(look(changed))
        assert check.subject == "profile"
        assert check.sentence == (
            f"servers.decode.flags.{flag}: {decode}, but prefill has {prefill}; a pair must agree"
        )
