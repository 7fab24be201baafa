"""Sets of metrics, in sections. Names of sets, sections and metrics are those of ncu.

A section lists metrics as one text. ``{a,b}`` stands for both of them, and ``a | b`` for the first
one that the chip has. A metric that a chip lacks is left out of a set, and is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from warpline.frozen import frozen
from warpline.registry import Registry

_BRACES = re.compile(r"\{([^{}]*)\}")


@frozen
class Section:
    """Metrics about one subject.

    Attributes:
        name: The identifier that ``--section`` takes.
        title: What it is about.
        metrics: The metrics in their notation, see above.
        is_by_priority: Whether the metrics are in the order of their importance, and those that
            need a second pass are left out.
        is_exact: Whether only these metrics are collected. Otherwise, each comes with the average,
            maximum, minimum and sum over the units of the GPU, as in ncu.
    """

    name: str
    title: str
    metrics: str
    is_by_priority: bool = False
    is_exact: bool = False

    def requests(self) -> list[tuple[str, ...]]:
        """Return the metrics, each as a name and those that may replace it."""
        return [request for line in self.metrics.split("\n") for request in _requests(line)]


@frozen
class CounterSet:
    """A set of sections.

    Attributes:
        name: The name that ``--set`` takes.
        title: What it is for.
        sections: Its sections.
    """

    name: str
    title: str
    sections: tuple[Section, ...]

    @property
    def is_one_pass(self) -> bool:
        """Whether all its metrics fit in one pass, on every chip."""
        return all(section.is_by_priority for section in self.sections)


def _requests(line: str) -> Iterator[tuple[str, ...]]:
    if "|" in line:
        yield tuple(name for part in line.split("|") for name in _expanded(part.strip()))
        return
    for word in line.split():
        yield from ((name,) for name in _expanded(word))


def _expanded(word: str) -> list[str]:
    """Return the names that a word with braces stands for."""
    parts = _BRACES.split(word)  # text and choices in turn
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


# By importance: what does not fit in the one pass is left out. A pass counts few events of an SM.
# Active cycles of its schedulers (smsp) would be one too many on GH100, so issue slots are those of
# the SM, and eligible warps are per elapsed cycle. Sectors in L2 and their hits need two passes, so
# the hit rate is that of requests.
LIGHT = Section(
    "Light",
    "What bounds a kernel, in one pass",
    """\
gpu__time_duration.sum
sm__cycles_elapsed.avg.per_second
sm__cycles_active.avg.pct_of_peak_sustained_elapsed
sm__warps_active.avg.pct_of_peak_sustained_active
sm__inst_executed.avg.per_cycle_active
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed
dram__bytes_read.sum | dram__bytes_op_read.sum
dram__bytes_write.sum | dram__bytes_op_write.sum
sm__issue_active.avg.pct_of_peak_sustained_elapsed
l1tex__t_sector_hit_rate.pct
lts__t_request_hit_rate.pct
lts__t_sectors.avg.pct_of_peak_sustained_elapsed
lts__d_sectors.avg.pct_of_peak_sustained_elapsed
lts__t_bytes.sum
l1tex__t_bytes.sum
smsp__warps_eligible.avg.per_cycle_elapsed
lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed
lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed
lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed
sm__inst_executed.sum""",
    is_by_priority=True,
    is_exact=True,
)

SPEED_OF_LIGHT = Section(
    "SpeedOfLight",
    "Compute and memory throughput, in percent of their peaks",
    """\
gpu__time_duration.sum
sm__throughput.avg.pct_of_peak_sustained_elapsed
breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed
gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
breakdown:gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed
l1tex__throughput.avg.pct_of_peak_sustained_{active,elapsed}
lts__throughput.avg.pct_of_peak_sustained_elapsed
gpc__cycles_elapsed.max gpc__cycles_elapsed.avg.per_second
sm__cycles_active.avg sm__cycles_elapsed.max
dram__cycles_elapsed.avg.per_second""",
)

LAUNCH_STATS = Section(
    "LaunchStats",
    "The launch: grid, block, registers and shared memory come from its record, without counters",
    "sm__cycles_active.avg",
)

OCCUPANCY = Section(
    "Occupancy",
    "Active warps per SM",
    "sm__warps_active.avg.{pct_of_peak_sustained_active,per_cycle_active}",
)

WORKLOAD_DISTRIBUTION = Section(
    "WorkloadDistribution",
    "How evenly the work is spread over SMs, L1 caches, L2 slices and memory",
    """\
{sm,smsp,l1tex,lts}__cycles_active.{avg,max,min,sum} dram__cycles_active.{avg,max,min,sum}
{sm,smsp,l1tex,lts}__cycles_elapsed.{avg,max,min,sum} dram__cycles_elapsed.{avg,max,min,sum}""",
)

_DRAM_ROOF = """
gpu__time_duration.sum sm__cycles_elapsed.avg.per_second smsp__cycles_elapsed.avg.per_second
dram__bytes.sum.{per_second,peak_sustained} dram__cycles_elapsed.avg.per_second"""
_CACHE_ROOFS = """
l1tex__t_bytes.sum.{per_second,peak_sustained} l1tex__cycles_elapsed.avg.per_second
l1tex__lsu_writeback_active_mem_lgds.sum.{per_second,peak_sustained}
lts__t_bytes.sum.{per_second,peak_sustained} lts__cycles_elapsed.avg.per_second
lts__lts2xbar_cycles_active.sum.{per_second,peak_sustained}"""


def _arithmetic(precisions: str) -> str:
    """Return instructions of add, multiply and fused multiply-add, and their peak."""
    return f"""
smsp__sass_thread_inst_executed_op_{{{precisions}}}{{add,mul,fma}}_pred_on.sum.per_cycle_elapsed
sm__sass_thread_inst_executed_op_{{{precisions}}}fma_pred_on.sum.peak_sustained"""


def _tensor(*kinds: str) -> str:
    """Return operations of Tensor Cores of some kinds, their rates and their peaks."""
    rollups = (
        ".sum{,.per_second,.per_cycle_elapsed,.pct_of_peak_sustained_elapsed,.peak_sustained}",
        ".sum.peak_sustained_elapsed.per_second",
    )
    return "\n".join(f"sm__ops_path_tensor_{kind}{end}" for kind in kinds for end in rollups)


ROOFLINE = Section(
    "SpeedOfLight_RooflineChart",
    "Roofline of FP32 and FP64 against device memory",
    _arithmetic("f,d") + _DRAM_ROOF,
)
ROOFLINE_HALF = Section(
    "SpeedOfLight_HierarchicalHalfRooflineChart",
    "Roofline of FP16 against L1, L2 and device memory",
    _arithmetic("h") + _DRAM_ROOF + _CACHE_ROOFS,
)
ROOFLINE_SINGLE = Section(
    "SpeedOfLight_HierarchicalSingleRooflineChart",
    "Roofline of FP32 against L1, L2 and device memory",
    _arithmetic("f") + _DRAM_ROOF + _CACHE_ROOFS,
)
ROOFLINE_DOUBLE = Section(
    "SpeedOfLight_HierarchicalDoubleRooflineChart",
    "Roofline of FP64 against L1, L2 and device memory",
    _arithmetic("d") + _DRAM_ROOF + _CACHE_ROOFS,
)
ROOFLINE_TENSOR = Section(
    "SpeedOfLight_HierarchicalTensorRooflineChart",
    "Roofline of Tensor Cores, by data type, against L1, L2 and device memory",
    _tensor(
        "src_{fp16,fp64,int1,int8}",
        "src_{bf16,tf32}_dst_fp32",
        "src_fp8_sparsity_{off,on}",
        "op_{hmma,hgmma}_src_{bf16,tf32}_dst_fp32_sparsity_{off,on}",
        "op_hmma_src_fp16_dst_fp{16,32}_sparsity_{off,on}",
        "op_hgmma_src_fp16_sparsity_{off,on}",
        "op_{imma,igmma}_src_int8_sparsity_{off,on}",
        "op_{bmma,bgmma}_src_int1",
    )
    + _DRAM_ROOF
    + _CACHE_ROOFS,
)

# Counts, not rates: they are the same in each launch, so any run of a program may count them.
FLOP = Section(
    "Flop",
    "FLOP by precision, and the peaks of precisions and memory",
    """\
sm__cycles_elapsed.avg.per_second
smsp__sass_thread_inst_executed_op_{f,d,h}{add,mul,fma}_pred_on.sum
sm__sass_thread_inst_executed_op_{f,d,h}fma_pred_on.sum.peak_sustained
sm__ops_path_tensor_src_{fp16,fp64,fp8}.sum sm__ops_path_tensor_src_{bf16,tf32}_dst_fp32.sum
sm__ops_path_tensor_src_fp64.sum.peak_sustained
sm__ops_path_tensor_src_fp8_sparsity_{off,on}.sum{,.peak_sustained}
sm__ops_path_tensor_op_{hmma,hgmma}_src_{bf16,tf32}_dst_fp32_sparsity_{off,on}\
.sum{,.peak_sustained}
sm__ops_path_tensor_op_hmma_src_fp16_dst_fp{16,32}_sparsity_{off,on}.sum{,.peak_sustained}
sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_{off,on}.sum{,.peak_sustained}
dram__bytes.sum.peak_sustained dram__cycles_elapsed.avg.per_second
l1tex__t_bytes.sum.peak_sustained l1tex__cycles_elapsed.avg.per_second
lts__t_bytes.sum.peak_sustained lts__cycles_elapsed.avg.per_second""",
    is_exact=True,
)

COMPUTE = Section(
    "ComputeWorkloadAnalysis",
    "Instructions per cycle, and the use of each pipe",
    """\
sm__inst_executed.avg.{per_cycle_active,per_cycle_elapsed,pct_of_peak_sustained_elapsed}
sm__inst_issued.avg.{per_cycle_active,pct_of_peak_sustained_active,pct_of_peak_sustained_elapsed}
sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed
sm__issue_active.avg.pct_of_peak_sustained_elapsed smsp__issue_active.avg.per_cycle_active
sm__pipe_{alu,fma,fmaheavy,fp64,shared,tensor,tma}_cycles_active.avg.pct_of_peak_sustained_active
sm__pipe_{fp16,fp64_op_dmma,fp64_op_fp64}_cycles_active.avg.pct_of_peak_sustained_active
sm__pipe_tensor_op_{dmma,hmma,imma}_cycles_active.avg.pct_of_peak_sustained_{active,elapsed}
sm__inst_executed_pipe_{adu,fp16,ipa,lsu}.avg.pct_of_peak_sustained_active
sm__inst_executed_pipe_{alu,cbu,fma,fma_type_fp16,fp64,tma}\
.avg.pct_of_peak_sustained_{active,elapsed}
sm__inst_executed_pipe_{tensor,tex,uniform,xu}.avg.pct_of_peak_sustained_active
sm__inst_executed_pipe_tensor_op_{dmma,gmma,hmma,imma}.avg.pct_of_peak_sustained_{active,elapsed}
sm__inst_executed_pipe_{fp64_op_dmma,fp64_op_fp64,tc,tmem}.avg.pct_of_peak_sustained_active""",
)

MEMORY = Section(
    "MemoryWorkloadAnalysis",
    "Throughput of the memory hierarchy, and hit rates",
    """\
dram__bytes.sum.per_second
gpu__compute_memory_{access,request}_throughput.avg.pct_of_peak_sustained_elapsed
breakdown:gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed
breakdown:gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed
sm__memory_throughput.avg.pct_of_peak_sustained_elapsed
l1tex__t_sector_hit_rate.pct lts__t_sector_hit_rate.pct
lts__average_gcomp_input_sector_success_rate.pct
lts__average_gcomp_output_sector_compression_achieved_rate.ratio
lrc__average_ilc_input_sector_success_rate.pct
lrc__average_ilc_input_sector_compression_rate.ratio lrc__ilc_input_sectors.sum
lrc__average_ilc_output_sector_compression_achieved_rate.pct""",
)

# What both the chart of memory and its tables show.
_MEMORY_TRAFFIC = """\
smsp__inst_executed_op_{ldsm,shared_atom,shared_stsm,texture,ldgsts,tma_ld,tma_st}.sum\
{,.pct_of_peak_sustained_elapsed}
smsp__inst_executed_op_generic_atom_dot_{alu,cas}.sum{,.pct_of_peak_sustained_elapsed}
smsp__inst_executed_op_global_red.sum{,.pct_of_peak_sustained_elapsed}
smsp__inst_executed_op_surface_{ld,st,red,atom_dot_alu,atom_dot_cas}.sum\
{,.pct_of_peak_sustained_elapsed}
smsp__sass_inst_executed_op_{global,local}_{ld,st}.sum
smsp__sass_inst_executed_op_{shared,shared_gmma,dshared}.sum{,.pct_of_peak_sustained_elapsed}
smsp__sass_inst_executed_op_shared_{ld,st}.sum
l1tex__t_requests_pipe_lsu_mem_{global,local}_op_{ld,st}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__t_requests_pipe_lsu_mem_global_op_{atom,red}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__t_requests_pipe_lsu_mem_dshared_op_{ld,st,atom,redas}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__t_requests_pipe_tex_mem_surface_op_{ld,st,atom,red}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__t_requests_pipe_tex_mem_texture.sum{,.pct_of_peak_sustained_elapsed}
l1tex__data_pipe_lsu_wavefronts_mem_shared.sum{,.pct_of_peak_sustained_elapsed}
l1tex__m_l1tex2xbar_write_sectors_mem_global_op_{tma_st,tma_red}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
l1tex__m_l1tex2xbar_write_sectors_mem_dshared_op_{ld,st,atom,redas}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
l1tex__m_xbar2l1tex_read_sectors_mem_dshared_op_{ld,st,atom,redas}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum{,.pct_of_peak_sustained_elapsed}
sm__sass_l1tex_m_xbar2l1tex_read_bytes_mem_global_op_ldgsts_cache_bypass.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
lts__t_sectors_srcunit_ltcfabric.sum{,.pct_of_peak_sustained_elapsed,.per_second}
lts__t_sectors_srcunit_tex_op_{write,red,atom}.sum{,.pct_of_peak_sustained_elapsed,.per_second}
lts__t_sectors_srcunit_tex_op_read.sum
lts__t_sectors_srcunit_tex_op_{read,write}.avg.pct_of_peak_sustained_elapsed
gcc__cache_requests_type_{constant,instruction}.sum{,.pct_of_peak_sustained_elapsed}
gcc__xbar2gcc_sectors.sum{,.pct_of_peak_sustained_elapsed} gcc__average_cache_request_hit_rate.pct
idc__requests.sum{,.pct_of_peak_sustained_elapsed} idc__request_hit_rate.pct
smsp__imc_requests.sum{,.pct_of_peak_sustained_elapsed} smsp__imc_request_hit_rate.pct
sm__icc_requests.sum{,.pct_of_peak_sustained_elapsed} sm__icc_request_hit_rate.pct
lrc__{ilc_input_sectors,lts2lrc_sectors_op_read,xbar2gpc_sectors_op_read}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
lrc__average_xbar2gpc_sectors_op_read.ratio
dram__bytes_{read,write}.sum{,.pct_of_peak_sustained_elapsed,.per_second}
dram__bytes_op_{read,write}.sum{,.pct_of_peak_sustained_elapsed,.per_second}"""

MEMORY_CHART = Section(
    "MemoryWorkloadAnalysis_Chart",
    "Requests and bytes between the parts of the memory hierarchy",
    _MEMORY_TRAFFIC
    + """
l1tex__m_xbar2l1tex_read_bytes{,_mem_dshared,_mem_global_op_tma_ld}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
l1tex__m_l1tex2xbar_write_bytes\
{,_mem_dshared,_mem_global_op_tma_st,_mem_global_op_tma_red}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
l1tex__t_bytes_pipe_lsu_mem_global_op_ldgsts_cache_access.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}
l1tex__t_sector_hit_rate.pct lts__t_sector_hit_rate.pct smsp__cycles_elapsed.sum
lts__average_gcomp_input_sector_success_rate.pct
lts__average_gcomp_output_sector_compression_achieved_rate.ratio
lrc__average_ilc_input_sector_compression_rate.ratio
lts__t_sectors_srcunit_tex_aperture_{peer,sysmem}_op_{write,red,atom,read_lookup_miss}.sum\
{,.pct_of_peak_sustained_elapsed,.per_second}""",
    is_exact=True,
)

MEMORY_TABLES = Section(
    "MemoryWorkloadAnalysis_Tables",
    "Tables of each unit: shared memory, L1, L2 and its eviction policies, device memory",
    _MEMORY_TRAFFIC
    + """
smsp__sass_inst_executed_op_tma_{ld,st,red}.sum
l1tex__data_bank_conflicts_pipe_lsu_mem_shared{,_op_ld,_op_st,_op_atom,_op_ldgsts}.sum
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st,atom}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__data_bank_{reads,writes}.{avg,max,min,sum}.pct_of_peak_sustained_elapsed
l1tex__t_output_wavefronts_pipe_lsu_mem_{global,local}_op_{ld,st}.sum\
{,.pct_of_peak_sustained_elapsed}
l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_{atom,red}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__t_output_wavefronts_pipe_lsu_mem_dshared_op_{ld,st,atom,redas}.sum\
{,.pct_of_peak_sustained_elapsed}
l1tex__t_output_wavefronts_pipe_tex_mem_surface_op_{ld,st,atom,red}.sum\
{,.pct_of_peak_sustained_elapsed}
l1tex__t_output_wavefronts_pipe_tex_mem_texture.sum{,.pct_of_peak_sustained_elapsed}
l1tex__lsu_writeback_active_mem_lgds.sum{,.pct_of_peak_sustained_elapsed}
l1tex__tex_writeback_active.sum{,.pct_of_peak_sustained_elapsed}
l1tex__t_sectors_pipe_lsu_mem_{global,local}_op_{ld,st}{,_lookup_hit,_lookup_miss}.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_{atom,red}{,_lookup_hit,_lookup_miss}.sum
l1tex__t_sectors_pipe_lsu_mem_dshared_op_{ld,st,atom,redas}{,_lookup_miss}.sum
l1tex__t_sectors_pipe_tex_mem_surface_op_{ld,st,atom,red}{,_lookup_hit,_lookup_miss}.sum
l1tex__t_sectors_pipe_tex_mem_texture{,_lookup_hit,_lookup_miss}.sum
l1tex__t_sector_pipe_lsu_mem_{global,local}_op_{ld,st}_hit_rate.pct
l1tex__t_sector_pipe_lsu_mem_global_op_{atom,red}_hit_rate.pct
l1tex__t_sector_pipe_tex_mem_surface_op_{ld,st,atom,red}_hit_rate.pct
l1tex__t_sector_pipe_tex_mem_texture_op_tex_hit_rate.pct
l1tex__m_l1tex2xbar_write_sectors_mem_lg_op_st.sum{,.pct_of_peak_sustained_elapsed}
l1tex__m_l1tex2xbar_write_sectors_mem_global_op_{atom,red}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__m_l1tex2xbar_write_sectors_mem_surface_op_{st,atom,red}.sum{,.pct_of_peak_sustained_elapsed}
l1tex__m_l1tex2xbar_write_sectors_mem_dshared_op_{tma_st,tma_red}.sum\
{,.pct_of_peak_sustained_elapsed}
l1tex__m_xbar2l1tex_read_sectors_mem_dshared_op_{tma_st,tma_red}.sum\
{,.pct_of_peak_sustained_elapsed}
l1tex__m_xbar2l1tex_read_sectors_mem_{lg_op_ld,global_op_atom,texture}.sum\
{,.pct_of_peak_sustained_elapsed}
l1tex__m_xbar2l1tex_read_sectors_mem_surface_op_{ld,atom}.sum{,.pct_of_peak_sustained_elapsed}
sm__sass_inst_executed_op_ldgsts_cache_{access,bypass}.sum
sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts_cache_{access,bypass}.sum
sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_{access,bypass}.sum\
{,.pct_of_peak_sustained_elapsed}
smsp__sass_l1tex_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass.sum\
{,.pct_of_peak_sustained_elapsed}
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts{,_cache_access}.sum\
{,.pct_of_peak_sustained_elapsed}
smsp__sass_inst_executed_op_dshared_{ld,st,atom,redas,stas,tma_st,tma_red}.sum
lts__t_requests{,_srcunit_tex,_srcunit_gcc,_srcunit_ltcfabric}.sum
lts__t_requests_srcunit_tex_op_{read,write,red,atom_dot_alu,atom_dot_cas}.sum
lts__t_sectors{,_data_ecc,_srcunit_tex,_srcunit_gcc}.sum{,.per_second}
lts__t_sectors{,_data_ecc,_srcunit_tex,_srcunit_gcc,_srcunit_ltcfabric}.avg\
.{pct_of_peak_sustained_elapsed,peak_sustained,per_cycle_elapsed}
lts__t_sectors{,_srcunit_tex}.{max,min,sum}.pct_of_peak_sustained_elapsed
lts__t_sectors.{avg,max,min}
lts__t_sectors_srcunit_tex_op_{atom_dot_alu,atom_dot_cas}.sum
lts__t_sectors_srcunit_tex_op_{read,atom_dot_alu,atom_dot_cas}.sum.per_second
lts__t_sectors_srcunit_tex_op_{read,write,red,atom_dot_alu,atom_dot_cas}.avg\
.{pct_of_peak_sustained_elapsed,peak_sustained,per_cycle_elapsed}
lts__t_sectors_srcunit_tex_op_{read,write,red,atom_dot_alu,atom_dot_cas}_lookup_{hit,miss}.sum
lts__t_sectors{,_srcunit_tex,_srcunit_gcc,_srcunit_ltcfabric}_lookup_{hit,miss}.sum
lts__t_sectors_srcunit_tex{,_aperture_peer,_aperture_sysmem}_lookup_miss.{avg,max,min}
lts__t_sectors{,_srcunit_tex,_srcunit_gcc,_srcunit_ltcfabric}\
_aperture_{device,peer,sysmem}_lookup_miss.sum
lts__t_sectors_evict_{first,last,normal,normal_demote}_lookup_{hit,miss}.sum
lts__t_sectors_srcunit_tex_evict_{first,last,normal,normal_demote}_lookup_{hit,miss}.sum
lts__t_sectors_srcunit_ltcfabric_evict_{first,last,normal,normal_demote}_lookup_{hit,miss}.sum
lts__t_sectors_srcunit_tex_op_{read,write,atom}_evict_{first,last,normal,normal_demote}\
_lookup_{hit,miss}.sum
lts__t_sectors_srcunit_tex_aperture_{device,peer,sysmem}\
_op_{read,write,red,atom_dot_alu,atom_dot_cas}_lookup_miss.sum
lts__t_sector_op_{read,write}_hit_rate.pct
lts__t_tag_requests.{avg,max,min,sum}.pct_of_peak_sustained_elapsed
dram__sectors_{read,write}.sum
fbpa__dram_sectors.{avg,max,min,sum}.pct_of_peak_sustained_elapsed""",
    is_exact=True,
)

SCHEDULER = Section(
    "SchedulerStats",
    "Warps of each scheduler: active, eligible, issued",
    """\
smsp__warps_active.avg.{per_cycle_active,peak_sustained} smsp__warps_eligible.avg.per_cycle_active
smsp__issue_active.avg.{per_cycle_active,pct_of_peak_sustained_active}
smsp__issue_inst0.avg.pct_of_peak_sustained_active""",
)

_STALLS = (
    "barrier,branch_resolving,dispatch_stall,drain,gmma,imc_miss,lg_throttle,long_scoreboard,"
    "math_pipe_throttle,membar,mio_throttle,misc,no_instruction,not_selected,selected,"
    "short_scoreboard,sleeping,tex_throttle,wait"
)
WARP_STATE = Section(
    "WarpStateStats",
    "What warps wait for",
    f"""\
smsp__average_warps_issue_stalled_{{{_STALLS}}}_per_issue_active.ratio
smsp__average_warp_latency_per_inst_issued.ratio smsp__average_warps_active_per_inst_executed.ratio
smsp__thread_inst_executed{{,_pred_on}}_per_inst_executed.ratio""",
)

INSTRUCTIONS = Section(
    "InstructionStats",
    "Executed and issued instructions",
    """\
smsp__inst_executed.{avg,max,min,sum} smsp__inst_issued.{avg,max,min,sum}
smsp__sass_thread_inst_executed_op_conversion_pred_on.sum""",
)

SOURCE = Section(
    "SourceCounters",
    "Branches and memory accesses, which lines of the source explain",
    """\
smsp__inst_executed_op_branch.{avg,sum} smsp__sass_branch_targets_threads_divergent.{avg,sum}
smsp__sass_average_branch_targets_threads_uniform.pct
smsp__sass_average_data_bytes_per_sector_mem_{global,local}_op_{ld,st}.{ratio,max_rate}
l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{ld,st}.ratio
smsp__thread_inst_executed{,_pred_on}_per_inst_executed.ratio""",
)

LINKS = Section(
    "Nvlink",
    "Bytes over NVLink and PCIe",
    "nvl{rx,tx}__bytes.sum{,.per_second} pcie__{read,write}_bytes.sum{,.per_second}",
)

_BASIC = (SPEED_OF_LIGHT, LAUNCH_STATS, OCCUPANCY, WORKLOAD_DISTRIBUTION)
_DETAILED = (
    *_BASIC,
    ROOFLINE,
    COMPUTE,
    MEMORY,
    MEMORY_CHART,
    SOURCE,
)
_ROOFLINES = (ROOFLINE, ROOFLINE_HALF, ROOFLINE_SINGLE, ROOFLINE_DOUBLE, ROOFLINE_TENSOR)

SETS: Registry[CounterSet] = Registry("set")
for _item in (
    CounterSet("light", "what bounds each kernel, without replay", (LIGHT,)),
    CounterSet("basic", "throughput, occupancy and how evenly the work is spread", _BASIC),
    CounterSet("detailed", "basic, with compute, memory, source and a roofline", _DETAILED),
    CounterSet(
        "full",
        "all sections",
        (*_DETAILED, *_ROOFLINES[1:], MEMORY_TABLES, SCHEDULER, WARP_STATE, INSTRUCTIONS, LINKS),
    ),
    CounterSet(
        "roofline",
        "rooflines of all precisions, against each level of memory",
        (SPEED_OF_LIGHT, WORKLOAD_DISTRIBUTION, *_ROOFLINES),
    ),
    CounterSet(
        "source",
        "what source lines are explained by: instructions, branches, accesses, stalls",
        (SOURCE, INSTRUCTIONS, WARP_STATE),
    ),
    CounterSet("flop", "FLOP by precision, and peaks: what a roofline adds to set light", (FLOP,)),
    CounterSet("nvlink", "bytes over NVLink and PCIe", (LINKS,)),
):
    SETS.add(_item.name, _item, aliases=("default",) if _item.name == "basic" else ())

SECTIONS: Registry[Section] = Registry("section")
for _section in dict.fromkeys(section for counter_set in SETS for section in counter_set.sections):
    SECTIONS.add(_section.name, _section)
