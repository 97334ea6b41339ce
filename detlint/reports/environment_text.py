"""`detlint env` as text: what decides the bits of a result here, one fact a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def render_environment(environment: Mapping[str, Any], effects: Mapping[str, str]) -> str:
    """Return the JSON form of an environment as aligned lines.

    `effects` says for each variable of the environment what it decides.
    """
    sections = {
        "versions": _versions(environment),
        "hardware": _hardware(environment),
        "settings": [(name, _value(value)) for name, value in environment["flags"].items()],
        "variables": [(name, f"{value}  ({effects[name]})") for name, value in environment["variables"].items()],
    }
    width = max(len(name) for rows in sections.values() for name, _ in rows)
    lines: list[str] = []
    for title, rows in sections.items():
        lines += ["", title] if lines else [title]
        lines += [f"  {name:<{width}}  {value}" for name, value in rows] or ["  none is set"]
    return "\n".join(lines) + "\n"


def _versions(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = ("detlint", "python", "torch", "cuda", "rocm", "cudnn", "driver", "blas", "mkl", "onednn")
    known = [(name, str(environment[name])) for name in names if environment[name] is not None]
    return known + list(environment["packages"].items())


def _hardware(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("platform", environment["platform"]),
        ("cpu", f"{environment['cpu']}, torch uses {environment['cpu_capability']}"),
        ("interop_threads", str(environment["interop_threads"])),
        ("hash_randomization", _value(environment["hash_randomization"])),
        *_gpus(environment["gpus"]),
    ]


def _gpus(gpus: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for index, gpu in enumerate(gpus):
        memory = gpu["memory"] / 2**30
        yield (
            f"cuda:{index}",
            f"{gpu['name']}, sm_{gpu['capability'].replace('.', '')}, "
            f"{gpu['multiprocessors']} multiprocessors, {memory:.0f} GiB",
        )
    if not gpus:
        yield "cuda", "no device"


def _value(value: object) -> str:
    if value is None:
        return "not in this torch"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
