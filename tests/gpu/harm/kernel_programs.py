"""Kernels written in Python or made at run time: python -m gpu.harm.kernel_programs NAME."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
from gpu.harm.telling import STEPS, run, tell_checksum

COUNT = 1 << 14
SOURCE = """
extern "C" __global__ void scale(unsigned* data, int count, unsigned factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * factor + %d;
}
"""


def tell_array(name: str, array: Any) -> None:
    """Print a checksum of an array on the host."""
    tell_checksum(name, [np.ascontiguousarray(array).tobytes()])


def triton() -> None:
    """A Triton kernel that is tuned, so that many variants are built, loaded and timed."""
    import torch
    from gpu.harm import triton_kernel

    x = torch.arange(COUNT, dtype=torch.int32, device="cuda")
    for number in range(STEPS):
        with torch.cuda.nvtx.range("step"):
            for _ in range(10):
                x = triton_kernel.scaled(x, 3 + number)
    tell_array("x", x.cpu().numpy())


def cupy_kernels() -> None:
    """CuPy's own kernels, a raw one, streams, its memory pool."""
    import cupy

    kernel = cupy.RawKernel(SOURCE % 1, "scale")
    x = cupy.arange(COUNT, dtype=cupy.uint32)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    for number in range(STEPS):
        with stream:
            kernel((COUNT // 128,), (128,), (x, np.int32(COUNT), np.uint32(number + 3)))
            x = cupy.sort(x) ^ cupy.roll(x, number)
        stream.synchronize()
        cupy.get_default_memory_pool().free_all_blocks()
    tell_array("x", cupy.asnumpy(x))


def cupy_modules() -> None:
    """Modules that CuPy builds with NVRTC, loads, and unloads when they are forgotten."""
    import cupy

    x = cupy.arange(COUNT, dtype=cupy.uint32)
    for number in range(STEPS):
        module = cupy.RawModule(code=SOURCE % number)
        kernel = module.get_function("scale")
        kernel((COUNT // 128,), (128,), (x, np.int32(COUNT), np.uint32(5)))
        cupy.cuda.Device().synchronize()
        del kernel, module
        cupy.clear_memo()
        gc.collect()
    tell_array("x", cupy.asnumpy(x))


def cupy_graph() -> None:
    """A graph that CuPy captures and launches."""
    import cupy

    kernel = cupy.RawKernel(SOURCE % 7, "scale")
    x = cupy.arange(COUNT, dtype=cupy.uint32)
    arguments = (x, np.int32(COUNT), np.uint32(5))
    kernel((COUNT // 128,), (128,), arguments)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for _ in range(5):
            kernel((COUNT // 128,), (128,), arguments)
        graph = stream.end_capture()
        for _ in range(4 * STEPS):
            graph.launch(stream=stream)
        stream.synchronize()
    tell_array("x", cupy.asnumpy(x))


def numba() -> None:
    """Kernels that Numba compiles."""
    from gpu.harm.numba_kernel import scale
    from numba import cuda

    x = cuda.to_device(np.arange(COUNT, dtype=np.int32))
    stream = cuda.stream()
    for number in range(STEPS):
        scale[COUNT // 128, 128, stream](x, np.int32(number + 3))
    stream.synchronize()
    tell_array("x", x.copy_to_host())


def bindings() -> None:
    """The driver's functions from Python: a module from NVRTC is loaded and unloaded."""
    from cuda.bindings import driver, nvrtc

    def checked(result: Any) -> Any:
        assert int(result[0]) == 0, result
        return result[1] if len(result) == 2 else result[1:]

    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
    x = np.arange(COUNT, dtype=np.uint32)
    memory = checked(driver.cuMemAlloc(x.nbytes))
    checked(driver.cuMemcpyHtoD(memory, x.ctypes.data, x.nbytes))
    types = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)
    for number in range(STEPS):
        source = (SOURCE % number).encode()
        program = checked(nvrtc.nvrtcCreateProgram(source, b"scale.cu", 0, [], []))
        checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
        code = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
        checked(nvrtc.nvrtcGetPTX(program, code))
        image = ctypes.create_string_buffer(code)
        module = checked(driver.cuModuleLoadData(ctypes.addressof(image)))
        function = checked(driver.cuModuleGetFunction(module, b"scale"))
        given = ((int(memory), COUNT, number + 3), types)
        grid = (COUNT // 128, 1, 1, 128, 1, 1, 0, 0)
        checked(driver.cuLaunchKernel(function, *grid, given, 0))
        checked(driver.cuCtxSynchronize())
        checked(driver.cuModuleUnload(module))
    checked(driver.cuMemcpyDtoH(x.ctypes.data, memory, x.nbytes))
    tell_array("x", x)


PROGRAMS = (triton, cupy_kernels, cupy_modules, cupy_graph, numba, bindings)

if __name__ == "__main__":
    run({program.__name__: program for program in PROGRAMS})
