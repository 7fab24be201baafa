"""The parts of the memory hierarchy and what flows between them: the memory chart of ncu."""

from __future__ import annotations

from warpline.frozen import frozen

SECTOR_BYTES = 32
_OF_PEAK = "pct_of_peak_sustained_elapsed"


@frozen
class Node:
    """A part of the memory hierarchy.

    Attributes:
        name: Its id.
        label: Its name on screens.
        metrics: Share of hits, or of the peak; the first that was collected.
        ratio_label: What the share is.
    """

    name: str
    label: str
    metrics: tuple[str, ...] = ()
    ratio_label: str = ""


@frozen
class Edge:
    """What flows from one part to another. Each tuple lists counters that add up.

    Attributes:
        start: Id of the part where it starts.
        end: Id of the part where it ends.
        requests: Requests, or executed instructions of warps where the edge starts at the kernel.
        transferred: Bytes or sectors.
        bytes_each: Bytes of each of these.
        busy: Counters whose shares of the peak add up to that of the edge.
        is_rare: Whether it is left out where nothing flows.
    """

    start: str
    end: str
    requests: tuple[str, ...] = ()
    transferred: tuple[str, ...] = ()
    bytes_each: int = 1
    busy: tuple[str, ...] = ()
    is_rare: bool = False


NODES = (
    Node("kernel", "Kernel"),
    Node("global", "Global"),
    Node("local", "Local"),
    Node("texture", "Texture"),
    Node("surface", "Surface"),
    Node("async_copy", "Global to Shared"),
    Node("tma", "TMA"),
    Node("cluster_shared", "Distributed Shared"),
    Node(
        "shared",
        "Shared Memory",
        (f"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.{_OF_PEAK}",),
        "Wavefronts, of Peak",
    ),
    Node("l1", "L1", ("l1tex__t_sector_hit_rate.pct",), "Hit Rate"),
    Node("l2", "L2", ("lts__t_sector_hit_rate.pct", "lts__t_request_hit_rate.pct"), "Hit Rate"),
    Node("system", "System Memory"),
    Node("peer", "Peer Memory"),
    Node(
        "dram",
        "Device Memory",
        (f"gpu__dram_throughput.avg.{_OF_PEAK}", f"dram__throughput.avg.{_OF_PEAK}"),
        "Throughput",
    ),
)


def _sums(pattern: str, *parts: str) -> tuple[str, ...]:
    return tuple(f"{pattern.format(part)}.sum" for part in parts or ("",))


def _to_l1(space: str, pipe: str, *operations: str, is_rare: bool = False) -> Edge:
    """Return the requests and sectors of a memory space in the tag stage of L1."""
    ends = [f"_op_{operation}" for operation in operations] or [""]
    requests = _sums(f"l1tex__t_requests_pipe_{pipe}_mem_{space}{{}}", *ends)
    sectors = _sums(f"l1tex__t_sectors_pipe_{pipe}_mem_{space}{{}}", *ends)
    return Edge(
        {"dshared": "cluster_shared"}.get(space, space),
        "l1",
        requests=requests,
        transferred=sectors,
        bytes_each=SECTOR_BYTES,
        busy=requests,
        is_rare=is_rare,
    )


def _from_kernel(space: str, *instructions: str, is_rare: bool = False) -> Edge:
    names = tuple(f"smsp__{name}.sum" for name in instructions)
    return Edge("kernel", space, requests=names, is_rare=is_rare)


def _beyond_l2(place: str, aperture: str) -> tuple[Edge, Edge]:
    """Return what L2 reads from memory outside the GPU, and writes to it."""
    of = f"lts__t_sectors_srcunit_tex_aperture_{aperture}_op_{{}}"
    read = _sums(of, "read_lookup_miss")
    written = _sums(of, "write", "red", "atom")
    return (
        Edge(place, "l2", transferred=read, bytes_each=SECTOR_BYTES, busy=read),
        Edge("l2", place, transferred=written, bytes_each=SECTOR_BYTES, busy=written),
    )


def _l1_and_l2(end: str, counters: tuple[str, ...], *, is_read: bool, is_rare: bool) -> Edge:
    names = _sums("{}", *counters)
    start, end = ("l2", end) if is_read else (end, "l2")
    return Edge(start, end, transferred=names, busy=names, is_rare=is_rare)


_READ, _WRITTEN = "l1tex__m_xbar2l1tex_read_bytes", "l1tex__m_l1tex2xbar_write_bytes"
_DRAM = {way: (f"dram__bytes_{way}.sum|dram__bytes_op_{way}.sum",) for way in ("read", "write")}

EDGES = (
    _from_kernel(
        "global",
        *("sass_inst_executed_op_global_ld", "sass_inst_executed_op_global_st"),
        *("inst_executed_op_generic_atom_dot_alu", "inst_executed_op_generic_atom_dot_cas"),
        "inst_executed_op_global_red",
    ),
    _from_kernel("local", "sass_inst_executed_op_local_ld", "sass_inst_executed_op_local_st"),
    _from_kernel("texture", "inst_executed_op_texture", is_rare=True),
    _from_kernel(
        "surface",
        *("inst_executed_op_surface_ld", "inst_executed_op_surface_st"),
        *("inst_executed_op_surface_red", "inst_executed_op_surface_atom_dot_alu"),
        "inst_executed_op_surface_atom_dot_cas",
        is_rare=True,
    ),
    _from_kernel("async_copy", "inst_executed_op_ldgsts", is_rare=True),
    _from_kernel("tma", "inst_executed_op_tma_ld", "inst_executed_op_tma_st", is_rare=True),
    _from_kernel("cluster_shared", "sass_inst_executed_op_dshared", is_rare=True),
    _from_kernel("shared", "sass_inst_executed_op_shared"),
    _to_l1("global", "lsu", "ld", "st", "atom", "red"),
    _to_l1("local", "lsu", "ld", "st"),
    _to_l1("texture", "tex", is_rare=True),
    _to_l1("surface", "tex", "ld", "st", "atom", "red", is_rare=True),
    _to_l1("dshared", "lsu", "ld", "st", "atom", "redas", is_rare=True),
    Edge(
        "async_copy",
        "l1",
        requests=_sums("sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts{}"),
        transferred=(
            "l1tex__t_bytes_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
            "sm__sass_l1tex_m_xbar2l1tex_read_bytes_mem_global_op_ldgsts_cache_bypass.sum",
        ),
        busy=_sums("sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts{}"),
        is_rare=True,
    ),
    _l1_and_l2("l1", (_READ,), is_read=True, is_rare=False),
    _l1_and_l2("l1", (_WRITTEN,), is_read=False, is_rare=False),
    _l1_and_l2("tma", (f"{_READ}_mem_global_op_tma_ld",), is_read=True, is_rare=True),
    _l1_and_l2(
        "tma",
        (f"{_WRITTEN}_mem_global_op_tma_st", f"{_WRITTEN}_mem_global_op_tma_red"),
        is_read=False,
        is_rare=True,
    ),
    *_beyond_l2("system", "sysmem"),
    *_beyond_l2("peer", "peer"),
    Edge("dram", "l2", transferred=_DRAM["read"], busy=_DRAM["read"]),
    Edge("l2", "dram", transferred=_DRAM["write"], busy=_DRAM["write"]),
)
