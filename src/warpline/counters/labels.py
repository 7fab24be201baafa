"""What pages call sections and the metrics that head them.

Other metrics are shown by their names.
"""

from __future__ import annotations

from collections.abc import Mapping

# By the name of the section.
HEADINGS: Mapping[str, str] = {
    "Light": "Summary",
    "SpeedOfLight": "Speed of Light",
    "LaunchStats": "Launch",
    "Occupancy": "Occupancy",
    "WorkloadDistribution": "Workload Distribution",
    "SpeedOfLight_RooflineChart": "Roofline",
    "SpeedOfLight_HierarchicalHalfRooflineChart": "Roofline, FP16",
    "SpeedOfLight_HierarchicalSingleRooflineChart": "Roofline, FP32",
    "SpeedOfLight_HierarchicalDoubleRooflineChart": "Roofline, FP64",
    "SpeedOfLight_HierarchicalTensorRooflineChart": "Roofline, Tensor Cores",
    "Flop": "FLOP",
    "ComputeWorkloadAnalysis": "Compute Workload",
    "MemoryWorkloadAnalysis": "Memory Workload",
    "MemoryWorkloadAnalysis_Chart": "Memory Traffic",
    "MemoryWorkloadAnalysis_Tables": "Memory Units",
    "SourceCounters": "Source Counters",
    "SchedulerStats": "Schedulers",
    "WarpStateStats": "Warp States",
    "InstructionStats": "Instructions",
    "Nvlink": "NVLink and PCIe",
}

# By the name of the metric.
LABELS: Mapping[str, str] = {
    # Speed of light
    "gpu__time_duration.sum": "Duration",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM Throughput",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "Memory Throughput",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "DRAM Throughput",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "L1 Throughput",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2 Throughput",
    "gpc__cycles_elapsed.max": "Elapsed Cycles",
    "gpc__cycles_elapsed.avg.per_second": "GPC Clock",
    "sm__cycles_elapsed.avg.per_second": "SM Clock",
    "dram__cycles_elapsed.avg.per_second": "DRAM Clock",
    "sm__cycles_active.avg": "Active Cycles per SM",
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed": "SMs Active",
    # Launch
    "launch__grid_size": "Grid Size",
    "launch__block_size": "Block Size",
    "launch__thread_count": "Threads",
    "launch__registers_per_thread": "Registers per Thread",
    "launch__shared_mem_per_block_static": "Static Shared Memory per Block",
    "launch__shared_mem_per_block_dynamic": "Dynamic Shared Memory per Block",
    "launch__sm_count": "SMs",
    "launch__waves_per_multiprocessor": "Waves per SM",
    # Occupancy
    "launch__occupancy_limit_blocks": "Blocks per SM, Limited by the SM",
    "launch__occupancy_limit_registers": "Blocks per SM, Limited by Registers",
    "launch__occupancy_limit_shared_mem": "Blocks per SM, Limited by Shared Memory",
    "launch__occupancy_limit_warps": "Blocks per SM, Limited by Warps",
    "sm__maximum_warps_avg_per_active_cycle": "Theoretical Warps per SM",
    "sm__maximum_warps_per_active_cycle_pct": "Theoretical Occupancy",
    "sm__warps_active.avg.per_cycle_active": "Achieved Warps per SM",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "Achieved Occupancy",
    # Instructions
    "sm__inst_executed.avg.per_cycle_active": "Executed IPC, Active",
    "sm__inst_executed.avg.per_cycle_elapsed": "Executed IPC, Elapsed",
    "sm__inst_issued.avg.per_cycle_active": "Issued IPC, Active",
    "sm__inst_issued.avg.pct_of_peak_sustained_active": "Issue Slots Used, Active",
    "sm__issue_active.avg.pct_of_peak_sustained_elapsed": "Issue Slots Used, Elapsed",
    "sm__inst_executed.sum": "Executed Instructions",
    "smsp__inst_executed.sum": "Executed Instructions",
    "smsp__inst_executed.avg": "Executed Instructions per Scheduler",
    "smsp__inst_issued.sum": "Issued Instructions",
    "smsp__inst_issued.avg": "Issued Instructions per Scheduler",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": "Tensor Cores Active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "Tensor Pipe Active",
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": "FMA Pipe Active",
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active": "ALU Pipe Active",
    "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active": "FP64 Pipe Active",
    # Memory
    "dram__bytes.sum.per_second": "DRAM Bandwidth",
    "dram__bytes_read.sum": "DRAM Bytes Read",
    "dram__bytes_op_read.sum": "DRAM Bytes Read",
    "dram__bytes_write.sum": "DRAM Bytes Written",
    "dram__bytes_op_write.sum": "DRAM Bytes Written",
    "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed": "Memory Units Busy",
    "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed": (
        "Links between Memory Units Busy"
    ),
    "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed": "Memory Pipes of SMs Busy",
    "l1tex__t_sector_hit_rate.pct": "L1 Hit Rate",
    "lts__t_sector_hit_rate.pct": "L2 Hit Rate",
    "lts__t_request_hit_rate.pct": "L2 Hit Rate of Requests",
    "l1tex__t_bytes.sum": "L1 Bytes",
    "lts__t_bytes.sum": "L2 Bytes",
    "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed": "L2 Tag Requests, of Peak",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": "L2 Sectors, of Peak",
    "lts__d_sectors.avg.pct_of_peak_sustained_elapsed": "L2 Data Sectors, of Peak",
    "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed": "L2 Fills from DRAM, of Peak",
    "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed": "L2 Inputs Busy",
    # Schedulers and warps
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "Cycles with an Issued Instruction",
    "smsp__issue_active.avg.per_cycle_active": "Issued Instructions per Cycle and Scheduler",
    "smsp__issue_inst0.avg.pct_of_peak_sustained_active": "Cycles without an Eligible Warp",
    "smsp__warps_active.avg.per_cycle_active": "Active Warps per Scheduler",
    "smsp__warps_eligible.avg.per_cycle_active": "Eligible Warps per Scheduler",
    "smsp__warps_eligible.avg.per_cycle_elapsed": "Eligible Warps per Scheduler, Elapsed",
    "smsp__average_warp_latency_per_inst_issued.ratio": "Warp Cycles per Issued Instruction",
    "smsp__average_warps_active_per_inst_executed.ratio": "Warp Cycles per Executed Instruction",
    "smsp__thread_inst_executed_per_inst_executed.ratio": "Active Threads per Warp",
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": (
        "Threads per Warp That Are Not Predicated Off"
    ),
    # Source
    "smsp__inst_executed_op_branch.sum": "Branch Instructions",
    "smsp__sass_average_branch_targets_threads_uniform.pct": "Uniform Branches",
    "smsp__sass_branch_targets_threads_divergent.avg": "Divergent Branches per Scheduler",
    # Distribution
    "sm__cycles_elapsed.sum": "Elapsed Cycles of SMs",
    "smsp__cycles_active.avg": "Active Cycles per Scheduler",
    "smsp__cycles_elapsed.sum": "Elapsed Cycles of Schedulers",
    "l1tex__cycles_active.avg": "Active Cycles per L1 Cache",
    "l1tex__cycles_elapsed.sum": "Elapsed Cycles of L1 Caches",
    "lts__cycles_active.avg": "Active Cycles per L2 Slice",
    "lts__cycles_elapsed.sum": "Elapsed Cycles of L2 Slices",
    "dram__cycles_active.avg": "Active Cycles per DRAM Channel",
    "dram__cycles_elapsed.sum": "Elapsed Cycles of DRAM Channels",
}
