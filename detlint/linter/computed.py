"""Was a float computed? Then its last bits depend on order, kernel and machine; copies and integers keep theirs."""

from __future__ import annotations

import ast

from detlint.linter.names import BindingKind
from detlint.linter.project import Module
from detlint.linter.values import Kind

# Functions and methods of tensors whose results are rounded.
_ROUNDED = frozenset(
    (  # noqa: SIM905
        "matmul mm bmm addmm baddbmm einsum dot mv tensordot outer softmax log_softmax sigmoid tanh exp expm1 log "
        "log1p log2 log10 sqrt rsqrt pow sin cos tan erf mean std var norm logsumexp cumsum cumprod prod softplus "
        "gelu silu linear conv1d conv2d conv3d conv_transpose2d layer_norm batch_norm group_norm instance_norm "
        "interpolate avg_pool1d avg_pool2d adaptive_avg_pool2d scaled_dot_product_attention cross_entropy "
        "mse_loss nll_loss l1_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity "
        "normalize fft ifft rfft irfft fft2 stft istft inverse inv svd qr cholesky solve grid_sample cdist "
        "reciprocal nanmean logcumsumexp addcdiv addcmul"
    ).split()
)
# Those that keep what they are given: views, moves, reductions of what was already rounded.
_KEEPING = frozenset(
    (  # noqa: SIM905
        "view reshape flatten squeeze unsqueeze transpose permute t contiguous detach cpu cuda to numpy item "
        "tolist clone float double half bfloat16 sum abs max min amax amin expand repeat data T mT values type "
        "neg clamp relu chunk split"
    ).split()
)
_WRAPPERS = frozenset({"builtins.float", "builtins.round", "numpy.asarray", "numpy.array", "torch.as_tensor"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult)


def is_computed(module: Module, node: ast.expr, depth: int = 8) -> bool:
    """Return whether there is evidence that an expression is a floating result that was rounded on its way."""
    if depth == 0:
        return False
    inner = depth - 1
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        return bool(bindings) and all(
            binding.kind is BindingKind.ASSIGN
            and binding.value is not None
            and not binding.index
            and is_computed(module, binding.value, inner)
            for binding in bindings
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        sides = (node.left, node.right)
        if any(is_computed(module, side, inner) for side in sides):
            return True
        rounding = isinstance(node.op, (ast.MatMult, ast.Div))
        return rounding and all(_is_float_tensor(module, side) for side in sides)
    if isinstance(node, (ast.UnaryOp, ast.Subscript, ast.Attribute)):
        return _keeps(module, node, inner)
    return isinstance(node, ast.Call) and _is_computed_call(module, node, inner)


def _keeps(module: Module, node: ast.UnaryOp | ast.Subscript | ast.Attribute, depth: int) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and is_computed(module, node.operand, depth)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and _gives_several(module, node.value):
        return False
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return True
    if isinstance(node, ast.Attribute) and node.attr not in _KEEPING:
        return False
    return is_computed(module, node.value, depth)


def _gives_several(module: Module, node: ast.expr) -> bool:
    """Return whether an expression is what a model of the project returns: one of several results may be no float."""
    if isinstance(node, ast.Name):
        return any(b.value is not None and _gives_several(module, b.value) for b in module.definitions(node))
    return isinstance(node, ast.Call) and not any(value.kind is Kind.TENSOR for value in module.inference.values(node))


def _is_computed_call(module: Module, call: ast.Call, depth: int) -> bool:
    function = call.func
    names = module.inference.callees(call)
    if any(value.is_integral for value in module.inference.values(call)):
        return False
    if any(name in _WRAPPERS for name in names):
        return bool(call.args) and is_computed(module, call.args[0], depth)
    last = names[0].rpartition(".")[2] if names else ""
    if last in _ROUNDED and names[0].startswith("torch."):
        return True
    if isinstance(function, ast.Attribute) and function.attr in _KEEPING | _ROUNDED:
        return is_computed(module, function.value, depth)
    return any(value.kind is Kind.MODULE and _computes(value.type) for value in module.inference.values(function))


def _computes(type_name: str) -> bool:
    """Most layers compute; those that pick, move or clip values do not."""
    last = type_name.rpartition(".")[2]
    return not last.startswith(
        ("Embedding", "Identity", "Flatten", "ReLU", "Dropout", "MaxPool", "Pad", "Pixel", "Unflatten")
    )


def _is_float_tensor(module: Module, node: ast.expr) -> bool:
    values = module.inference.values(node)
    return any(value.kind is Kind.TENSOR for value in values) and not any(value.is_integral for value in values)
