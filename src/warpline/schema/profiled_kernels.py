"""Hardware counters per kernel launch, and what a report of Nsight Compute holds beside them."""

from __future__ import annotations

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.declaring import enum, number, ref, size, text, time
from warpline.schema.labels import MESSAGE_KINDS, SOURCE_KINDS, SPEEDUP_KINDS
from warpline.units import Unit

_LAUNCH = ref("profiled_kernel_id", "profiled_kernel", "Profiled launch.")


def _value(doc: str) -> tuple[Column, ...]:
    """Return the columns of a value that is a number or a text."""
    return (
        Column("value", DType.FLOAT64, Unit.NONE, f"{doc}; null for a text.", nullable=True),
        number("integer", "The same, if it is stored as an integer.", nullable=True),
        text("text", "The value if it is a text, or an integer of 64 bits or more.", nullable=True),
    )


PROFILED_KERNEL = TableSpec(
    "profiled_kernel",
    "One kernel launch, or range of launches, whose hardware counters were collected. Reports of "
    "Nsight Compute have no times, and the call lasts longer than in a normal run: profiling "
    "repeats and serializes launches.",
    (
        number("launch_number", "ID of the launch in its report or process."),
        ref("process_id", "process", "Launching process."),
        ref("thread_id", "thread", "Launching CPU thread.", nullable=True),
        time("start_ns", "Start of the launching call on the CPU, from the origin.", nullable=True),
        time("end_ns", "End of the launching call, with the passes of profiling.", nullable=True),
        number(
            "correlation_id",
            "CUDA correlation id of the launching call, unique within a process.",
            nullable=True,
        ),
        number(
            "earlier_launches",
            "Kernels that the process had launched before, profiled or not.",
            nullable=True,
        ),
        ref("device_id", "device", "GPU.", nullable=True),
        ref("context_id", "context", "CUDA context.", nullable=True),
        ref("stream_id", "stream", "CUDA stream.", nullable=True),
        text("name", "Demangled name with template arguments."),
        text("short_name", "Base name without arguments."),
        text("mangled_name", "Mangled name.", nullable=True),
        *(number(f"grid_{axis}", f"Blocks of the grid in {axis}.") for axis in "xyz"),
        *(number(f"block_{axis}", f"Threads of a block in {axis}.") for axis in "xyz"),
        number("registers_per_thread", "Registers per thread.", nullable=True),
        size("static_shared_bytes", "Static shared memory per block.", nullable=True),
        size("dynamic_shared_bytes", "Dynamic shared memory per block.", nullable=True),
        size("local_per_thread_bytes", "Local memory per thread.", nullable=True),
        text(
            "nvtx",
            "Open NVTX push/pop ranges of the launching thread, outermost first: "
            "RANGE/RANGE@DOMAIN, without the domain if it is the unnamed one.",
            nullable=True,
        ),
        Column(
            "has_fixed_clocks",
            DType.BOOL,
            Unit.NONE,
            "Whether the GPU's clocks were locked; null if unknown.",
            nullable=True,
        ),
        number("passes", "Times that the kernel ran to collect its metrics.", nullable=True),
        Column(
            "clock_drift_ratio",
            DType.FLOAT64,
            Unit.RATIO,
            "How much the clock of the SMs differed between the passes: (max - min) / max; null "
            "for one pass, or if unknown.",
            nullable=True,
        ),
        Column(
            "is_range",
            DType.BOOL,
            Unit.NONE,
            "Whether several kernels were counted as a whole, which may have run concurrently. "
            "Name is then that of the range, and there is no grid.",
            nullable=True,
        ),
        number("kernels", "Number of kernels that were counted.", nullable=True),
    ),
    ("launch_number", "process_id"),
)

KERNEL_METRIC = TableSpec(
    "kernel_metric",
    "One metric of a profiled launch. Without a value, the metric has only values of instances, or "
    "was not collected.",
    (
        _LAUNCH,
        text("name", "Name of the metric, as in ncu."),
        text("unit", "Unit of the value, not scaled: ns, byte, sector/s...", nullable=True),
        *_value("Value"),
        number("instances", "Number of rows in `metric_instance`."),
    ),
    ("profiled_kernel_id",),
)

METRIC_INSTANCE = TableSpec(
    "metric_instance",
    "One of the values that a metric has per instruction, opcode, sample or unit.",
    (
        ref("kernel_metric_id", "kernel_metric", "Metric."),
        number(
            "key",
            "What the value belongs to: address of an instruction, time of a sample, or number.",
            nullable=True,
        ),
        text("key_text", "The same, if it is a text, such as an opcode.", nullable=True),
        *_value("Value"),
    ),
    ("kernel_metric_id",),
)

KERNEL_SECTION = TableSpec(
    "kernel_section",
    "One section of the report for a profiled launch.",
    (
        _LAUNCH,
        number("position", "Place among the sections."),
        text("identifier", "Identifier, as for ncu --section.", nullable=True),
        text("title", "Title.", nullable=True),
    ),
    ("profiled_kernel_id", "position"),
)

SECTION_METRIC = TableSpec(
    "section_metric",
    "One line of a section: a metric and its label.",
    (
        ref("kernel_section_id", "kernel_section", "Section."),
        text("label", "Label."),
        text("name", "Name of the metric."),
        ref(
            "kernel_metric_id", "kernel_metric", "The metric; null without a value.", nullable=True
        ),
    ),
    ("kernel_section_id",),
)

KERNEL_RULE = TableSpec(
    "kernel_rule",
    "One message of a rule of Nsight Compute about a profiled launch.",
    (
        _LAUNCH,
        number("position", "Place of the section."),
        text("section", "Identifier of the section.", nullable=True),
        text("rule", "Identifier of the rule."),
        enum("kind", MESSAGE_KINDS, "Kind of message."),
        text("title", "Title.", nullable=True),
        text("text", "Message."),
        enum("speedup_kind", SPEEDUP_KINDS, "What the speedup is of.", nullable=True),
        Column(
            "speedup_percent",
            DType.FLOAT64,
            Unit.NONE,
            "Estimated speedup, in percent.",
            nullable=True,
        ),
    ),
    ("profiled_kernel_id", "position"),
)

KERNEL_INSTRUCTION = TableSpec(
    "kernel_instruction",
    "One machine instruction (SASS) of a profiled function: its bits, not its text.",
    (
        ref("process_id", "process", "Process."),
        number(
            "module_checksum",
            "CUPTI's checksum of the module; null in reports of Nsight Compute.",
            nullable=True,
        ),
        text("function", "Mangled name of the function."),
        size("offset_bytes", "Offset from the start of the function."),
        number(
            "address",
            "Address in the process: the key in `metric_instance`. Null in recordings.",
            nullable=True,
        ),
        text("encoding", "The bits of the instruction, in hexadecimal.", nullable=True),
        text("file", "Source file. Of inlined code, that of the inlined function.", nullable=True),
        number("line", "Line of the source file.", nullable=True),
        text(
            "caller_file",
            "Source file with the call of inlined code: the nearest one that is not in a header "
            "of CUDA or the system, or in Triton. Null for code that was not inlined.",
            nullable=True,
        ),
        number("caller_line", "Line of that call.", nullable=True),
        ref("ptx_line_id", "source_line", "Line of PTX.", nullable=True),
    ),
    ("process_id", "address", "module_checksum", "function_id", "offset_bytes"),
)

SOURCE_LINE = TableSpec(
    "source_line",
    "One line of source code in a report: CUDA C++, Python or PTX.",
    (
        number("module", "Number of the module in its report."),
        enum("kind", SOURCE_KINDS, "Language."),
        text("file", "Path of the file; null for PTX.", nullable=True),
        number("file_number", "Number of the file in the module."),
        number("line", "Number of the line, from 1."),
        text("text", "The line."),
    ),
    ("module", "file_number", "line"),
)

DEVICE_ATTRIBUTE = TableSpec(
    "device_attribute",
    "One property of a GPU, as the profiler read it from the driver.",
    (
        ref("device_id", "device", "GPU."),
        text("name", "Name."),
        *_value("Value"),
    ),
    ("device_id",),
)

TABLES = (
    PROFILED_KERNEL,
    KERNEL_METRIC,
    METRIC_INSTANCE,
    KERNEL_SECTION,
    SECTION_METRIC,
    KERNEL_RULE,
    KERNEL_INSTRUCTION,
    SOURCE_LINE,
    DEVICE_ATTRIBUTE,
)
