"""instructions: executed instructions by opcode, or by kind where opcodes were not counted."""

from __future__ import annotations

from warpline.derived.counters.known import Known
from warpline.derived.kernel_limits.opcodes import EXECUTED, opcodes
from warpline.derived.kernel_sections.columns import Item, Ranked, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

# Kinds of instructions that have a counter; together they are not all.
_KINDS = {
    "Branch": ("smsp__inst_executed_op_branch.sum",),
    "Global load": ("smsp__sass_inst_executed_op_global_ld.sum",),
    "Global store": ("smsp__sass_inst_executed_op_global_st.sum",),
    "Global load to shared memory": ("smsp__inst_executed_op_ldgsts.sum",),
    "Global atomic": (
        "smsp__inst_executed_op_generic_atom_dot_alu.sum",
        "smsp__inst_executed_op_generic_atom_dot_cas.sum",
    ),
    "Global reduction": ("smsp__inst_executed_op_global_red.sum",),
    "Local load": ("smsp__sass_inst_executed_op_local_ld.sum",),
    "Local store": ("smsp__sass_inst_executed_op_local_st.sum",),
    "Shared load": ("smsp__sass_inst_executed_op_shared_ld.sum",),
    "Shared load matrix": ("smsp__inst_executed_op_ldsm.sum",),
    "Shared store": ("smsp__sass_inst_executed_op_shared_st.sum",),
    "Shared atomic": ("smsp__inst_executed_op_shared_atom.sum",),
    "Texture": ("smsp__inst_executed_op_texture.sum",),
    "TMA load": ("smsp__inst_executed_op_tma_ld.sum",),
    "TMA store": ("smsp__inst_executed_op_tma_st.sum",),
}


@section_body("instructions")
def instructions(metrics: Metrics) -> Item:
    """Return the instructions that warps executed, the most frequent first."""
    counts = opcodes(metrics.trace)
    items = []
    for opcode in counts.names():
        executed = counts.executed(opcode)
        has = executed > 0
        tree: dict[str, Tree] = {
            "opcode": opcode,
            "metric": EXECUTED,
            "executed": Known(executed, has),
        }
        items.append(Item(has, tree))
    for kind, names in _KINDS.items():
        value = metrics.value(*names)
        has = value.known.is_known & (value.known.values > 0) & ~counts.has_any
        tree = {"opcode": kind, "metric": value.metric, "executed": value.known}
        items.append(Item(has, tree))
    return Item(any_of(items, len(metrics)), Ranked(items, ("executed",)))
