"""Folders and files that a profile names: the model must be there, the rest is told when it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from console.domain.host_facts import HostFacts
from console.domain.profile import Profile, router_environment, server_environment, server_flags
from console.domain.sglang_flags import FlagValue, current_name

from .check import Check, ok, refusal, warning

READ_AT_START = ("tokenizer-path", "speculative-draft-model-path")
"""Flags whose paths must be there before a server can start."""
_PATH_ENDINGS = ("path", "file", "dir", "folder", "template", "config")
"""How flags that take a path are called; others, such as health-check-endpoint, take paths of URLs."""


def paths_of(profile: Profile) -> tuple[str, ...]:
    """Every absolute path that the profile names for the host, the model's first; its Python's is no part."""
    model = [profile.model] if profile.model.startswith("/") else []
    return tuple(dict.fromkeys([*model, *_named_paths(profile)]))


def check_paths(profile: Profile, facts: HostFacts) -> Iterator[Check]:
    """The model, then the other paths; those for which `facts` has no answer were not asked for."""
    yield _model(profile, facts)
    for path, names in _named_paths(profile).items():
        found = facts.paths.get(path)
        if found in ("missing", "denied"):
            yield _absent(profile, path, names, "is not there" if found == "missing" else "may not be read")


def _model(profile: Profile, facts: HostFacts) -> Check:
    model = profile.model
    if model.startswith(("~", ".")):
        return refusal(
            "model",
            f"{model}: SGLang expands no ~ and is started in no certain folder",
            f"write the whole path in {profile.file}",
        )
    if not model.startswith("/"):
        return warning("model", f"{model} is no path: SGLang will fetch it, unless its cache has it")
    found = facts.paths.get(model)
    if found == "folder" or (found == "file" and model.endswith(".gguf")):
        return ok("model", f"{model} is there")
    said = {"file": "is a file, not a folder", "missing": "is not there", "denied": "may not be read"}
    wrong = said.get(found or "", "was not looked for")
    return refusal("model", f"{model} {wrong}", f"correct `model` in {profile.file}, or put it there")


def _absent(profile: Profile, path: str, names: tuple[str, ...], wrong: str) -> Check:
    sentence = f"{path} {wrong}; {' and '.join(names)} {'name' if len(names) > 1 else 'names'} it"
    if any(name in READ_AT_START for name in names):
        return refusal(names[0], sentence, f"correct it in {profile.file}, or put it there")
    return warning(names[0], sentence)


def _named_paths(profile: Profile) -> dict[str, tuple[str, ...]]:
    """Each path of an environment or a flag, and the names that it stands under."""
    found: dict[str, tuple[str, ...]] = {}
    for name, path in _pairs(profile):
        names = found.get(path, ())
        found[path] = names if name in names else (*names, name)
    return found


def _pairs(profile: Profile) -> Iterator[tuple[str, str]]:
    for server in profile.servers:
        yield from _in_environment(server_environment(profile, server))
        yield from _in_flags(server_flags(profile, server))
    if profile.router:
        yield from _in_environment(router_environment(profile.router))
        yield from _in_flags(profile.router.flags)


def _in_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        # Every PATH names folders that are not there.
        if name != "PATH":
            yield from ((name, part) for part in value.split(":") if _is_path(part))


def _in_flags(flags: Mapping[str, FlagValue]) -> Iterator[tuple[str, str]]:
    for flag, value in flags.items():
        name = current_name(flag)
        if isinstance(value, str) and _is_path(value) and name.endswith(_PATH_ENDINGS):
            yield name, value


def _is_path(text: str) -> bool:
    # `http://host` splits at its colon into something that begins with two slashes.
    return text.startswith("/") and not text.startswith("//")
