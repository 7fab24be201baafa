"""Kernels of compiled code have the nodes, modules and lines that they were made from."""

import json
import lzma
from pathlib import Path

import pytest

from warpline.capture.finishing.compiled_code import compiled_kernels
from warpline.capture.finishing.inductor_code import CPP, EXTERN, TRITON, read_code
from warpline.injected.compiled import DOMAIN, _shortened
from warpline.schema.labels import COMPILED_KERNEL_KINDS
from warpline.schema.ranges import COMPILED_DOMAIN

GPT = Path(__file__).parents[1] / "data" / "inductor" / "gpt.jsonl.xz"


@pytest.fixture(scope="module")
def gpt():
    """Return what a process wrote about a GPT that came from AOTAutograd's cache."""
    return [json.loads(line) for line in lzma.decompress(GPT.read_bytes()).splitlines()]


def modules(kernels, *, is_backward):
    return [(k.kernel, k.module) for k in kernels if k.is_backward == is_backward]


def test_forward_calls_have_modules_in_order(gpt):
    found = modules(compiled_kernels(gpt), is_backward=False)
    assert found[:8] == [
        ("triton_per_fused_embedding_native_layer_norm_0", "GPT.blocks.0.ln1"),
        ("addmm", "GPT.blocks.0.attn.qkv"),
        ("_scaled_dot_product_cudnn_attention", "GPT.blocks.0.attn"),
        ("addmm", "GPT.blocks.0.attn.proj"),
        ("triton_per_fused_add_native_layer_norm_view_1", "GPT.blocks.0.ln2"),
        ("addmm", "GPT.blocks.0.mlp.0"),
        ("triton_poi_fused_gelu_view_2", "GPT.blocks.0.mlp.1"),
        ("addmm", "GPT.blocks.0.mlp.2"),
    ]
    assert len(found) == 34
    assert found[-1] == ("addmm", "GPT.head")


def test_backward_calls_have_modules_without_the_graph_of_autograd(gpt):
    kernels = compiled_kernels(gpt)
    found = modules(kernels, is_backward=True)
    assert len(found) == 113
    assert all(module is not None for _, module in found)
    products = [module for kernel, module in found if kernel == "mm"]
    block = [
        ("mlp.2", "mlp.2", "mlp.0", "mlp.0", "attn.proj", "attn.proj", "attn.qkv", "attn.qkv")
    ] * 4
    expected = ["GPT.head", "GPT.head"]
    expected += [f"GPT.blocks.{3 - n}.{part}" for n, parts in enumerate(block) for part in parts]
    assert products[:26] == expected[:26]
    assert sorted(products) == sorted(
        expected
    )  # gradients of inputs and weights of each linear layer
    attention = [module for kernel, module in found if "attention_backward" in kernel]
    assert attention == [f"GPT.blocks.{n}.attn" for n in (3, 2, 1, 0)]
    bias = next(k for k in kernels if k.is_backward and k.kernel == "triton_per_fused_sum_view_1")
    assert bias.module == "GPT.head"  # its gradient is a result
    assert {k.class_name for k in kernels if k.kernel == "mm"} == {"Linear"}


def test_code_has_nodes_and_operators(gpt):
    first = compiled_kernels(gpt)[0]
    assert first.nodes == ("x", "layer_norm")
    assert first.operators == ("aten.embedding", "aten.native_layer_norm")
    assert (first.graph, first.position, first.kind) == ("CompiledFxGraph 0/0 forward", 0, TRITON)
    assert (first.file, first.line) == ("/app/gpt.py", 9)
    assert COMPILED_KERNEL_KINDS == {TRITON: "Triton", EXTERN: "Operator", CPP: "C++"}
    assert DOMAIN == COMPILED_DOMAIN


def test_a_graph_of_autograd_says_more_than_its_cache(gpt):
    kernel = next(k for k in compiled_kernels(gpt) if k.is_backward)
    node = ["L['s'].blocks.0.ln1", "LayerNorm", "/app/gpt.py", 7]
    lowered = {"lowered": "0/0", "is_backward": True, "nodes": {kernel.nodes[-1]: node}}
    found = next(k for k in compiled_kernels([lowered, *gpt]) if k.is_backward)
    assert (found.module, found.line) == ("GPT.blocks.0.ln1", 7)


def test_code_without_an_id_is_compared_by_its_nodes(gpt):
    other = {**gpt[0], "traced": "1/0", "nodes": {}}
    lines = [gpt[0], other, *({**line, "compile_id": ""} for line in gpt[1:])]
    assert [k.module for k in compiled_kernels(lines)] == [k.module for k in compiled_kernels(gpt)]


def test_damaged_lines_are_left_out(gpt):
    whole = compiled_kernels(gpt)
    damaged: list[object] = [
        None,
        3,
        [],
        {},
        {"traced": 1},
        {"code": "x"},
        {"lowered": "0/0", "nodes": 4},
    ]
    damaged += [{"traced": "0/0", "roots": {}, "own": None, "inputs": [], "nodes": {"x": [1]}}]
    assert compiled_kernels([*damaged, *gpt]) == whole
    assert compiled_kernels(damaged) == []
    no_module = compiled_kernels(gpt[1:])
    assert [k.kernel for k in no_module] == [k.kernel for k in whole]
    assert {k.module for k in no_module} == {None}


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("L['self'].blocks.3", "Net.blocks.3"),
        ("L['self']._modules['blocks']._modules['3']", "Net.blocks.3"),
        ("L['self'].blocks[3]._orig_mod.fc", "Net.blocks.3.fc"),
        ("", "Net"),
        ("G['elsewhere'].fc", None),
    ],
)
def test_paths_begin_with_the_class_of_the_root(source, path):
    code = "def call(args):\n    # Source Nodes: [y], Original ATen: [aten.mm]\n"
    code += "    extern_kernels.mm(arg0_1, arg1_1, out=buf0)\n    return (buf0, )\n"
    node = [source, "Linear", "net.py", 4]
    roots = {"L['self']": "Net"}
    traced = {
        "traced": "0/0",
        "roots": roots,
        "own": "L['self']",
        "inputs": [],
        "nodes": {"y": node},
    }
    written = {"code": "CompiledFxGraph 0/0 forward", "compile_id": "0/0", "text": code}
    assert [kernel.module for kernel in compiled_kernels([traced, written])] == [path]


def test_functions_of_the_module_are_followed():
    code = """
triton_a_0 = async_compile.triton('triton_a', '')
multi_kernel_0 = async_compile.multi_kernel('multi_kernel_0', [triton_a_0])
cpp_fused_b_1 = async_compile.cpp_pybinding(['float*'], r'')

def subgraph_0(args):
    triton_a_0.run(buf0, buf1, 4, stream=stream0)
    return (buf1, )

def call(args):
    arg0_1, arg1_1 = args
    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)
    buf0 = torch.ops.aten.sort.stable(arg0_1)
    (buf1, ) = subgraph_0([buf0])
    multi_kernel_0.run(buf1, 4, stream=stream0)
    cpp_fused_b_1(buf1, buf2)
    buf3 = empty_strided_cpu((4, ), (1, ), torch.float32)
    buf3.copy_(buf2, False)
    # extern_kernels.mm(comment, comment, out=comment)
    return (buf3, )
"""
    found = [(call.kernel, call.kind) for call in read_code(code).calls]
    assert found == [
        ("sort", EXTERN),
        ("triton_a", TRITON),
        ("multi_kernel_0", EXTERN),
        ("cpp_fused_b_1", CPP),
        ("copy_", EXTERN),
    ]
    assert read_code("int main() {}").calls == ()


def test_code_is_written_without_kernels_and_benchmark():
    code = "a = async_compile.triton('a', '''\ndef a(): 1\n''')\ndef call(args):\n    pass\n"
    text = _shortened(code + "\ndef benchmark_compiled_module(times=10):\n    call([])\n")
    assert text == "a = async_compile.triton('a', '')\ndef call(args):\n    pass\n\n"
