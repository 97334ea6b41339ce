"""What oneDNN says that it ran."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from detlint.runtime.flags import Flags, using
from detlint.runtime.primitives import Primitive, contrast, primitives_of, read_line

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")

X = torch.randn(2, 16, 40, 40, generator=torch.Generator().manual_seed(0))


def convolve(x: torch.Tensor = X) -> torch.Tensor:
    torch.manual_seed(0)
    with torch.no_grad():
        output: torch.Tensor = nn.Conv2d(16, 32, 3)(x)
    return output


@needs_onednn
def test_a_convolution_is_named_with_its_sizes() -> None:
    (found,) = primitives_of(convolve)
    assert found.kind == "convolution"
    assert found.implementation
    assert found.problem.startswith("mb2_ic16oc32_ih40oh38kh3")
    (alone,) = primitives_of(lambda: convolve(X[:1]))
    assert alone.problem.startswith("mb1_")


@needs_onednn
def test_without_onednn_nothing_is_named() -> None:
    with using(Flags(mkldnn_enabled=False)):
        assert primitives_of(convolve) == ()
    assert primitives_of(convolve)


@needs_onednn
def test_standard_output_stays_what_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    def chatty() -> None:
        os.write(1, b"from C\n")
        convolve()

    os.write(1, b"before\n")
    primitives_of(chatty)
    convolve()
    with pytest.raises(ZeroDivisionError):
        primitives_of(lambda: 1 / 0)
    os.write(1, b"after\n")
    sys.stdout.flush()
    assert capfd.readouterr().out == "before\nfrom C\nafter\n"


@needs_onednn
@pytest.mark.parametrize("stdout", ["", " >&-"], ids=["piped", "closed"])
def test_it_works_in_a_process_of_its_own(stdout: str) -> None:
    code = """if True:
        import sys, torch
        from detlint.runtime.primitives import primitives_of
        print("before")
        x, layer = torch.zeros(2, 4, 8, 8), torch.nn.Conv2d(4, 4, 1)
        print(len(primitives_of(lambda: layer(x))), file=sys.stderr)
        layer(x)
        print("after")
    """
    command = f'"$0" -c "$1"{stdout}'
    done = subprocess.run(["sh", "-c", command, sys.executable, code], capture_output=True, text=True, check=True)
    assert done.stdout == ("" if stdout else "before\nafter\n")
    assert done.stderr.split()[-1] == "1"


def test_lines_of_all_releases_are_read() -> None:
    new = (
        "onednn_verbose,v1,primitive,exec,cpu,convolution,jit_1x1:avx512_core,forward_training,"
        "src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:ABcd16b16a::f0,attr-scratchpad:user,"
        "alg:convolution_direct,mb4_ic64oc64_ih50oh50kh1sh1dh0ph0,20.99\n"
    )
    old = "dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,src_f32::blocked:ab:f0,,,8x64:64x32,0.01"
    assert read_line(new) == Primitive("convolution", "jit_1x1:avx512_core", "mb4_ic64oc64_ih50oh50kh1sh1dh0ph0")
    assert read_line(old) == Primitive("matmul", "gemm:jit", "8x64:64x32")
    assert read_line("onednn_verbose,v1,info,cpu,isa:Intel AVX2") is None
    assert read_line("onednn_verbose,v1,primitive,exec") is None
    assert read_line("the model prints exec,cpu,convolution,jit,1,2") is None


def test_two_sides_are_told_in_a_line() -> None:
    one, two = Primitive("convolution", "brgconv:avx512_core", ""), Primitive("convolution", "jit:avx512_core", "")
    labels = ("the batch", "the sample alone")
    assert contrast([one], [one], labels) == "oneDNN ran convolution brgconv:avx512_core for both"
    assert contrast([one, one], [two], labels) == (
        "oneDNN ran convolution brgconv:avx512_core for the batch, convolution jit:avx512_core for the sample alone"
    )
    assert contrast([one], [], labels).endswith("for the batch, nothing for the sample alone")
    assert contrast([], [], labels) == ""
