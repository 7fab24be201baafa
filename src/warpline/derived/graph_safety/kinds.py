"""What prevents the capture of a step: each kind of offender, why, and how to fix it."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of offender.

    Attributes:
        name: Its name, also in JSON.
        title: A few words.
        why: What happens if it is captured.
        fix: What to do, for PyTorch programs.
        fix_cuda: What to do in CUDA C++.
    """

    name: str
    title: str
    why: str
    fix: str
    fix_cuda: str


CPU_READ = Kind(
    "cpu-read",
    "CPU read of a GPU value",
    "The CPU waits for the value, which is an error during capture. Where a branch depends on it,"
    " each replay takes the captured branch.",
    "Read values after the replay. Replace .item(), float(), print(), .cpu(), nonzero(), unique(),"
    " boolean indexing and branches on tensors with torch.where, masks, or tensors of fixed size.",
    "Read results after the graph launch. Replace branches on results with predicates in kernels,"
    " or with conditional nodes.",
)
SYNCHRONIZATION = Kind(
    "synchronization",
    "synchronization",
    "Waiting for a stream, an event, or the device is an error during capture.",
    "Remove it, or call it after the replay. Streams wait for each other with wait_stream() and"
    " wait_event(), which are captured.",
    "Remove it, or call it after cudaGraphLaunch. Order streams with cudaEventRecord and"
    " cudaStreamWaitEvent, which are captured.",
)
PAGEABLE_COPY = Kind(
    "pageable-copy",
    "pageable copy",
    "PyTorch refuses copies between pageable CPU memory and the GPU during capture. A replay would"
    " copy from the same address, whatever it then holds.",
    "Create tensors on the GPU (device='cuda'), also constants and random numbers. Copy inputs"
    " into static GPU tensors before the replay.",
    "Copy inputs into static GPU buffers before cudaGraphLaunch, from pinned memory.",
)
BLOCKING_COPY = Kind(
    "blocking-copy",
    "blocking copy",
    "The synchronization after the copy is an error during capture.",
    "Use non_blocking=True, and copy inputs into static GPU tensors before the replay.",
    "Use cudaMemcpyAsync from pinned memory, without a synchronization.",
)
SYNCHRONOUS_CALL = Kind(
    "synchronous-call",
    "synchronous copy or memset",
    "cudaMemcpy and cudaMemset use the legacy default stream and wait, which is an error during"
    " capture.",
    "Use torch operations, or the Async functions on torch.cuda.current_stream(), in extensions.",
    "Use cudaMemcpyAsync and cudaMemsetAsync on the captured stream.",
)
ALLOCATION = Kind(
    "allocation",
    "memory allocation",
    "In every step, memory is allocated outside the graph's memory pool. cudaMalloc and"
    " cudaHostAlloc are errors during capture. If PyTorch's allocator makes them, memory grows, and"
    " replays write to the same blocks again.",
    "Allocate before capture. Keep no tensors of the step in lists: copy what is needed with"
    " clone() after the replay. Call pin_memory() before the loop.",
    "Allocate before capture, or use cudaMallocAsync, which is captured.",
)
FREE = Kind(
    "free",
    "memory free",
    "cudaFree and similar calls synchronize, which is an error during capture.",
    "Remove torch.cuda.empty_cache() from the step. If memory is tight, set"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    "Free after the last graph launch, or use cudaFreeAsync, which is captured.",
)
QUERY = Kind(
    "query",
    "event or stream query",
    "Queries are errors during capture.",
    "Call event.query() and stream.query() outside the captured part.",
    "Call cudaEventQuery and cudaStreamQuery outside the captured part.",
)
MODULE_LOAD = Kind(
    "module-load",
    "module loading",
    "Loading code may synchronize and allocate, which is an error during capture.",
    "Keep shapes and dtypes constant, so that nothing is compiled in later steps, and run three"
    " steps before capture.",
    "Load modules before capture, or set CUDA_MODULE_LOADING=EAGER.",
)
RECAPTURE = Kind(
    "recapture",
    "capture in each step",
    "A capture within a capture is an error, and a graph pays off only if it is replayed.",
    "Capture once before the loop, and call replay() in it.",
    "Capture and instantiate once before the loop.",
)
UNSUPPORTED = Kind(
    "unsupported-call",
    "function that cannot be captured",
    "CUDA does not support this function during capture.",
    "Move it out of the captured part.",
    "Move it out of the captured part; cudaLaunchHostFunc, in place of cudaStreamAddCallback, is"
    " captured.",
)
CHANGING_SHAPES = Kind(
    "changing-shapes",
    "changing sizes",
    "Sizes of launches or copies differ between steps. A graph repeats the captured sizes, so a"
    " replay works on the wrong number of elements.",
    "Pad inputs to a fixed shape, or to a few, and capture one graph for each shape"
    " (torch.compile(mode='reduce-overhead') does this).",
    "Pad inputs to a fixed size, capture one graph for each size, or update the graph with"
    " cudaGraphExecKernelNodeSetParams.",
)
CHANGING_WORK = Kind(
    "changing-work",
    "changing work",
    "Some steps launch other work. A graph repeats the captured operations, whatever Python would"
    " do in that step.",
    "Move work of single steps, such as logging and evaluation, out of the captured part. Capture"
    " one graph for each variant, such as steps with and without an optimizer step.",
    "Capture one graph for each variant, or move the work of single steps out of the graph.",
)
UNJOINED = Kind(
    "unjoined-stream",
    "unjoined stream",
    "A stream belongs to a capture only if it first waits for an event of the captured stream. The"
    " captured stream must wait for it at the end (cudaErrorStreamCaptureUnjoined).",
    "Call side.wait_stream(main) before the work on the side stream, and main.wait_stream(side)"
    " after it, both within the step. Prefetch inputs outside the captured part.",
    "Record an event on the captured stream and call cudaStreamWaitEvent on the other one; join it"
    " in the same way at the end.",
)
LEGACY_STREAM = Kind(
    "legacy-stream",
    "legacy default stream",
    "The step runs on another stream. Work on the default stream is not captured: replays lack it,"
    " or the capture fails (cudaErrorStreamCaptureImplicit).",
    "Launch all work of the step on torch.cuda.current_stream(), also in extensions.",
    "Pass the captured stream to all launches and libraries (cublasSetStream, cudnnSetStream).",
)
RANDOM_NUMBERS = Kind(
    "random-numbers",
    "cuRAND generator",
    "The state of a cuRAND host generator is fixed at capture: each replay draws the same numbers.",
    "Use PyTorch's generator for the GPU, whose offset advances with each replay.",
    "Generate random numbers outside the graph, or keep the state in GPU memory with cuRAND's"
    " device API.",
)
