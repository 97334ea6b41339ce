"""Paths and definitions in the control flow of one function."""

from __future__ import annotations

import ast

import pytest

from detlint.linter.analysis.flow import Flow

from .conftest import MakeModule


def parts(make_module: MakeModule, body: str) -> tuple[Flow, dict[str, list[ast.Call]]]:
    code = "def f(flag, other, items, x):\n" + "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    module = make_module(code)
    function = module.tree.body[0]
    calls: dict[str, list[ast.Call]] = {}
    for call in module.index.of_type(ast.Call):
        calls.setdefault(ast.unparse(call.func), []).append(call)
    return module.flow(module.index.scopes[function]), calls


PATHS = {
    "straight": ("start()\nstop()\ngoal()", False),
    "nothing between": ("start()\ngoal()", True),
    "one branch stops": ("start()\nif flag:\n    stop()\ngoal()", True),
    "both branches stop": ("start()\nif flag:\n    stop()\nelse:\n    stop()\ngoal()", False),
    "same condition twice": ("start()\nif flag:\n    stop()\nif flag:\n    goal()", False),
    "negated condition": ("start()\nif not flag:\n    stop()\nif flag:\n    goal()", True),
    "negated condition that stops": ("start()\nif not flag:\n    stop()\nif not flag:\n    goal()", False),
    "condition that changes": ("start()\nif flag:\n    stop()\nflag = other\nif flag:\n    goal()", True),
    "attribute that changes": ("start()\nif x.on:\n    stop()\nx.on = other\nif x.on:\n    goal()", True),
    "another attribute that changes": ("start()\nif x.on:\n    stop()\nx.off = other\nif x.on:\n    goal()", False),
    "same question twice": ("start()\nif x.numel() > 0:\n    stop()\nif x.numel() > 0:\n    goal()", False),
    "same question of another": ("start()\nif x.numel():\n    stop()\nx = y\nif x.numel():\n    goal()", True),
    "condition that was part of another": ("if not flag and x:\n    start()\nif flag:\n    goal()", False),
    "condition that was one of several": ("if not flag or x:\n    start()\nif flag:\n    goal()", True),
    "condition that follows from its parts": (
        "start()\nif flag:\n    stop()\nif other:\n    stop()\nif flag or other:\n    goal()",
        False,
    ),
    "condition of which a part is open": ("start()\nif flag:\n    stop()\nif flag or other:\n    goal()", True),
    "question that may be answered anew": ("start()\nif ask():\n    stop()\nif ask():\n    goal()", True),
    "condition of a round": (
        "for on in items:\n    if on:\n        start()\n    if on:\n        pass\n    else:\n        goal()",
        True,
    ),
    "condition within a round": (
        "for on in items:\n    if on:\n        start()\n        stop()\n    if on:\n        goal()",
        False,
    ),
    "condition that was bound twice before": (
        "flag = other\nif x:\n    flag = x\nstart()\nif flag:\n    stop()\nif flag:\n    goal()",
        False,
    ),
    "condition that its own branch changes": (
        "if flag:\n    flag = other\n    start()\nif flag:\n    stop()\ngoal()",
        True,
    ),
    "start inside a branch": ("if flag:\n    start()\nif flag:\n    stop()\ngoal()", False),
    "loop that may not run": ("start()\nfor i in items:\n    stop()\ngoal()", True),
    "goal earlier in the loop": ("for i in items:\n    goal()\n    start()", True),
    "stop at the loop's head": ("for i in items:\n    stop()\n    goal()\n    start()", False),
    "break leaves": ("start()\nwhile True:\n    if flag:\n        break\n    stop()\ngoal()", True),
    "endless loop": ("start()\nwhile True:\n    pass\ngoal()", False),
    "return leaves": ("start()\nif flag:\n    return\ngoal()", True),
    "raise leaves": ("start()\nif flag:\n    stop()\nelse:\n    raise ValueError\ngoal()", False),
    "finally stops": ("start()\ntry:\n    work()\nfinally:\n    stop()\ngoal()", False),
    "handler skips": ("start()\ntry:\n    work()\n    stop()\nexcept ValueError:\n    pass\ngoal()", True),
    "handler skips all": ("start()\ntry:\n    stop()\nexcept ValueError:\n    pass\ngoal()", True),
    "finally goes on with the exception": ("start()\ntry:\n    stop()\nfinally:\n    work()\ngoal()", False),
    "with": ("start()\nwith open(x):\n    stop()\ngoal()", False),
    "argument before call": ("goal(start())", True),
    "stop inside an argument": ("start()\ngoal(stop())", False),
    "exit ends the program": ("start()\nif flag:\n    sys.exit()\nelse:\n    stop()\ngoal()", False),
    "match without default": ("start()\nmatch x:\n    case 1:\n        stop()\ngoal()", True),
    "match with default": (
        "start()\nmatch x:\n    case 1:\n        stop()\n    case _:\n        stop()\ngoal()",
        False,
    ),
    "constant condition": ("start()\nif False:\n    goal()", False),
}


@pytest.mark.parametrize(("body", "expected"), PATHS.values(), ids=PATHS.keys())
def test_path(make_module: MakeModule, body: str, expected: bool) -> None:
    flow, calls = parts(make_module, body)
    assert flow.path(calls["start"][0], calls["goal"][0], avoiding=calls.get("stop", [])) is expected


DEFINITIONS = {
    "last wins": ("a = 1\na = 2\nuse(a)", [3]),
    "branches join": ("a = 1\nif flag:\n    a = 2\nuse(a)", [2, 4]),
    "branch replaces": ("a = 1\nif flag:\n    a = 2\nelse:\n    a = 3\nuse(a)", [4, 6]),
    "loop carries": ("a = 1\nfor i in items:\n    use(a)\n    a = i", [2, 5]),
    "what was there before a try": ("a = 1\ntry:\n    a = work(a)\nexcept ValueError:\n    pass\nuse(a)", [2, 4]),
    "parameter": ("if flag:\n    x = 1\nuse(x)", [1, 3]),
    "walrus": ("if (a := work()) and use(a):\n    a = 3", [2]),
    "before its own assignment": ("a = 1\na = use(a)", [2]),
}


@pytest.mark.parametrize(("body", "lines"), DEFINITIONS.values(), ids=DEFINITIONS.keys())
def test_definitions(make_module: MakeModule, body: str, lines: list[int]) -> None:
    flow, calls = parts(make_module, body)
    name = calls["use"][0].args[0]
    assert isinstance(name, ast.Name)
    assert [binding.node.lineno for binding in flow.definitions(name)] == lines  # type: ignore[attr-defined]


def test_uses_follow_a_binding_into_closures(make_module: MakeModule) -> None:
    flow, _ = parts(make_module, "a = 1\nuse(a)\ndef g():\n    use(a)\na = 2\nuse(a)")
    first, second = flow.scope.bindings["a"]
    assert [name.lineno for name in flow.uses(first)] == [3, 5]
    assert [name.lineno for name in flow.uses(second)] == [5, 7]
