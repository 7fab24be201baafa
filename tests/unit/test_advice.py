"""Advice in the words of the recorded program: PyTorch, JAX, or neither."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.any_trace import empty_trace
from support.machine import Machine
from support.programs import D2H, Program

import warpline
from warpline import plugins
from warpline.derived.collectives.advice import longest_operation, overlap_advice
from warpline.derived.efficiency.profiler import counter_profiler
from warpline.derived.program import calls_hip, is_compiled, is_training, program_kind
from warpline.presentation.blocks import Block, FindingBlock, Section
from warpline.presentation.findings import findings, findings_in_short
from warpline.result import ANALYSES, RULES, Finding, Skipped
from warpline.trace import MemorySource, Run, Trace

plugins.load("analyses")

PYTORCH = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"
MANGLED = "_ZN2at6native29vectorized_elementwise_kernelILi4E"
XLA = "loop_add_multiply_fusion_3"
OWN = "saxpy(double *, double *, double *, double)"
GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3"
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float>(int)"
CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc"
STEP_NS = 100_000


def program(*kernels: str, ranges: tuple[str, ...] = (), waits: bool = True) -> Trace:
    """Return six steps that each launch 20 us kernels, and wait for the last."""
    made = Program()
    for number in range(6):
        start = number * STEP_NS
        made.step(number, start, start + STEP_NS)
        for place, name in enumerate(kernels):
            begun = start + 5_000 + place * 20_000
            call, work = start + 1_000 * place, (begun, begun + 20_000)
            made.launch(call, call + 500, work, name)
        if waits:
            made.wait_for_stream(start + 10_000, start + 5_000 + len(kernels) * 20_000)
    for place, name in enumerate(ranges):
        made.rows["range"].append({**made.rows["range"][0], "name": name, "source_id": 100 + place})
    return made.trace()


def finding(trace: Trace, rule: str) -> Finding:
    return next(item for item in warpline.analyze(trace).findings if item.rule == rule)


@pytest.mark.parametrize(
    ("kernel", "ranges", "wanted"),
    [
        (PYTORCH, (), "pytorch"),
        (MANGLED, (), "pytorch"),
        ("triton_poi_fused_add_mul_0", (), "pytorch"),
        (GEMM, ("aten::mm, seq = 12",), "pytorch"),
        (GEMM, ("Optimizer.step#AdamW.step",), "pytorch"),
        (GEMM, ("torch:Optimizer.step#AdamW.step",), "pytorch"),
        (GEMM, ("nn.Module:GPT.blocks.0",), "pytorch"),
        (XLA, (), "jax"),
        ("input_reduce_fusion", (), "jax"),
        ("gemm_fusion_dot_12", (), "jax"),
        ("wrapped_transpose", (), "jax"),
        (GEMM, ("TSL:XlaModule:#hlo_module=jit_train_step,program_id=3#",), "jax"),
        (GEMM, (), "cuda"),
        (OWN, ("solve", "exchange halo"), "cuda"),
        ("sensor_fusion(float *)", ("jit_compile",), "cuda"),
        ("data::native::add(float *)", (), "cuda"),
        ("nvkernel_MAIN__F1L12_2_", (), "cuda"),
    ],
)
def test_kinds_of_programs(kernel: str, ranges: tuple[str, ...], wanted: str) -> None:
    assert program_kind(program(kernel, ranges=ranges)) == wanted


def test_pytorch_with_xla_like_kernels_is_pytorch() -> None:
    assert program_kind(program(XLA, PYTORCH)) == "pytorch"


def test_without_kernels_the_program_is_unknown() -> None:
    assert program_kind(empty_trace()) is None
    copies = Program()
    copies.copy(0, 1_000, (2_000, 9_000), 1 << 20)
    assert program_kind(copies.trace()) is None


@pytest.mark.parametrize(
    ("name", "kernel", "wanted"),
    [
        ("/usr/bin/python3.12", GEMM, None),  # a framework that only calls libraries, perhaps
        ("python3", PYTORCH, "pytorch"),
        ("python3", "cupy_add__float32_float32_float32", "cuda"),
        ("python", "_ZN6cudapy8__main__4axpyB2v1", "cuda"),
        ("./pythonia", GEMM, "cuda"),
    ],
)
def test_in_python_a_library_s_kernels_tell_nothing(
    name: str, kernel: str, wanted: str | None
) -> None:
    tables: dict[str, dict[str, list[Any]]] = {
        "process": {"pid": [1], "name": [name]},
        "device": {"gpu_index": [0]},
        "kernel": {"start_ns": [0], "end_ns": [1_000], "name": [kernel], "device_id": [0]},
    }
    assert program_kind(Trace(MemorySource(tables))) == wanted


def section_of(blocks: Iterable[Block]) -> Iterable[Block]:
    (section,) = blocks
    assert isinstance(section, Section)
    return section.blocks


def facts_in(blocks: Iterable[Block]) -> list[tuple[str, str]]:
    return [fact for block in blocks if isinstance(block, FindingBlock) for fact in block.facts]


SYNC_CUDA = (
    "Copy results to pinned memory with cudaMemcpyAsync and record an event after the copy. Read"
    " the value in a later step, once cudaEventQuery succeeds. Remove cudaStreamSynchronize and"
    " cudaDeviceSynchronize from the loop."
)
SYNC_PYTORCH = (
    "Accumulate metrics in a GPU tensor and read them every N steps. Replace .item(), float(),"
    " print(), nonzero(), and branches on tensors with torch.where or masks. Copy to pinned memory"
    " with non_blocking=True."
)
SYNC_JAX = (
    "Keep results on the GPU, and read them every N steps: float(x), .item(), np.asarray(x),"
    " print(x), jax.device_get, and block_until_ready wait for the GPU. Replace branches on arrays"
    " with jnp.where or lax.cond."
)


@pytest.mark.parametrize(
    ("kernel", "fix", "fix_cuda"),
    [
        (PYTORCH, SYNC_PYTORCH, SYNC_CUDA),
        (XLA, SYNC_JAX, SYNC_CUDA),
        (OWN, SYNC_CUDA, ""),
    ],
)
def test_the_fix_is_for_the_program(kernel: str, fix: str, fix_cuda: str) -> None:
    diagnosis = warpline.analyze(program(kernel))
    facts = next(item for item in diagnosis.to_dict()["findings"] if item["rule"] == "host-sync")
    assert (facts["fix"], facts["fix_cuda"]) == (fix, fix_cuda)
    assert "fix_in" not in facts
    assert ("Fix", fix) in facts_in(section_of(findings_in_short(diagnosis)))
    whole = facts_in(findings(diagnosis))
    assert ("Fix", fix) in whole
    assert (("In CUDA C++", SYNC_CUDA) in whole) == bool(fix_cuda)


def advice(**more: Any) -> Finding:
    return Finding("x", "low", "A title", "A claim.", (), "Use torch.", "Look.", **more)


def test_advice_falls_back_to_cuda_then_to_what_there_is() -> None:
    both = advice(fix_cuda="Use CUDA.")
    assert both.for_program("jax").fix == both.for_program("cuda").fix == "Use CUDA."
    assert both.for_program("jax").fix_cuda == ""
    assert both.for_program("pytorch") == both.for_program(None) == both
    assert advice().for_program("cuda") == advice()
    own = advice(fix_cuda="Use CUDA.", fix_in={"jax": "Use jit."})
    assert (own.for_program("jax").fix, own.for_program("jax").fix_cuda) == (
        "Use jit.",
        "Use CUDA.",
    )


def test_layout_advice_names_channels_last_only_with_convolutions() -> None:
    convolutions = finding(program(LAYOUT, CONVOLUTION, PYTORCH), "layout-copies")
    assert "torch.channels_last" in convolutions.fix
    assert "torch.compile" in convolutions.fix
    compiled = program(LAYOUT, CONVOLUTION, "triton_poi_fused_add_0")
    assert "torch.compile" not in finding(compiled, "layout-copies").fix
    assert "NHWC" in convolutions.fix_cuda
    language = finding(program(LAYOUT, GEMM, PYTORCH), "layout-copies")
    assert language.fix == (
        "Remove pairs of .contiguous(), .transpose(), and .permute(). Store tensors in the order of"
        " dimensions in which the next operators read them: GEMMs and many other operators also"
        " take strided tensors."
    )
    assert language.fix_cuda == (
        "Read with strides instead of transposing first. Fold transposes into the GEMM"
        " (CUBLAS_OP_T)."
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("backward", True),
        ("optimizer_step", True),
        ("Optimizer.step#AdamW.step", True),
        ("autograd::engine::evaluate_function: AddmmBackward0", True),
        ("OptimizedModule", False),
        ("forward", False),
        ("decode", False),
    ],
)
def test_training_has_a_backward_pass_or_an_optimizer(name: str, wanted: bool) -> None:
    assert is_training(program(PYTORCH, ranges=(name,))) is wanted


def fed(*ranges: str) -> Trace:
    """Return six steps of 2 ms whose batch takes 1.5 ms on the CPU."""
    made = Program()
    for number in range(6):
        start = number * 2_000_000
        made.step(number, start, start + 2_000_000)
        copied = start + 1_500_000
        made.copy(copied, copied + 5_000, (copied + 6_000, copied + 50_000), 1 << 20)
        made.launch(copied + 10_000, copied + 15_000, (copied + 60_000, copied + 400_000), PYTORCH)
    for place, name in enumerate(ranges):
        made.rows["range"].append({**made.rows["range"][0], "name": name, "source_id": 100 + place})
    return made.trace()


def test_only_training_is_told_about_the_data_loader() -> None:
    # Without samples, the last sentence says how to record the line.
    line = " To name the line, profile with -s process-tree --python-sampling=true."
    assert finding(fed("backward"), "input-bound").fix == (
        "Raise num_workers and prefetch_factor of the DataLoader. Set pin_memory=True. Move"
        f" decoding and augmentation to workers or the GPU.{line}"
    )
    assert finding(fed("prefill"), "input-bound").fix == (
        "Prepare the next batch ahead, in other threads or processes. Put it into pinned memory,"
        f" and copy it with non_blocking=True while the GPU processes the current one.{line}"
    )


@pytest.mark.parametrize(
    ("recording", "rule", "words"),
    [
        ("host_sync", "host-sync", ("block_until_ready", "jax.device_get", "float(x)")),
        ("tiny_kernels", "graph-opportunity", ("jax.jit", "lax.scan")),
        ("loader", "input-bound", ("prefetch", "jax.device_put")),
        ("allocator", "allocator", ("XLA_PYTHON_CLIENT_PREALLOCATE",)),
        ("fp32_matmul", "no-tensor-cores", ("jax_default_matmul_precision", "BF16")),
    ],
)
def test_rules_have_advice_for_jax(
    recording: str, rule: str, words: tuple[str, ...], data_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"{recording}.warpline"
    packed = (data_dir / "faults" / f"{recording}.bad.warpline.xz").read_bytes()
    path.write_bytes(lzma.decompress(packed))
    found, *_ = RULES.get(rule).judge(Run(warpline.open(path)))  # type: ignore[misc]
    assert isinstance(found, Finding)
    told = found.for_program("jax").fix
    assert all(word in told for word in words)
    assert "torch" not in told


def dispatched(*, reads: bool = False, copied: int = 0, unequal: bool = False) -> Trace:
    """Return steps in JAX of 60 small functions, each dispatched in 30 us by Python."""
    machine = Machine()
    for number in range(12):
        for place in range(60 + 2 * (unequal and number)):
            machine.work(30_000)
            machine.launch(2_000, f"loop_add_fusion_{place}")
        if copied:
            machine.copy(copied, pinned=True)
            machine.program.rows["memcpy"][-1].update(kind=8, src_memory=2, dst_memory=2)
        if reads:
            machine.read()
        machine.end_step()
    return machine.trace()


def test_a_jax_program_is_not_told_to_capture_graphs() -> None:
    plain = finding(dispatched(), "graph-opportunity").for_program("jax")
    assert plain.title.endswith("; compile it as one function")
    words = ("one jax.jit", "lax.scan", "unroll=", "lax.associative_scan", "donate_argnums")
    assert all(word in plain.fix for word in words)
    assert "copy that once at the end" not in plain.fix
    assert "of the time" not in plain.fix
    assert "apture" not in f"{plain.claim}{plain.fix}"
    reading = finding(dispatched(reads=True), "graph-opportunity").for_program("jax")
    assert "lax.while_loop" in reading.fix
    assert "copy that once at the end" in reading.fix
    assert "read results after the step" in reading.claim
    # 40 MB at 50 GB/s, 801 us, in steps of 61 launches each 36 us apart
    copying = finding(dispatched(copied=40_000_000), "graph-opportunity").for_program("jax")
    assert "Copies from GPU to GPU memory take 3" in copying.fix


def test_unequal_steps_and_gaps_in_jax_have_its_words() -> None:
    found = finding(dispatched(unequal=True), "launch-bound").for_program("jax")
    assert "lax.while_loop" in found.fix
    assert "donate_argnums" in found.fix
    machine = Machine()
    for _ in range(12):
        machine.work(8_000_000)
        for place in range(10):
            machine.launch(200_000, f"loop_add_fusion_{place}")
        machine.end_step()
    gaps = finding(machine.trace(), "launch-bound")
    assert gaps.title.startswith("Long CPU gaps")
    assert "lax.while_loop" in gaps.for_program("jax").fix
    assert "lax" not in gaps.fix_in.get("pytorch", "")


def test_real_pytorch_programs_are_known(data_dir: Path, tmp_path: Path) -> None:
    for packed in sorted((data_dir / "faults").glob("*.bad.warpline.xz")):
        path = tmp_path / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        assert program_kind(warpline.open(path)) == "pytorch", packed.name


def collective(operation: str, *ranges: str) -> Trace:
    """Return six steps whose collective takes 40 us that nothing overlaps."""
    return program(PYTORCH, f"ncclDevKernel_{operation}_RING_LL", ranges=ranges, waits=False)


@pytest.mark.parametrize(
    ("operation", "ranges", "words"),
    [
        ("AllReduce_Sum_f32", ("backward",), "use DistributedDataParallel("),
        ("AllReduce_Sum_f32", ("DistributedDataParallel.forward",), "bucket_cap_mb"),
        ("AllReduce_Sum_f32", ("decode",), "sequence parallelism"),
        ("AllGather", ("backward",), "forward_prefetch=True"),
        ("ReduceScatter_Sum_bf16", ("backward",), "forward_prefetch=True"),
        ("SendRecv", ("nccl:all_to_all",), "chunks"),
        ("SendRecv", (), "micro-batches"),
        ("Broadcast", (), "broadcast_buffers=False"),
        ("Gather", (), "async_op=True"),
    ],
)
def test_how_to_overlap_depends_on_the_collective(
    operation: str, ranges: tuple[str, ...], words: str
) -> None:
    found = finding(collective(operation, *ranges), "exposed-communication")
    assert words in found.fix
    assert ("Group small buffers" in found.fix_cuda) == operation.startswith("AllReduce")


def test_the_longest_collective_gives_the_advice() -> None:
    made = Program()
    for number in range(6):
        start = number * STEP_NS
        made.step(number, start, start + STEP_NS)
        gather, reduce = (start + 2_000, start + 32_000), (start + 40_000, start + 60_000)
        made.launch(start, start + 500, gather, "ncclDevKernel_AllGather_RING_LL")
        made.launch(start + 1_000, start + 1_500, reduce, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    collectives = np.ones(12, np.bool_)
    assert longest_operation(made.trace(), collectives) == "AllGather"
    collectives[::2] = False
    assert longest_operation(made.trace(), collectives) == "AllReduce"
    assert longest_operation(made.trace(), np.zeros(12, np.bool_)) == ""


def allocating(calls: int, prefix: str = "cuda") -> Trace:
    """Return six steps of 25 kernels, with calls that allocate 2 us each."""
    made = Program()
    for number in range(6):
        start = number * STEP_NS
        made.step(number, start, start + STEP_NS)
        for place in range(25):
            begun = start + 3_000 * place
            made.launch(begun, begun + 500, (begun + 600, begun + 1_000), PYTORCH)
            if place < calls:
                made.call(f"{prefix}Malloc", begun + 500, begun + 2_500)
    return made.trace()


def test_memory_allocated_by_every_operator_means_no_caching_allocator() -> None:
    few, many = finding(allocating(12), "allocator"), finding(allocating(20), "allocator")
    assert few.fix.startswith("Remove torch.cuda.empty_cache()")
    assert "in 12 calls that allocate or free memory, which" in few.claim
    assert many.fix.startswith("Unset PYTORCH_NO_CUDA_MEMORY_CACHING,")
    assert "PyTorch's caching allocator seems to be off." in many.claim
    one = finding(allocating(1), "allocator")
    assert "in 1 call that allocates or frees memory" in one.claim


def test_advice_names_hip_s_functions_on_amd() -> None:
    assert calls_hip(allocating(1, "hip"))
    assert not calls_hip(allocating(1))
    found = finding(allocating(20, "hip"), "allocator")
    assert "hipFree also synchronizes" in found.claim
    assert "PYTORCH_NO_HIP_MEMORY_CACHING" in found.fix
    assert "hipMallocAsync" in found.fix_cuda
    assert "cuda_api_sum` shows no hipMalloc or hipFree" in found.verify
    pinned = advice(fix_cuda="Use cudaHostAlloc, not torch.cuda or cudaMallocAsync.").for_hip()
    assert pinned.fix_cuda == "Use hipHostMalloc, not torch.cuda or hipMallocAsync."


@pytest.mark.parametrize(
    ("kernels", "wanted"),
    [
        (["triton_poi_fused_add_mul_0"], True),
        (["triton_poi_fused_add_mul_0", *[PYTORCH] * 19], True),
        (["triton_poi_fused_add_mul_0", *[PYTORCH] * 20], False),
        ([PYTORCH], False),
        (["triton_attention"], False),
    ],
)
def test_compiled_programs_launch_inductor_s_kernels(kernels: list[str], wanted: bool) -> None:
    assert is_compiled(program(*kernels)) is wanted


def test_without_kernels_ranges_show_what_is_compiled() -> None:
    for name in ("Torch-Compiled Region: 0/0", "## Call CompiledFxGraph abc ##", "forward"):
        made = Program()
        made.step(0, 0, 10)
        made.rows["range"][0]["name"] = name
        assert is_compiled(made.trace()) is (name != "forward")


def irregular(kernel: str, *ranges: str, reads: int = 0) -> Trace:
    """Return six steps that each launch some more kernels than the last, with long gaps."""
    made = Program()
    for number in range(6):
        start = number * STEP_NS
        made.step(number, start, start + STEP_NS)
        for place in range(10 + number):
            begun = start + 5_000 * place
            made.launch(begun, begun + 4_000, (begun + 4_500, begun + 5_500), kernel)
        for place in range(reads):
            begun = start + 80_000 + 5_000 * place
            made.copy(begun, begun + 1_000, (begun + 500, begun + 900), 4, D2H)
    for place, name in enumerate(ranges):
        made.rows["range"].append({**made.rows["range"][0], "name": name, "source_id": 100 + place})
    return made.trace()


@pytest.mark.parametrize(
    ("trace", "words", "absent"),
    [
        (irregular(PYTORCH, "backward"), ("Use torch.compile,", "training thread"), "reduce"),
        (irregular(PYTORCH), ("Use torch.compile,", "postprocessing"), "training"),
        (irregular("triton_poi_fused_add_0"), ("mode='reduce-overhead'",), "Use torch.compile"),
        (irregular(OWN), ("Merge small kernels. Launch repeated",), "torch"),
        (irregular(OWN, reads=2), ("Keep results that decide", "CUDA graphs"), "dedicated"),
    ],
)
def test_launch_bound_programs_are_told_what_they_do_not_do_yet(
    trace: Trace, words: tuple[str, ...], absent: str
) -> None:
    found = finding(trace, "launch-bound")
    assert all(word in found.fix for word in words)
    assert absent not in found.fix
    has_reads = words[0].startswith("Keep")
    assert ("reads back 2 results per step" in found.claim) == has_reads
    # A share without a saving puts a finding first. Reads come before the launches they delay.
    assert (found.share is None) == has_reads


@pytest.mark.parametrize(("count", "is_repeated"), [(8, False), (40, True)])
def test_a_few_launches_without_steps_may_be_start_up(count: int, is_repeated: bool) -> None:
    made = Program()
    for place in range(count):
        at = place * 50_000
        made.launch(at, at + 4_000, (at + 4_500, at + 5_500), f"kernel_{place}")
    assert (finding(made.trace(), "launch-bound").share is not None) == is_repeated


def chains(kernel: str) -> Trace:
    """Return six steps of 400 us with four GEMMs, each before two elementwise kernels."""
    made = Program()
    for number in range(6):
        start = number * 4 * STEP_NS
        made.step(number, start, start + 4 * STEP_NS)
        for place in range(4):
            at = start + place * STEP_NS
            made.launch(at, at + 500, (at + 2_000, at + 32_000), GEMM)
            made.launch(at + 1_000, at + 1_500, (at + 32_000, at + 52_000), PYTORCH)
            made.launch(at + 2_000, at + 2_500, (at + 52_000, at + 72_000), kernel)
    return made.trace()


def test_compiled_programs_are_told_about_graph_breaks_after_gemms() -> None:
    plain = finding(chains(PYTORCH), "unfused-epilogue")
    assert plain.fix.startswith("Use torch.compile, built-in bias")
    compiled = finding(chains("triton_poi_fused_add_0"), "unfused-epilogue")
    assert "TORCH_LOGS=graph_breaks" in compiled.fix


def repeated(kernel: str) -> Trace:
    """Return six steps of 25 launches that the GPU waits for, and one result read back."""
    made = Program()
    for number in range(6):
        start = number * 3 * STEP_NS
        made.step(number, start, start + 3 * STEP_NS)
        for place in range(25):
            begun = start + 8_000 * place
            made.launch(begun, begun + 7_000, (begun + 7_500, begun + 8_500), kernel)
        read = start + 210_000
        made.copy(read, read + 5_000, (read + 3_000, read + 4_000), 4, D2H)
    return made.trace()


def test_results_that_are_read_back_are_named_before_capture() -> None:
    found = finding(repeated(PYTORCH), "graph-opportunity")
    assert found.fix.startswith("Capture the step as a CUDA graph with torch.compile(")
    assert found.claim.endswith(
        " Before capture, remove 1 synchronizing or allocating call per step. The CPU reads back 1"
        " result per step: read results after the graph, or every few steps."
    )


def test_compiled_programs_are_told_how_to_launch_graphs() -> None:
    found = finding(repeated("triton_poi_fused_add_0"), "graph-opportunity")
    assert found.fix.startswith("Launch the compiled parts as CUDA graphs, with mode='reduce-")
    assert "torch.compile" not in found.fix


@pytest.mark.parametrize("kernel", [OWN, "Cijk_Alik_Bljk_BBS_BH_MT128x128x64"])
def test_nsight_compute_is_for_nvidia_gpus(kernel: str) -> None:
    table = ANALYSES.get("counter_candidates").compute(program(kernel), ())
    assert isinstance(table, Skipped) == (kernel != OWN)
    assert isinstance(ANALYSES.get("counter_candidates").compute(allocating(1, "hip"), ()), Skipped)


def test_what_remains_of_overlapped_all_reduces_starts_earlier() -> None:
    trace = collective("AllReduce_Sum_f32", "backward")
    every = np.arange(12) % 2 == 1  # after a kernel in each step
    rest = overlap_advice(trace, every, is_overlapped=True)
    assert rest.fix.startswith("Start the exposed collectives earlier or make them shorter: tune")
    assert rest.fix_cuda.startswith("Start the exposed collectives earlier, each after an event")
    inference = overlap_advice(collective("AllReduce_Sum_f32"), every, is_overlapped=True)
    assert "sequence parallelism" in inference.fix


@pytest.mark.parametrize(
    ("name", "ranges", "in_buckets"),
    [
        ("AllReduce_Sum_f32", ("backward",), True),  # gradients
        ("AllReduce_Sum_f32", (), False),  # activations
        ("AllGather", (), True),
    ],
)
def test_all_reduces_of_activations_do_not_wait_for_buckets(
    name: str, ranges: tuple[str, ...], in_buckets: bool
) -> None:
    trace = collective(name, *ranges)
    (found,) = RULES.get("exposed-communication").judge(Run(trace))  # type: ignore[misc]
    assert isinstance(found, Finding)
    assert bool(found.changes) == in_buckets


def test_hardware_counters_are_measured_with_the_profiler_of_the_gpus() -> None:
    assert counter_profiler(program(OWN)) == "Nsight Compute (ncu)"
    assert counter_profiler(allocating(1, "hip")) == "rocprof-compute"
    assert counter_profiler(program("Cijk_Ailk_Bjlk_BBS_BH_MT128x128x32_SN")) == "rocprof-compute"
