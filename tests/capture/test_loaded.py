"""Versions of the libraries that a process has loaded."""

from __future__ import annotations

import mmap
import os
from contextlib import ExitStack

import pytest

from warpline.capture.machine.loaded import NAMES, loaded_versions
from warpline.comparison.environment import FRAMEWORKS


@pytest.fixture
def mapped(tmp_path):
    """Map files into this process."""
    with ExitStack() as stack:

        def map_files(*names):
            for name in names:
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(4096))
                file = stack.enter_context(path.open("r+b"))
                stack.enter_context(mmap.mmap(file.fileno(), 4096))

        yield map_files


def installed(folder, *entries):
    for entry in entries:
        (folder / entry).mkdir(parents=True)


def test_versions_are_those_of_what_is_loaded(mapped, tmp_path):
    packages = "my env/lib/python3.12/site-packages"
    installed(
        tmp_path / packages,
        "torch-2.11.0+cu130.dist-info",
        "torchvision-0.26.0.dist-info",
        "nvidia_cudnn_cu13-9.15.1.9.dist-info",
        "nvidia_cublas-13.1.0.3.dist-info",
        "jaxlib-0.11.2.dist-info",  # not loaded
        "cupy_cuda13x-14.2.0.dist-info",
    )
    mapped(
        f"{packages}/torch/lib/libtorch_cpu.so",
        f"{packages}/nvidia/cudnn/lib/libcudnn.so.9",
        f"{packages}/nvidia/cu13/lib/libcublas.so.13",
        f"{packages}/cupy/_core/core.cpython-312-x86_64-linux-gnu.so",
        "usr/lib/libnccl.so.2.28.9",
    )
    found = loaded_versions(os.getpid())
    assert {name: found[name] for name in ("PyTorch", "cuDNN", "cuBLAS", "CuPy", "NCCL")} == {
        "PyTorch": "2.11.0+cu130",
        "cuDNN": "9.15.1.9",
        "cuBLAS": "13.1.0.3",
        "CuPy": "14.2.0",
        "NCCL": "2.28.9",
    }
    assert "JAX" not in found


def test_what_is_unknown_is_left_out(mapped):
    mapped("lib/python3.12/dist-packages/torch/lib/libtorch.so", "opt/libcudnn.so.9")
    assert not {"PyTorch", "cuDNN"} & loaded_versions(os.getpid()).keys()
    assert loaded_versions(2**30) == {}


def test_comparisons_know_the_frameworks_by_name():
    assert set(NAMES) >= FRAMEWORKS
