"""Environment variables that explain a profile, and the known words in their values."""

from __future__ import annotations

from warpline.redaction.word_lists import words

KEPT_PREFIXES = (
    *("ACCELERATE_", "CUBLAS_", "CUBLASLT_", "CUDA_", "CUDNN_", "CUFILE_", "DEEPSPEED_", "DS_"),
    *("GLOO_", "GOMP_", "JAX_", "KMP_", "MKL_", "NCCL_", "NUMEXPR_", "NVIDIA_", "NVSHMEM_"),
    *("NVTE_", "NVTX_", "OMP_", "OPENBLAS_", "PYTORCH_", "TF32_", "TORCH_", "TORCHDYNAMO_"),
    *("TORCHELASTIC_", "TORCHINDUCTOR_", "TRITON_", "UCX_", "VLLM_", "XLA_"),
)
KEPT_NAMES = words(
    """
    GROUP_RANK GROUP_WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
    MPI_LOCALRANKID OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK
    PMI_SIZE RANK ROLE_RANK ROLE_WORLD_SIZE SLURM_JOB_ID SLURM_JOB_NUM_NODES SLURM_LOCALID
    SLURM_NODEID SLURM_NTASKS SLURM_PROCID WORLD_SIZE
    """
)

# In addition to `values`: words of NCCL, CUDA, PyTorch, OpenMP, UCX and others, in lower case.
WORDS = words(
    """
    trace info warn version abort init coll p2p shm net graph tuning env alloc proxy nvls
    bootstrap ring tree collnet collnetdirect collnetchain nvlstree pat simple ll ll128 loc pix
    pxb phb sys nvl path ib socket ib_hca efa cxi rdma tcp ud rc dc sm self cma cuda_copy cuda_ipc
    gdr_copy rc_x ud_x dc_x posix sysv knem xpmem eager lazy fastest_first pci_bus_id max peer
    debug expandable_segments max_split_size_mb garbage_collection_threshold
    roundup_power2_divisions backend native cudamallocasync release_lock_on_cudamalloc
    pinned_use_cuda_host_register pinned_num_register_threads pinned_use_background_threads
    max_non_split_rounding_mb per_process_memory_fraction highest high medium dynamo aot inductor
    output_code recompiles graph_breaks guards graph_code schedule fusion perf_hints cudagraphs
    bytecode autotuning post_grad_graphs ddp_graphs active passive cores threads sockets close
    spread master granularity fine core compact scatter balanced disabled disable enable enabled
    respect norespect verbose noverbose warnings duplicates sequential intel gnu tbb avx2 avx512
    sse4_2 avx512_core_amx compute utility graphics video display compat32 void ptx stdout stderr
    flash_attn flashinfer xformers triton_attn torch_sdpa rocm_flash triton_attn_vllm_v1
    flash_attn_vllm_v1 flashmla spawn fork ray mp http udp lo eth en docker veth mlx5 bond virbr
    """
)
