"""What frameworks record: operators, Python functions, modules, collectives."""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import (
    HOST_ORDER,
    SPAN,
    THREAD_ID,
    enum,
    flag,
    number,
    ref,
    size,
    text,
    time,
)
from warpline.schema.labels import (
    COMPILED_KERNEL_KINDS,
    FRAME_KINDS,
)

OP = TableSpec(
    "op",
    "One framework operator call on the CPU, such as aten::linear. Calls nest.",
    (
        *SPAN,
        ref("process_id", "process", "Process."),
        THREAD_ID,
        text("name", "Operator name."),
        number(
            "external_id",
            "The framework's id of the call, unique in its process.",
            nullable=True,
        ),
        number(
            "sequence",
            "Sequence number shared by a forward operator and its backward operators, within a "
            "process and forward thread.",
            nullable=True,
        ),
        number(
            "forward_thread",
            "For backward operators, the framework's id of the thread that ran the forward "
            "operator; otherwise 0 or null.",
            nullable=True,
        ),
        number("flops", "Floating-point operations, from the framework's formula.", nullable=True),
        text("input_shapes", "Input shapes, as JSON.", nullable=True),
        text("input_dtypes", "Input element types, as JSON.", nullable=True),
        text("input_strides", "Input strides, as JSON.", nullable=True),
        text("input_values", "Values of non-tensor inputs, as JSON.", nullable=True),
        text("module", "Enclosing modules, outermost first, if recorded.", nullable=True),
        text("stack", "Calling source lines, if recorded.", nullable=True),
    ),
    (*HOST_ORDER, "external_id"),
)

PYTHON_FRAME = TableSpec(
    "python_frame",
    "One call of a Python function or a module of the model, as recorded by the framework. Calls "
    "nest.",
    (
        *SPAN,
        ref("process_id", "process", "Process."),
        THREAD_ID,
        text("name", "Function with file and line, or module class with number."),
        enum("kind", FRAME_KINDS, "Kind of the callee."),
        number("frame_id", "The framework's id of the call.", nullable=True),
        number("parent_frame_id", "Id of the enclosing call.", nullable=True),
        number("module_number", "Number of the module within its class.", nullable=True),
    ),
    (*HOST_ORDER, "frame_id"),
)

COLLECTIVE = TableSpec(
    "collective",
    "One call of a collective or point-to-point operation, from NCCL's NVTX ranges or the "
    "framework's operators.",
    (
        *SPAN,
        ref("process_id", "process", "Calling process."),
        THREAD_ID,
        ref("range_id", "range", "Source range, if any.", nullable=True),
        text("operation", "Name as recorded, such as ncclAllReduce or allreduce."),
        size("bytes", "Message size.", nullable=True),
        text("dtype", "Element type.", nullable=True),
        text("reduction", "Reduction operation.", nullable=True),
        text("communicator", "Communicator id in hexadecimal, or its name.", nullable=True),
        number("rank", "Caller's rank in the communicator.", nullable=True),
        number("rank_count", "Number of ranks in the communicator.", nullable=True),
        number("peer", "Root or peer rank.", nullable=True),
        number("sequence", "Position among the process's calls on this communicator."),
        ref("op_id", "op", "Source operator, if any.", nullable=True),
        text("ranks", "Ranks in the communicator, as recorded.", nullable=True),
    ),
    (*HOST_ORDER, "range_id"),
)

NCCL_OP = TableSpec(
    "nccl_op",
    "One operation that NCCL put into a kernel, from its profiler plug-in interface.",
    (
        time("time_ns", "When NCCL had launched or captured the kernel, or a graph with it ran."),
        time("call_ns", "When the program called NCCL, from NCCL 2.28 on.", nullable=True),
        ref("process_id", "process", "Process."),
        THREAD_ID,
        text("name", "Operation, such as AllReduce or Send."),
        number("count", "Elements, as NCCL counts them for the operation.", nullable=True),
        size("bytes", "Size of these elements.", nullable=True),
        text("dtype", "Element type, such as bfloat16.", nullable=True),
        text("communicator", "Communicator id in hexadecimal.", nullable=True),
        text("communicator_name", "Name that the program gave it.", nullable=True),
        number("rank", "Rank in the communicator."),
        number("rank_count", "Number of ranks in it, from NCCL 2.27 on.", nullable=True),
        number("node_count", "Number of nodes in it, from NCCL 2.27 on.", nullable=True),
        number("peer", "Root or peer rank.", nullable=True),
        number("sequence", "Number among its operations of this name.", nullable=True),
        text("algorithm", "Algorithm, such as RING, TREE or NVLS.", nullable=True),
        text("protocol", "Protocol: LL, LL128 or SIMPLE.", nullable=True),
        number("channels", "Channels, of which each is a block of the kernel.", nullable=True),
        number("warps", "Warps per channel.", nullable=True),
    ),
    ("time_ns", "thread_id", "rank"),
)

MODULE = TableSpec(
    "module",
    "A module of a PyTorch model that was called, or is in one. Its calls are ranges with the same "
    "name, in the domain nn.Module.",
    (
        ref("process_id", "process", "Process."),
        text("name", "Path: the class of the root, then names of attributes, as in GPT.blocks.0."),
        text("class_name", "Class."),
        number(
            "parameters",
            "Number of elements of its own parameters, without those of modules in it; null if "
            "their shapes were not known yet.",
            nullable=True,
        ),
        size("parameter_bytes", "Size of these parameters.", nullable=True),
        flag(
            "is_training",
            "Whether it was in training mode when it was first called.",
            nullable=True,
        ),
    ),
    ("process_id", "name_id"),
)

COMPILED_KERNEL = TableSpec(
    "compiled_kernel",
    "A kernel or operator that code from torch.compile calls, as in Inductor's Python code. Calls "
    "of this code are ranges in the domain torch.compile.",
    (
        ref("process_id", "process", "Process."),
        text("graph", "Name of the ranges, with the id and the direction of the compilation."),
        number("position", "Its place among the calls of that code, from 0."),
        text("kernel", "Name of the Triton or C++ kernel, or of the operator, such as addmm."),
        enum("kind", COMPILED_KERNEL_KINDS, "Triton kernel, operator, or C++ kernel on the CPU."),
        text("nodes", "Nodes of the graph that it was made from, as JSON, in their order."),
        text("operators", "Their operators before Inductor, as JSON."),
        text(
            "module",
            "The module that it belongs to: its path below the code that was compiled, the root's "
            "class first; null if unknown.",
            nullable=True,
        ),
        text("class_name", "The module's class.", nullable=True),
        text("file", "Source file.", nullable=True),
        number("line", "Line in it.", nullable=True),
        flag("is_backward", "Whether the code is of the backward pass."),
    ),
    ("process_id", "graph_id", "position"),
)

TABLES = (
    OP,
    PYTHON_FRAME,
    COLLECTIVE,
    NCCL_OP,
    MODULE,
    COMPILED_KERNEL,
)
