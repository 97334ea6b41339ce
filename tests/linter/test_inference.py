"""What names resolve to and what expressions can be."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

import pytest

from detlint.linter.analysis.values import Kind, load_types

from .conftest import MakeModule

PROJECT = {
    "pkg/__init__.py": "from .nets import Net as Model\nfrom .seeds import *\n",
    "pkg/nets.py": """
        import torch.nn as nn

        class Base(nn.Module):
            def shared(self):
                return 1

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.drop = nn.Dropout(0.5)
                self.size = 3

            def forward(self, x):
                return self.drop(x)

        def build():
            net = Net()
            return net.cuda()

        def same(model):
            return model.to("cuda")
        """,
    "pkg/layers.py": "from torch.nn import *\n",
    "pkg/seeds.py": "import torch\n\ndef set_seed(seed):\n    torch.manual_seed(seed)\n",
}

NAMES = {
    "plain import": ("import torch\ntorch.rand(3)", ("torch.rand",)),
    "alias": ("import torch.nn.functional as F\nF.dropout(x)", ("torch.nn.functional.dropout",)),
    "from-import": ("from torch.nn import functional as f\nf.dropout(x)", ("torch.nn.functional.dropout",)),
    "renamed": ("from torch import rand as r\nr(3)", ("torch.rand",)),
    "variable": ("import torch\nop = torch.rand\nop(3)", ("torch.rand",)),
    "either of two": (
        "import torch\nop = torch.rand if x else torch.randn\nop(3)",
        ("torch.rand", "torch.randn"),
    ),
    "two imports": (
        "try:\n    from a import f\nexcept ImportError:\n    from b import f\nf()",
        ("a.f", "b.f"),
    ),
    "builtin": ("sorted(x)", ("builtins.sorted",)),
    "shadowed by a parameter": ("import random\ndef g(random):\n    random.shuffle(1)", ()),
    "shadowed locally": ("import random\ndef g(y):\n    random = y\n    random.shuffle(1)", ()),
    "other spelling": ("import torch.nn.modules.dropout as d\nd.Dropout()", ("torch.nn.Dropout",)),
    "tensor method": ("import torch\nx = torch.rand(3) + 1\nx.median()", ("torch.Tensor.median",)),
    "array method": ("import numpy as np\nx = np.ones(3)\nx.sort()", ("numpy.ndarray.sort",)),
    "unknown receiver": ("def g(x):\n    x.median()", ()),
    "annotated receiver": ("import torch\ndef g(x: torch.Tensor):\n    x.median()", ("torch.Tensor.median",)),
    "quoted annotation": (
        "from torch import Tensor\ndef g(x: 'Tensor'):\n    x.median()",
        ("torch.Tensor.median",),
    ),
    "optional annotation": (
        "from torch import Tensor\nfrom typing import Optional\ndef g(x: Optional[Tensor]):\n    x.median()",
        ("torch.Tensor.median",),
    ),
    "forward's parameter": (
        "import torch.nn as nn\nclass N(nn.Module):\n    def forward(self, x):\n        x.median()",
        ("torch.Tensor.median",),
    ),
    "partial": (
        "import functools, torch.nn.functional as F\nd = functools.partial(F.dropout, p=1)\nd(x)",
        ("torch.nn.functional.dropout",),
    ),
    "re-export": ("from pkg import Model\nModel()", ("pkg.nets.Net",)),
    "star re-export": ("from pkg import set_seed\nset_seed(1)", ("pkg.seeds.set_seed",)),
    "star import": ("from pkg import *\nset_seed(1)", ("pkg.seeds.set_seed",)),
    "external star import": (
        "from torch.nn.functional import *\ndropout(x)",
        ("torch.nn.functional.dropout",),
    ),
    "method of the project": ("from pkg.nets import Net\nn = Net()\nn.shared()", ("pkg.nets.Base.shared",)),
    "inherited torch method": ("from pkg.nets import Net\nn = Net()\nn.eval()", ("torch.nn.Module.eval",)),
    "module that is called": ("from pkg.nets import Net\nn = Net()\nn(x)", ("pkg.nets.Net.__call__",)),
    "through a factory": ("from pkg.nets import build\nn = build()\nn.eval()", ("torch.nn.Module.eval",)),
    "through a helper": (
        "from pkg.nets import Net, same\nn = same(Net())\nn(x)",
        ("pkg.nets.Net.__call__",),
    ),
    "attribute of self": (
        "import torch.nn as nn\nclass N(nn.Module):\n    def __init__(self):\n        self.d = nn.Dropout()\n"
        "    def go(self, x):\n        self.d(x)",
        ("torch.nn.Dropout.__call__",),
    ),
    "a class of a file that imports all of torch.nn": (
        "from pkg.layers import Dropout\nDropout()",
        ("torch.nn.Dropout",),
    ),
    "own method": ("class A:\n    def f(self): pass\n    def g(self):\n        self.f()", ("main.A.f",)),
}


@pytest.mark.parametrize(("code", "expected"), NAMES.values(), ids=NAMES.keys())
def test_the_last_call_resolves(make_module: MakeModule, code: str, expected: tuple[str, ...]) -> None:
    module = make_module(code, PROJECT)
    call = max(module.index.of_type(ast.Call), key=lambda node: node.lineno)
    assert module.inference.callees(call) == expected


VALUES = {
    "sum of tensors": ("torch.rand(3) + 1", Kind.TENSOR, "float"),
    "comparison of tensors": ("torch.rand(3) > 0", Kind.TENSOR, "bool"),
    "argmax": ("torch.rand(3).argmax()", Kind.TENSOR, "int"),
    "cast": ("torch.rand(3).to(torch.float16)", Kind.TENSOR, "float16"),
    "half": ("torch.rand(3).half()", Kind.TENSOR, "float16"),
    "dtype keyword": ("torch.zeros(3, dtype=torch.int64)", Kind.TENSOR, "int64"),
    "literal tensor": ("torch.tensor([1, 2])", Kind.TENSOR, "int"),
    "size": ("torch.rand(3).size(0)", Kind.UNKNOWN, None),
    "set": ("{1, 2} | set(x)", Kind.SET, None),
    "sorted set": ("sorted({1, 2})", Kind.LIST, None),
    "string": ("'%s' % x", Kind.STRING, None),
    "number": ("3 * 4.0", Kind.NUMBER, "float"),
    "layer": ("nn.Sequential(nn.Linear(3, 4)).cuda()", Kind.MODULE, None),
    "output of a layer": ("nn.Linear(3, 4)(x)", Kind.TENSOR, None),
    "topk": ("torch.rand(3).topk(2)[0]", Kind.TENSOR, "float"),
    "places of topk": ("torch.rand(3).topk(2)[1]", Kind.TENSOR, "int"),
    "sorted integers": ("torch.randperm(3).sort()[0]", Kind.TENSOR, "int"),
    "something taken at integers": ("torch.take_along_dim(x, torch.randperm(3), 0)", Kind.TENSOR, None),
    "a choice between floats": ("torch.where(torch.rand(3) > 0, torch.rand(3), x)", Kind.TENSOR, None),
    "numpy": ("torch.rand(3).numpy()", Kind.ARRAY, None),
    "numpy generator": ("np.random.default_rng(0)", Kind.INSTANCE, None),
    "numpy random draw": ("np.random.default_rng(0).normal(size=3)", Kind.UNKNOWN, None),
}


@pytest.mark.parametrize(("expression", "kind", "dtype"), VALUES.values(), ids=VALUES.keys())
def test_values(make_module: MakeModule, expression: str, kind: Kind, dtype: str | None) -> None:
    module = make_module(f"import torch, numpy as np\nimport torch.nn as nn\nresult = {expression}\n")
    assignment = module.tree.body[-1]
    assert isinstance(assignment, ast.Assign)
    (value,) = module.inference.values(assignment.value)
    assert (value.kind, value.dtype) == (kind, dtype)


def test_values_of_a_file_do_not_depend_on_files_linted_before(make_module: MakeModule) -> None:
    module = make_module("from pkg.nets import build\nn = build()\nn(x)", PROJECT)
    call = module.index.of_type(ast.Call)[-1]
    first = module.inference.callees(call)
    nets = module.project.find("pkg.nets", module)
    assert nets is not None
    module.project.begin(nets.source)
    for node in nets.index.of_type(ast.Call):
        nets.inference.values(node)
    again = module.project.begin(module.source)
    assert again.inference.callees(call) == first  # type: ignore[union-attr]


def test_a_ring_of_files_that_import_a_name_from_each_other_says_nothing_about_it(make_module: MakeModule) -> None:
    ring = {"a": "b", "b": "c", "c": "a"}
    files = {f"{a}.py": f"try:\n    from {b} import x\nexcept ImportError:\n    x = None\n" for a, b in ring.items()}
    module = make_module("from a import x\ny = x\n", files)
    values = module.inference.values(module.index.of_type(ast.Assign)[0].value)
    assert {value.kind for value in values} == {Kind.UNKNOWN, Kind.NONE}


OUTER_NAMES = {
    "the first iterable": "names = {1}\nresult = [names for names in names]",
    "the first iterable in a class": "class A:\n    names = {1}\n    result = [name for name in names]",
    "inside of the first iterable": "names = {1}\nresult = [names for names in sorted(names, key=lambda x: names)]",
}


@pytest.mark.parametrize("code", OUTER_NAMES.values(), ids=OUTER_NAMES.keys())
def test_what_a_comprehension_starts_from_is_evaluated_around_it(make_module: MakeModule, code: str) -> None:
    module = make_module(code)
    (loop,) = module.index.of_type(ast.comprehension)
    loads = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Name) and node.id == "names"]
    assert {value.kind for name in loads for value in module.inference.values(name)} == {Kind.SET}
    assert not module.index.scope_at(loop.iter).bindings.keys().isdisjoint({"names"})


def test_a_later_iterable_of_a_comprehension_sees_the_targets_before_it(make_module: MakeModule) -> None:
    module = make_module("names = {1}\nresult = [name for names in [[2]] for name in names]")
    _, loop = module.index.of_type(ast.comprehension)
    assert [value.kind for value in module.inference.values(loop.iter)] == [Kind.LIST]


def test_the_rest_of_a_matched_mapping_is_a_name_of_its_own(make_module: MakeModule) -> None:
    module = make_module(
        "import random\ndef f(x):\n    match x:\n        case {1: 1, **random}:\n            random.shuffle(x)"
    )
    (call,) = module.index.of_type(ast.Call)
    assert module.inference.callees(call) == ()


def test_a_name_is_found_behind_seven_star_imports_in_a_row(make_module: MakeModule) -> None:
    files = {f"s{i}.py": f"from s{i + 1} import *\n" for i in range(7)}
    module = make_module("from s0 import *\ndeep()\n", {**files, "s7.py": "def deep(): pass\n"})
    assert module.inference.callees(module.index.of_type(ast.Call)[0]) == ("s7.deep",)


def test_files_that_import_everything_from_each_other_are_each_looked_at_once(make_module: MakeModule) -> None:
    parts = [f"s{i}" for i in range(24)]
    files = {f"{name}.py": "".join(f"from {part} import *\n" for part in parts) for name in parts}
    module = make_module("from s0 import *\nnowhere()\n", files)
    assert module.inference.callees(module.index.of_type(ast.Call)[0]) == ()


def test_a_chain_of_eight_methods_is_followed(make_module: MakeModule) -> None:
    module = make_module("import torch\nx = torch.rand(3).abs().exp().log().sqrt().sin().cos().tan().sinh()\n")
    (value,) = module.inference.values(module.index.of_type(ast.Assign)[0].value)
    assert value.kind is Kind.TENSOR


def test_what_an_expression_can_be_does_not_depend_on_what_was_asked_before(make_module: MakeModule) -> None:
    module = make_module("import torch\nx = torch.rand(3)\n" + "x = x.abs()\n" * 200)
    values = [assignment.value for assignment in module.index.of_type(ast.Assign)]
    assert [value.kind for value in module.inference.values(values[-1])] == [Kind.UNKNOWN]  # too far away
    assert [value.kind for value in module.inference.values(values[5])] == [Kind.TENSOR]
    assert [value.kind for value in module.inference.values(values[15])] == [Kind.TENSOR]


def test_a_nonlocal_count_is_a_number(make_module: MakeModule) -> None:
    module = make_module(
        """
        def outer():
            start = 0
            def inner(group):
                nonlocal start
                start += 1
                return start
        """
    )
    (returned,) = module.index.of_type(ast.Return)
    assert returned.value is not None
    assert {value.kind for value in module.inference.values(returned.value)} == {Kind.NUMBER}


def public_classes(home: ModuleType) -> dict[str, type]:
    """Return the classes a package offers that a public module below it defines."""
    return {
        f"{home.__name__}.{name}": thing
        for name, thing in vars(home).items()
        if inspect.isclass(thing)
        and thing.__module__.startswith(f"{home.__name__}.")
        and not any(part.startswith(("_", "datapipes")) for part in (name, *thing.__module__.split(".")))
    }


@pytest.mark.parametrize("home", ["torch.nn", "torch.utils.data", "torch.distributions", "torch.optim"])
def test_a_class_of_torch_has_one_spelling_wherever_it_is_imported_from(home: str) -> None:
    offered = public_classes(pytest.importorskip(home))
    assert offered
    spellings = {
        name: load_types().canonical(f"{thing.__module__}.{name.rsplit('.', 1)[1]}") for name, thing in offered.items()
    }
    other = {"torch.nn.DataParallel": "torch.nn.parallel.DataParallel"}  # offered twice; wrappers name both
    assert spellings == {name: other.get(name, name) for name in offered}
