"""The tables of memory units: those of ncu's memory tables, each cell a formula of counters."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.derived.kernel_sections.memory_traffic import SECTOR_BYTES
from warpline.derived.kernel_sections.metrics import ended
from warpline.frozen import frozen

_OF_PEAK = "pct_of_peak_sustained_elapsed"


@frozen
class Cell:
    """A formula: `times` x the sum of `names` / the sum of `per`; empty if nothing is named."""

    names: tuple[str, ...] = ()
    per: tuple[str, ...] = ()
    times: int = 1


@frozen
class Row:
    """A row: its label, and a cell for each column but that of labels."""

    label: str
    cells: tuple[Cell, ...]


@frozen
class Table:
    """A table: title, name and unit of each column but that of labels, rows."""

    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def _cell(name: str | None) -> Cell:
    return Cell((name,)) if name else Cell()


def _shared(label: str, instructions: str | None, wavefronts: str | None, conflicts: str) -> Row:
    pipe = f"{wavefronts}.sum" if wavefronts else None
    return Row(
        label,
        (
            _cell(f"smsp__{instructions}.sum" if instructions else None),
            _cell(pipe),
            _cell(f"{pipe}.{_OF_PEAK}" if pipe else None),
            _cell(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared{conflicts}.sum"),
        ),
    )


_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_SHARED = Table(
    "Shared Memory",
    (
        ("Instructions", "inst"),
        ("Wavefronts", ""),
        ("Of Peak", "ratio"),
        ("Bank Conflicts", ""),
    ),
    (
        _shared("Load", "sass_inst_executed_op_shared_ld", f"{_WAVEFRONTS}_op_ld", "_op_ld"),
        Row("Load Matrix", (_cell("smsp__inst_executed_op_ldsm.sum"), Cell(), Cell(), Cell())),
        _shared("Store", "sass_inst_executed_op_shared_st", f"{_WAVEFRONTS}_op_st", "_op_st"),
        Row(
            "Store Matrix",
            (_cell("smsp__inst_executed_op_shared_stsm.sum"), Cell(), Cell(), Cell()),
        ),
        _shared(
            "Store from Global Load",
            "inst_executed_op_ldgsts",
            "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts",
            "_op_ldgsts",
        ),
        _shared("Atomic", "inst_executed_op_shared_atom", f"{_WAVEFRONTS}_op_atom", "_op_atom"),
        _shared("Total", None, _WAVEFRONTS, ""),
    ),
)


def _l1(
    label: str,
    part: str,
    instructions: tuple[str, ...],
    *,
    hit_rate: str | None = None,
    instructions_of: str = "smsp__",
) -> Row:
    """Return a row of L1, given what the names of its counters have in common."""
    requests, sectors = (f"l1tex__t_{of}_pipe_{part}.sum" for of in ("requests", "sectors"))
    wavefronts = f"l1tex__t_output_wavefronts_pipe_{part}.sum"
    missed = f"l1tex__t_sectors_pipe_{part}_lookup_miss.sum"
    return Row(
        label,
        (
            Cell(tuple(f"{instructions_of}{name}.sum" for name in instructions)),
            _cell(requests),
            _cell(wavefronts),
            _cell(f"{wavefronts}.{_OF_PEAK}"),
            _cell(sectors),
            Cell((sectors,), (requests,)),
            _cell(hit_rate or f"l1tex__t_sector_pipe_{part}_hit_rate.pct"),
            Cell((sectors,), times=SECTOR_BYTES),
            _cell(missed),
        ),
    )


def _async_copy(label: str, way: str) -> Row:
    """Return copies from global to shared memory that go through the cache, or around it."""
    of = f"sm__sass_l1tex_t_{{}}_pipe_lsu_mem_global_op_ldgsts_cache_{way}.sum"
    requests, sectors = of.format("requests"), of.format("sectors")
    return Row(
        label,
        (
            _cell(f"sm__sass_inst_executed_op_ldgsts_cache_{way}.sum"),
            _cell(requests),
            Cell(),
            Cell(),
            _cell(sectors),
            Cell((sectors,), (requests,)),
            Cell(),
            Cell((sectors,), times=SECTOR_BYTES),
            Cell(),
        ),
    )


_ATOMICS = ("inst_executed_op_generic_atom_dot_alu", "inst_executed_op_generic_atom_dot_cas")
_SURFACE_ATOMICS = (
    "inst_executed_op_surface_atom_dot_alu",
    "inst_executed_op_surface_atom_dot_cas",
)
_L1 = Table(
    "L1",
    (
        ("Instructions", "inst"),
        ("Requests", ""),
        ("Wavefronts", ""),
        ("Of Peak", "ratio"),
        ("Sectors", "sector"),
        ("Sectors/Request", ""),
        ("Hit Rate", "ratio"),
        ("Bytes", "byte"),
        ("Sector Misses", "sector"),
    ),
    (
        _l1("Global Load", "lsu_mem_global_op_ld", ("sass_inst_executed_op_global_ld",)),
        _async_copy("Global Load to Shared, through L1", "access"),
        _async_copy("Global Load to Shared, around L1", "bypass"),
        _l1("Local Load", "lsu_mem_local_op_ld", ("sass_inst_executed_op_local_ld",)),
        _l1(
            "Texture",
            "tex_mem_texture",
            ("inst_executed_op_texture",),
            hit_rate="l1tex__t_sector_pipe_tex_mem_texture_op_tex_hit_rate.pct",
        ),
        _l1("Surface Load", "tex_mem_surface_op_ld", ("inst_executed_op_surface_ld",)),
        _l1(
            "Distributed Shared Load",
            "lsu_mem_dshared_op_ld",
            ("sass_inst_executed_op_dshared_ld",),
        ),
        _l1("Global Store", "lsu_mem_global_op_st", ("sass_inst_executed_op_global_st",)),
        _l1("Local Store", "lsu_mem_local_op_st", ("sass_inst_executed_op_local_st",)),
        _l1("Surface Store", "tex_mem_surface_op_st", ("inst_executed_op_surface_st",)),
        _l1(
            "Distributed Shared Store",
            "lsu_mem_dshared_op_st",
            ("sass_inst_executed_op_dshared_st",),
        ),
        _l1("Global Reduction", "lsu_mem_global_op_red", ("inst_executed_op_global_red",)),
        _l1("Global Atomic", "lsu_mem_global_op_atom", _ATOMICS),
        _l1("Surface Reduction", "tex_mem_surface_op_red", ("inst_executed_op_surface_red",)),
        _l1("Surface Atomic", "tex_mem_surface_op_atom", _SURFACE_ATOMICS),
        _l1(
            "Distributed Shared Atomic",
            "lsu_mem_dshared_op_atom",
            ("sass_inst_executed_op_dshared_atom",),
        ),
    ),
)


def _between(label: str, counter: str, bytes_each: int | None = SECTOR_BYTES) -> Row:
    """Return what crosses a link: how often, of its peak, and its bytes."""
    name = f"{counter}.sum"
    moved = Cell((name,), times=bytes_each) if bytes_each else Cell()
    return Row(label, (_cell(name), _cell(f"{name}.{_OF_PEAK}"), moved))


_READ, _WRITTEN = "l1tex__m_xbar2l1tex_read_sectors_mem", "l1tex__m_l1tex2xbar_write_sectors_mem"
_LINKS = (("Sectors", "sector"), ("Of Peak", "ratio"), ("Bytes", "byte"))
_L2_TO_L1 = Table(
    "L2 to L1",
    _LINKS,
    (
        _between("Global and Local Load", f"{_READ}_lg_op_ld"),
        _between("Global Atomic", f"{_READ}_global_op_atom"),
        _between(
            "Global Load to Shared, around L1",
            "smsp__sass_l1tex_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass",
        ),
        _between("TMA Load", f"{_READ}_global_op_tma_ld"),
        _between("Texture", f"{_READ}_texture"),
        _between("Surface Load", f"{_READ}_surface_op_ld"),
        _between("Surface Atomic", f"{_READ}_surface_op_atom"),
    ),
)
_L1_TO_L2 = Table(
    "L1 to L2",
    _LINKS,
    (
        _between("Global and Local Store", f"{_WRITTEN}_lg_op_st"),
        _between("Global Reduction", f"{_WRITTEN}_global_op_red"),
        _between("Global Atomic", f"{_WRITTEN}_global_op_atom"),
        _between("TMA Store", f"{_WRITTEN}_global_op_tma_st"),
        _between("TMA Reduction", f"{_WRITTEN}_global_op_tma_red"),
        _between("Surface Store", f"{_WRITTEN}_surface_op_st"),
        _between("Surface Reduction", f"{_WRITTEN}_surface_op_red"),
        _between("Surface Atomic", f"{_WRITTEN}_surface_op_atom"),
    ),
)


_APERTURES = ("device", "sysmem", "peer")


def _l2(label: str, source: str, operation: str = "", *, has_requests: bool = True) -> Row:
    """Return a row of L2, given whose requests they are."""
    of = f"lts__t_sectors{source}"
    sectors, requests = f"{of}{operation}.sum", f"lts__t_requests{source}{operation}.sum"
    hits, misses = (f"{of}{operation}_lookup_{way}.sum" for way in ("hit", "miss"))
    missed = (f"{of}_aperture_{aperture}{operation}_lookup_miss.sum" for aperture in _APERTURES)
    return Row(
        label,
        (
            _cell(requests if has_requests else None),
            _cell(sectors),
            Cell((sectors,), (requests,)) if has_requests else Cell(),
            _cell(f"{of}{operation}.avg.{_OF_PEAK}"),
            Cell((hits,), (hits, misses)) if has_requests else Cell(),
            Cell((sectors,), times=SECTOR_BYTES),
            Cell((f"{sectors}.per_second",), times=SECTOR_BYTES),
            *(map(_cell, missed) if has_requests else (Cell(),) * len(_APERTURES)),
        ),
    )


_OF_L1 = "_srcunit_tex"
_L2 = Table(
    "L2",
    (
        ("Requests", ""),
        ("Sectors", "sector"),
        ("Sectors/Request", ""),
        ("Of Peak", "ratio"),
        ("Hit Rate", "ratio"),
        ("Bytes", "byte"),
        ("Throughput", "byte/s"),
        ("Misses to Device", "sector"),
        ("Misses to System", "sector"),
        ("Misses to Peer", "sector"),
    ),
    (
        _l2("L1 Load", _OF_L1, "_op_read"),
        _l2("L1 Store", _OF_L1, "_op_write"),
        _l2("L1 Reduction", _OF_L1, "_op_red"),
        _l2("L1 Atomic ALU", _OF_L1, "_op_atom_dot_alu"),
        _l2("L1 Atomic CAS", _OF_L1, "_op_atom_dot_cas"),
        _l2("L1 Total", _OF_L1),
        _l2("Constants and Instructions", "_srcunit_gcc"),
        _l2("L2 Fabric", "_srcunit_ltcfabric"),
        _l2("ECC", "_data_ecc", has_requests=False),
        _l2("Total", ""),
    ),
)

_POLICIES = {
    "First": "first",
    "Last": "last",
    "Normal": "normal",
    "Normal Demote": "normal_demote",
}


def _evicted(label: str, of: str) -> Row:
    return Row(label, tuple(_by_policy(f"lts__t_sectors{of}_evict")))


def _by_policy(counter: str) -> Iterator[Cell]:
    for policy in _POLICIES.values():
        hits, misses = (f"{counter}_{policy}_lookup_{way}.sum" for way in ("hit", "miss"))
        yield Cell((hits, misses))
        yield Cell((hits,), (hits, misses))


_EVICTION = Table(
    "L2 Eviction Policies",
    tuple(
        column
        for policy in _POLICIES
        for column in ((f"Evict {policy}", "sector"), (f"{policy} Hit Rate", "ratio"))
    ),
    (
        _evicted("L1 Load", "_srcunit_tex_op_read"),
        _evicted("L1 Store", "_srcunit_tex_op_write"),
        _evicted("L1 Atomic", "_srcunit_tex_op_atom"),
        _evicted("L1 Total", "_srcunit_tex"),
        _evicted("L2 Fabric", "_srcunit_ltcfabric"),
        _evicted("Total", ""),
    ),
)


def _dram(label: str, *ways: str) -> Row:
    moved = tuple(f"dram__bytes_{way}.sum|dram__bytes_op_{way}.sum" for way in ways)
    return Row(
        label,
        (
            Cell(tuple(f"dram__sectors_{way}.sum" for way in ways)),
            Cell(ended(moved, f".{_OF_PEAK}")),
            Cell(moved),
            Cell(ended(moved, ".per_second")),
        ),
    )


_DEVICE = Table(
    "Device Memory",
    (("Sectors", "sector"), ("Of Peak", "ratio"), ("Bytes", "byte"), ("Throughput", "byte/s")),
    (_dram("Load", "read"), _dram("Store", "write"), _dram("Total", "read", "write")),
)

TABLES = (_SHARED, _L1, _L2_TO_L1, _L1_TO_L2, _L2, _EVICTION, _DEVICE)
