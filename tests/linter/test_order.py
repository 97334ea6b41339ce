"""Where an order ends up, through modules and forms that the examples do not reach."""

from __future__ import annotations

import ast

import pytest

from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import Form, Trail
from tests.linter.conftest import MakeModule


def destination(code: str, make_module: MakeModule, files: dict[str, str] | None = None) -> str | None:
    """Follow the first call of `listing` in the code."""
    module = make_module(code, files)
    calls = module.index.of_type(ast.Call)
    origin = next(call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "listing")
    return OrderTracer(module).destination(origin, Trail(Form.SEQUENCE))


KEPT = {
    "handed to a function of another module": (
        "from helper import save\nsave(listing())\n",
        "json.dump()",
        {"helper.py": "import json\ndef save(names, target=None):\n    json.dump(names, target)\n"},
    ),
    "kept by a class of another module": (
        "from helper import Items\nitems = Items(listing())\n",
        "self.names",
        {
            "helper.py": (
                "class Items:\n    def __init__(self, names):\n        self.names = names\n"
                "    def __getitem__(self, index):\n        return self.names[index]\n"
            )
        },
    ),
    "joined into a hash": (
        "import hashlib\nkey = hashlib.md5(','.join(listing()).encode())\n",
        "the checksum",
        None,
    ),
    "through a walrus": ("def f():\n    if names := listing():\n        return names\n", "what f() returns", None),
    "through a private function to its caller": (
        "def _names():\n    return listing()\n\ndef first():\n    return _names()[0]\n",
        "the choice of one entry",
        None,
    ),
    "a nested list sorted only outside": (
        "def f(keys):\n    groups = {}\n    for key in keys:\n        groups[key] = listing()\n    return groups\n",
        "what f() returns",
        None,
    ),
}


@pytest.mark.parametrize(("code", "expected", "files"), KEPT.values(), ids=KEPT.keys())
def test_order_is_kept(code: str, expected: str, files: dict[str, str] | None, make_module: MakeModule) -> None:
    assert destination(code, make_module, files) == expected


IGNORED = {
    "a function of another module that sorts": (
        "from helper import save\nsave(listing())\n",
        {"helper.py": "import json\ndef save(names, target=None):\n    json.dump(sorted(names), target)\n"},
    ),
    "a helper whose result is counted here": (
        "from helper import keep\nprint(len(keep(listing())))\ncount = len(keep(listing()))\n",
        {"helper.py": "def keep(names):\n    return [name for name in names if name]\n"},
    ),
    "a name that nothing is known about": ("import foreign\nforeign.process(listing())\n", None),
    "a function that calls itself": ("def f(names):\n    return f(names)\n\nf(listing())\n", None),
    "a list of complaints": (
        "def f(known):\n    unknown_names = [n for n in listing() if n not in known]\n    return unknown_names\n",
        None,
    ),
    "a representation": ("class A:\n    def __repr__(self):\n        return ', '.join(listing())\n", None),
    "a record under one key": ("def f():\n    info = {}\n    info['all'] = listing()\n    return info['name']\n", None),
    "a progress bar of the project": (
        "from helper import Bar\nfor name in Bar(listing()):\n    print(name)\n",
        {
            "helper.py": (
                "class Bar:\n    def __init__(self, items):\n        self.items = items\n"
                "    def __iter__(self):\n        yield from self.items\n"
            )
        },
    ),
}


@pytest.mark.parametrize(("code", "files"), IGNORED.values(), ids=IGNORED.keys())
def test_order_is_ignored(code: str, files: dict[str, str] | None, make_module: MakeModule) -> None:
    assert destination(code, make_module, files) is None
