"""On what does this process compute? Versions, hardware, settings and variables that decide the bits."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import torch

from detlint.runtime.flags import Flags, read_flags
from detlint.version import __version__

# What each variable decides; a name that ends in "_" stands for all that begin so.
VARIABLES: Final = {
    "ATEN_CPU_CAPABILITY": "vector instructions torch uses on the CPU",
    "CUBLAS_WORKSPACE_CONFIG": "whether cuBLAS may split sums over streams",
    "CUDA_LAUNCH_BLOCKING": "whether kernels run one after the other",
    "CUDA_VISIBLE_DEVICES": "which GPUs are used",
    "DNNL_": "choices of oneDNN",
    "FLASH_ATTENTION_DETERMINISTIC": "deterministic backward of flash-attn in transformers",
    "KMP_": "threads of Intel's OpenMP",
    "MKL_CBWR": "code path of MKL, the same on all CPUs and alignments where set",
    "MKL_DYNAMIC": "whether MKL changes its number of threads by itself",
    "MKL_NUM_THREADS": "threads of MKL",
    "NCCL_": "algorithm and topology of sums over GPUs",
    "NVIDIA_TF32_OVERRIDE": "TF32 in every NVIDIA library",
    "OMP_": "threads of OpenMP",
    "ONEDNN_": "choices of oneDNN",
    "PYTHONHASHSEED": "order of sets of str, and hash()",
    "PYTORCH_": "allocator and backends of torch",
    "TORCHINDUCTOR_": "choices of torch.compile",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "TF32 in matrix products",
    "TORCH_BLAS_PREFER_": "BLAS library of torch",
    "TORCH_CUDNN_": "how torch asks cuDNN for algorithms",
    "TORCH_LINALG_PREFER_": "linear algebra library of torch",
    "TORCH_MKLDNN_": "when products go to oneDNN",
    "TORCH_NCCL_": "collectives of torch",
    "TRITON_": "choices of Triton",
}
_PACKAGES: Final = ("numpy", "triton", "torchvision", "transformers", "lightning", "flash-attn", "xformers")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One CUDA device: results can differ between models and even between numbers of multiprocessors."""

    name: str
    capability: str
    multiprocessors: int
    memory: int


@dataclass(frozen=True, slots=True)
class Environment:
    """A snapshot. `gpus` is empty where CUDA was not in use yet; memory is in bytes."""

    detlint: str
    python: str
    platform: str
    torch: str
    packages: tuple[tuple[str, str], ...]
    cpu: str
    cpu_capability: str
    interop_threads: int
    blas: str | None
    mkl: str | None
    onednn: str | None
    cuda: str | None
    rocm: str | None
    cudnn: str | None
    driver: str | None
    gpus: tuple[Gpu, ...]
    hash_randomization: bool
    flags: Flags
    variables: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready values; packages and variables become objects."""
        return {**asdict(self), "packages": dict(self.packages), "variables": dict(self.variables)}


def read_environment(*, initialize_cuda: bool = False) -> Environment:
    """Take a snapshot; CUDA is started only if asked for: an audit must leave the process as it was."""
    return Environment(
        detlint=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        torch=torch.__version__,
        packages=_packages(),
        cpu=_cpu_name(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        interop_threads=torch.get_num_interop_threads(),
        blas=_build(r"BLAS_INFO=(\w+)"),
        mkl=_build(r"Math Kernel Library Version (\S+)"),
        onednn=_build(r"MKL-DNN v(\S+)"),
        cuda=torch.version.cuda,
        rocm=torch.version.hip,
        cudnn=_cudnn(),
        driver=_driver(),
        gpus=_gpus() if initialize_cuda or torch.cuda.is_initialized() else (),  # type: ignore[no-untyped-call]
        hash_randomization=bool(sys.flags.hash_randomization),
        flags=read_flags(),
        variables=tuple(sorted((name, value) for name, value in os.environ.items() if effect(name))),
    )


def effect(variable: str) -> str | None:
    """What does an environment variable decide? None where it is not known to change results."""
    for name, decides in VARIABLES.items():
        if variable == name or (name.endswith("_") and variable.startswith(name)):
            return decides
    return None


def _packages() -> tuple[tuple[str, str], ...]:
    found = []
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _build(pattern: str) -> str | None:
    found = re.search(pattern, _build_settings())
    return found[1] if found else None


@lru_cache(maxsize=1)
def _build_settings() -> str:
    return torch.__config__.show()


def _cudnn() -> str | None:
    if not torch.backends.cudnn.is_available():  # type: ignore[no-untyped-call]
        return None
    number = torch._C._cudnn.getVersionInt()  # torch.backends.cudnn.version() would start CUDA
    # 8907 is 8.9.7; since cuDNN 9 the major number has two more digits: 91002 is 9.10.2.
    major, rest = divmod(number, 10000 if number >= 90000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


def _gpus() -> tuple[Gpu, ...]:
    if not torch.cuda.is_available():
        return ()
    properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return tuple(
        Gpu(each.name, f"{each.major}.{each.minor}", each.multi_processor_count, each.total_memory)
        for each in properties
    )
