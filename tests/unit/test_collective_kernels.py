"""Communication kernels of libraries other than NCCL, by the names in the libraries' sources.

Each group names the file that defines its kernels. Parameters are shortened: rules read only the
name. Kernels of these libraries that stay on their GPU are no collectives.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpline.derived.kernels.categories import collective_kernel, kernel_class
from warpline.derived.kernels.rules import rules

# (family, origin, {kernel: (operation, algorithm, protocol)})
Group = tuple[str, str, dict[str, tuple[str | None, str | None, str | None]]]

DISPATCH = ("Dispatch", None, None)
COMBINE = ("Combine", None, None)
BARRIER = ("Barrier", None, None)
ALL_REDUCE = ("AllReduce", None, None)
ALL_GATHER = ("AllGather", None, None)
ALL_TO_ALL = ("AllToAll", None, None)
REDUCE_SCATTER = ("ReduceScatter", None, None)
ONE_SHOT = ("AllReduce", "one-shot", None)
TWO_SHOT = ("AllReduce", "two-shot", None)
LAMPORT = ("AllReduce", "one-shot", "LAMPORT")
UNKNOWN = (None, None, None)

FROM_SOURCES: dict[str, Group] = {
    # csrc/kernels/intranode.cu, since 2026 csrc/kernels/legacy/intranode.cu.
    "deepseek-ai/DeepEP intranode": (
        "deepep",
        "deepep",
        {
            "void deep_ep::intranode::notify_dispatch<8>(int const*)": DISPATCH,
            "void deep_ep::intranode::cached_notify_dispatch<8>(int const*, int)": DISPATCH,
            "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)": DISPATCH,
            "void deep_ep::intranode::cached_notify_combine<8>(void**, int*)": COMBINE,
            "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(int4*)": COMBINE,
            "void deep_ep::legacy::intranode::barrier<8>(int**, int)": BARRIER,
        },
    ),
    # csrc/kernels/internode.cu and internode_ll.cu, now in csrc/kernels/legacy.
    "deepseek-ai/DeepEP internode": (
        "deepep",
        "deepep",
        {
            "void deep_ep::internode::notify_dispatch<false, 2>(int const*)": DISPATCH,
            "void deep_ep::internode::cached_notify<true, 2>(int)": BARRIER,
            "void deep_ep::legacy::internode::combine<true, 2, __nv_bfloat16>(int4*)": COMBINE,
            "void deep_ep::legacy::internode_ll::dispatch<true, false, 7168>(void*)": DISPATCH,
            "void deep_ep::legacy::internode_ll::combine<true, 7168, 9, 4>(void*)": COMBINE,
            "void deep_ep::internode_ll::clean_low_latency_buffer<256>(int*, int)": BARRIER,
        },
    ),
    # deep_ep/include/deep_ep/impls/*.cuh.
    "deepseek-ai/DeepEP elastic": (
        "deepep",
        "deepep",
        {
            "void deep_ep::elastic::dispatch_impl<true, 8>(void*)": DISPATCH,
            "void deep_ep::elastic::hybrid_dispatch_impl<true, 8>(void*)": DISPATCH,
            "void deep_ep::elastic::combine_impl<true, 8>(void*)": COMBINE,
            "void deep_ep::elastic::hybrid_combine_impl<true, 8>(void*)": COMBINE,
            "void deep_ep::elastic::barrier_impl<true, 8>(void*)": BARRIER,
            "void deep_ep::elastic::pp_send_impl<1, 8>(void*)": ("Send", None, None),
            "void deep_ep::elastic::pp_recv_impl<1, 8>(void*)": ("Recv", None, None),
            "void deep_ep::elastic::engram_fetch_impl<1, 8>(void*)": UNKNOWN,
        },
    ),
    # Branch hybrid-ep: csrc/hybrid_ep/backend/hybrid_ep_backend.cuh and extension/allgather.cu.
    "deepseek-ai/DeepEP hybrid": (
        "deepep",
        "deepep",
        {
            "void hybrid_ep::dispatch_kernel<unsigned char>(void*)": DISPATCH,
            "void hybrid_ep::combine_kernel<8>(void*)": COMBINE,
            "void hybrid_ep::device_sync_kernel<8>(unsigned int*)": BARRIER,
            "void hybrid_ep::rdma_sync_kernel<unsigned long>(int)": BARRIER,
            "void ag_nvl_kernel<1024>(void**, void*, int)": ALL_GATHER,
        },
    ),
    # csrc/custom_all_reduce.cuh, custom_all_gather_reduce_scatter.cuh; FlashInfer has a copy in the
    # same namespace, include/flashinfer/comm/vllm_custom_all_reduce.cuh.
    "vllm-project/vllm": (
        "custom-all-reduce",
        "library",
        {
            "void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)": ONE_SHOT,
            "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)": TWO_SHOT,
            "void vllm::cross_device_reduce_scatter<__half, 8>(vllm::RankData*)": REDUCE_SCATTER,
            "void vllm::cross_device_all_gather<8>(vllm::RankData*)": ALL_GATHER,
            # csrc/quickreduce/quick_reduce.h.
            "void quickreduce::allreduce_prototype_twoshot<X, __half>(__half const*)": TWO_SHOT,
        },
    ),
    # sgl-kernel/csrc/allreduce: custom_all_reduce.cuh, mscclpp_allreduce.cuh,
    # trt_reduce_internal.cu.
    "sgl-project/sglang": (
        "custom-all-reduce",
        "library",
        {
            "void sglang::cross_device_reduce_1stage<float, 4>(sglang::RankData*)": ONE_SHOT,
            "void sglang::cross_device_reduce_2stage<float, 4>(sglang::RankData*)": TWO_SHOT,
            "void sglang::allreduce_1shotLL_1node<float>(mscclpp::MemoryChannel*)": ALL_REDUCE,
            "void sglang::allreduce_1shotLL_2node<float>(mscclpp::MemoryChannel*)": ALL_REDUCE,
            "void trt_llm::oneShotAllReduceKernel<float, 8, true>(AllReduceParams)": ONE_SHOT,
            "void trt_llm::twoShotAllReduceKernel<float, 8, true>(AllReduceParams)": TWO_SHOT,
        },
    ),
    # cpp/tensorrt_llm/kernels: customAllReduceKernels.cu; communicationKernels/
    # allReduceFusionKernels.cu, customLowPrecisionAllReduceKernels.cu, MiniMaxReduceRMSKernel.cu.
    "NVIDIA/TensorRT-LLM all-reduce": (
        "custom-all-reduce",
        "library",
        {
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(X)": ONE_SHOT,
            "void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8>(X)": TWO_SHOT,
            "void tensorrt_llm::kernels::ar_fusion::"
            "allreduce_fusion_kernel_oneshot_lamport<X>(Y)": LAMPORT,
            "void tensorrt_llm::kernels::ar_fusion::"
            "allreduce_fusion_kernel_twoshot_sync<X>(Y)": TWO_SHOT,
            "void tensorrt_llm::kernels::lowPrecisionTwoShotAllReduceKernel<__half, X, 8>(Y)": (
                TWO_SHOT
            ),
            "void tensorrt_llm::kernels::lowPrecisionTwoShotHierAllReduceKernel<__half, X>(Y)": (
                TWO_SHOT
            ),
            "void tensorrt_llm::kernels::minimax_ar::minimax_reduce_rms_kernel_lamport<X, 8>(Y)": (
                "AllReduce",
                None,
                "LAMPORT",
            ),
        },
    ),
    # communicationKernels/moeAlltoAllKernels.cu, fusedMoeCommKernels.cu; in FlashInfer
    # comm/trtllm_alltoall.cuh and csrc/trtllm_alltoall_prepare.cu.
    "NVIDIA/TensorRT-LLM all-to-all": (
        "expert-all-to-all",
        "library",
        {
            "void tensorrt_llm::kernels::moe_alltoall::moeA2APrepareDispatchKernel(int*)": DISPATCH,
            "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<X, 8>(Y)": DISPATCH,
            "void tensorrt_llm::kernels::moe_alltoall::moeA2APrepareCombineKernel<X>(Y)": COMBINE,
            "void tensorrt_llm::kernels::moe_alltoall::moeA2ACombineKernel<X, Y, 8>(Z)": COMBINE,
            "void tensorrt_llm::kernels::fused_moe_impl::moeAllToAllKernel<4>(X)": (ALL_TO_ALL),
            "flashinfer::trtllm_alltoall::moeAllToAllKernel(X)": ALL_TO_ALL,
            "flashinfer::trtllm_alltoall::moe_prepare::allToAllMetadataDevice(int*)": ALL_TO_ALL,
            "void flashinfer::trtllm_alltoall::moe_prepare::computeCountAndIndiceDevice<8>(int*)": (
                ALL_TO_ALL
            ),
        },
    ),
    # include/flashinfer/comm: trtllm_allreduce.cuh, trtllm_allreduce_fusion.cuh,
    # trtllm_moe_allreduce_fusion.cuh, trtllm_mnnvl_allreduce.cuh, mixed_comm.cuh,
    # pcie_ipc_all_reduce.cuh.
    "flashinfer-ai/flashinfer": (
        "custom-all-reduce",
        "library",
        {
            "void flashinfer::trtllm_allreduce::oneShotAllReduceKernel<__half, 8>(X)": ONE_SHOT,
            "void flashinfer::trtllm_allreduce::twoShotAllReduceKernel<__half, 8>(X)": TWO_SHOT,
            "void flashinfer::trtllm_allreduce_fusion::"
            "allreduce_fusion_kernel_oneshot_lamport<X>(Y)": LAMPORT,
            "void flashinfer::trtllm_allreduce_fusion::"
            "allreduce_fusion_kernel_twoshot_sync<X>(Y)": TWO_SHOT,
            "void flashinfer::trtllm_moe_allreduce_fusion::"
            "moefinalize_allreduce_fusion_kernel_oneshot_lamport<X, 8>(Y)": LAMPORT,
            "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, X>(Y)": (
                ONE_SHOT
            ),
            "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, X>(Y)": TWO_SHOT,
            "void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<X>(Y)": (
                "AllReduce",
                None,
                "LAMPORT",
            ),
            "void flashinfer::mixed_comm::allreduce_kernel<X>(Y)": ALL_REDUCE,
            "void flashinfer::comm::pcie_ipc::push_oneshot_param_kernel<X>(Y)": ONE_SHOT,
            "void flashinfer::comm::pcie_ipc::ipc_rsag_ring_push_param_kernel<X>(Y)": ALL_REDUCE,
            "void flashinfer::comm::pcie_ipc::ipc_tp2_remote_push_kernel<X>(Y)": ALL_REDUCE,
        },
    ),
    # include/flashinfer/comm/ulysses_all_to_all.cuh.
    "flashinfer-ai/flashinfer sequence parallelism": (
        "custom",
        "library",
        {"void flashinfer::comm::ulysses::ulysses_a2a_kernel<X, 8, 0>(Y)": ALL_TO_ALL},
    ),
    # src/include/internal/non_abi/nvshmemi_h_to_d_{coll,sync,rma}_defs.cuh.
    "NVIDIA/nvshmem": (
        "nvshmem",
        "nvshmem",
        {
            "void alltoall_on_stream_kernel<float>(int, float*)": ALL_TO_ALL,
            "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)": BARRIER,
            "void sync_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)": BARRIER,
            "void broadcast_on_stream_kernel<float>(int, float*)": ("Broadcast", None, None),
            "void fcollect_on_stream_kernel<float>(int, float*)": ALL_GATHER,
            "void rdxn_on_stream_kernel<float, (rdxn_ops)4>(int, float*)": ALL_REDUCE,
            "void reducescatter_on_stream_kernel<float, (rdxn_ops)4>(int, float*)": REDUCE_SCATTER,
            "nvshmemi_signal_wait_until_on_stream_kernel(unsigned long volatile*, int)": UNKNOWN,
            "nvshmemi_proxy_rma_entrypoint(void*, void*)": UNKNOWN,
        },
    ),
    # torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu.
    "pytorch/pytorch NVSHMEM": (
        "nvshmem",
        "nvshmem",
        {
            "c10d::nvshmem_extension::exchangeSplitAndOffset(long*, int, int)": ALL_TO_ALL,
            "c10d::nvshmem_extension::allToAllV(void*, void*, long*)": ALL_TO_ALL,
            "c10d::nvshmem_extension::allToAllV_2d(void*, void*, long*)": ALL_TO_ALL,
        },
    ),
    # torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu and CUDASymmetricMemory.cu.
    "pytorch/pytorch": (
        "symmetric-memory",
        "framework",
        {
            "void (anonymous namespace)::one_shot_all_reduce_kernel<float, 16, 8>(X)": ONE_SHOT,
            "void (anonymous namespace)::two_shot_all_reduce_kernel<float, 16, 8>(X)": TWO_SHOT,
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<X>(Y)": TWO_SHOT,
            "void (anonymous namespace)::multimem_all_reduce_kernel<float, 16>(X)": (
                "AllReduce",
                "two-shot",
                "MULTIMEM",
            ),
            "void (anonymous namespace)::multimem_one_shot_reduce_kernel<float, 16>(X)": (
                "AllReduce",
                "one-shot",
                "MULTIMEM",
            ),
            "void (anonymous namespace)::multimem_all_gather_kernel<16>(X)": (
                "AllGather",
                None,
                "MULTIMEM",
            ),
            "c10d::symmetric_memory::barrier_kernel(unsigned int**, int)": BARRIER,
        },
    ),
    # src/device/common.cu before kernels were numbered; src/include/msccl/msccl_kernel.h.
    "ROCm/rccl": (
        "rccl",
        "rccl",
        {
            "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)": UNKNOWN,
            "ncclDevKernelDebug_Generic(ncclDevComm*, channelMasks, ncclWork*)": UNKNOWN,
            "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>)": UNKNOWN,
            "mscclKernel_Sum_float_LL_false(ncclDevComm*, mscclAlgo*, mscclWork*)": UNKNOWN,
        },
    ),
    # src/ext/collectives and src/core/include/execution_kernel.hpp.
    "microsoft/mscclpp": (
        "mscclpp",
        "library",
        {
            "void mscclpp::collective::allreduceNvlsPacket<X>(Y)": ALL_REDUCE,
            "void mscclpp::collective::allreduceRsAgPipeline<X>(Y)": ALL_REDUCE,
            "void mscclpp::collective::allgatherFullmesh2<true>(Y)": ALL_GATHER,
            "void mscclpp::executionKernel<X>(Y)": UNKNOWN,
        },
    ),
    # python/triton_dist/kernels/nvidia: ep_a2a.py, ep_a2a_intra_node.py, allgather_gemm.py;
    # kernels/amd/common_ops.py.
    "ByteDance-Seed/Triton-distributed": (
        "triton-distributed",
        "triton",
        {
            "kernel_dispatch_token": DISPATCH,
            "kernel_dispatch_token_intra_node": DISPATCH,
            "kernel_combine_token": COMBINE,
            "kernel_combine_token_intra_node": COMBINE,
            "barrier_all_intra_node_kernel": BARRIER,
            "barrier_all_ipc_kernel": BARRIER,
        },
    ),
}


@pytest.mark.parametrize("source", FROM_SOURCES)
def test_kernels_named_in_a_librarys_sources_are_collectives(source: str):
    family, origin, kernels = FROM_SOURCES[source]
    expected = {name: (family, origin, *details) for name, details in kernels.items()}
    assert {name: facts(name) for name in kernels} == expected


def facts(name: str) -> tuple[str | None, ...]:
    found = collective_kernel(name)
    if found is None:
        return (kernel_class(name).category,)
    origin = kernel_class(name).origin
    return found.family, origin, found.operation, found.algorithm, found.protocol


@pytest.mark.parametrize(
    ("name", "category"),
    [
        # Plain names say nothing about GPUs that exchange data.
        ("dispatch", "other"),
        ("combine", "other"),
        ("void dispatch<8>(int)", "other"),
        ("void combine<__half>(__half*)", "other"),
        ("void vectorized_combine<float>(float*)", "other"),
        ("moe_dispatch_kernel", "other"),
        ("moe_combine_kernel", "other"),
        ("void some::Dispatcher<float>::dispatch(int)", "other"),
        ("void flash::flash_fwd_splitkv_combine_kernel<X>(Y)", "attention"),
        ("void cub::DeviceReduceKernel<cub::DispatchReduce<float> >(X)", "reduction"),
        # Tokens sorted by expert on one GPU: vLLM's csrc/moe, DeepEP's hybrid_ep/extension.
        ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", "sort-index"),
        ("moe_permute_kernel", "sort-index"),
        ("void permute_kernel<8>(X)", "layout-copy"),
        ("void unpermute_kernel<8>(X)", "layout-copy"),
        # DeepEP: csrc/kernels/layout.cu, hybrid_ep_backend.cuh, impls/*_epilogue.cuh,
        # internode_ll.cu.
        ("void deep_ep::legacy::layout::get_dispatch_layout<256, 32, 8>(X)", "sort-index"),
        ("void hybrid_ep::scan<256, 8>(bool const*)", "sort-index"),
        ("void deep_ep::elastic::dispatch_copy_epilogue_impl<1>(void*)", "layout-copy"),
        ("void deep_ep::elastic::combine_reduce_epilogue_impl<1>(X)", "reduction"),
        ("void deep_ep::internode_ll::query_mask_buffer<1024>(int*)", "elementwise"),
        ("void deep_ep::internode_ll::clean_mask_buffer<32>(int*)", "elementwise"),
        ("void hybrid_ep::update_expected_value_kernel<2, 1, 1>(X)", "elementwise"),
        # FlashInfer: csrc/trtllm_alltoall_prepare.cu, comm/trtllm_allreduce.cuh.
        ("flashinfer::trtllm_alltoall::moe_prepare::moveIndiceDevice(int*)", "other"),
        (
            "void flashinfer::trtllm_allreduce::reduce_fusion::rms_norm_kernel<X>(Y)",
            "normalization",
        ),
        # Triton-distributed: ep_a2a_intra_node.py, allgather_gemm.py.
        ("kernel_skipped_token_local_dispatch_intra_node", "other"),
        ("kernel_skipped_token_inplace_local_combine_intra_node", "other"),
        ("threadblock_swizzle_allgather_gemm_kernel", "gemm"),
    ],
)
def test_kernels_that_stay_on_their_gpu_are_no_collectives(name: str, category: str):
    assert kernel_class(name).category == category
    assert collective_kernel(name) is None


def test_a_generic_kernel_of_nccl_is_not_taken_for_one_of_rccl():
    # NVIDIA/nccl src/device/common.cu.
    assert kernel_class("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)").origin == "nccl"


def test_the_page_about_classes_names_every_family(repository: Path):
    page = (repository / "docs" / "kernel-classes.md").read_text("utf-8")
    families = {rule.collective.get("family", "nccl") for rule in rules()}
    assert not [name for name in families if f"`{name}`" not in page]
