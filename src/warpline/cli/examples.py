"""Examples of each command, which its help ends with."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "analyze": (
        "warpline analyze run.warpline",
        "warpline analyze rank0.sqlite rank1.sqlite --steps-from 'epoch_*'",
        "warpline analyze run.warpline --checklist --fail-on high",
    ),
    "attach": ("warpline attach --duration 30 -o run 4711",),
    "baseline": (
        "warpline baseline save main run1.warpline run2.warpline run3.warpline",
        "warpline baseline list",
    ),
    "bench": ("warpline bench gemm", "warpline bench copy --save", "warpline bench launch --json"),
    "bench gemm": ("warpline bench gemm --sizes 32,4096 --dtype bf16,fp8",),
    "bench copy": ("warpline bench copy -o ceilings.json", "warpline bench copy --save"),
    "bench launch": ("warpline bench launch --backend torch --json",),
    "cancel": ("warpline cancel", "warpline cancel --session=train"),
    "compare": (
        "warpline compare before.warpline after.warpline",
        "warpline compare --before a1.warpline a2.warpline --after b1.warpline b2.warpline",
        "warpline compare before.ncu-rep after.ncu-rep",
    ),
    "completion": (
        "warpline completion bash > ~/.local/share/bash-completion/completions/warpline",
    ),
    "demo": ("warpline demo", "warpline demo --copy ."),
    "docs": ("warpline docs analyze", "warpline docs pageable-copy", "warpline docs --print terms"),
    "doctor": ("warpline doctor", "warpline doctor --fix"),
    "dump": ("warpline dump", "warpline dump --session=train"),
    "explain": ("warpline explain launch-bound", "warpline explain cuda_gpu_kern_sum"),
    "export": (
        "warpline export -t perfetto -o run.json run.warpline",
        "warpline export -t parquet -o tables run.warpline",
    ),
    "finalize": ("warpline finalize",),
    "flame": ("warpline flame run.warpline", "warpline flame -o flame.html run.warpline"),
    "fleet": (
        "warpline fleet analyze 'run/*.warpline'",
        "warpline fleet compare 'monday/*.warpline' 'tuesday/*.warpline'",
    ),
    "fleet analyze": (
        "warpline fleet analyze 'run/*.warpline'",
        "warpline fleet analyze 'run/*.warpline' --workers 16 -o fleet.html",
    ),
    "fleet compare": (
        "warpline fleet compare 'monday/*.warpline' 'tuesday/*.warpline'",
        "warpline fleet compare 'monday/*.warpline' 'tuesday/*.warpline' -o compared.html",
    ),
    "gate": (
        "warpline gate --baseline main run.warpline",
        "warpline gate --runs 10 --interleave -- python old.py --- python new.py",
    ),
    "graphcheck": ("warpline graphcheck -- python train.py", "warpline graphcheck run.warpline"),
    "import": ("warpline import -o run.warpline report1.nsys-rep",),
    "kernels": (
        "warpline kernels --set full -o run python train.py",
        "warpline kernels run.warpline",
        "warpline kernels report.ncu-rep",
    ),
    "kernels plan": ("warpline kernels plan --chip GH100 --set full",),
    "kernels sweep": ("warpline kernels sweep --vary N=256:8192:x2 -- ./gemm {N}",),
    "launch": ("warpline launch --session-new=train -- python train.py",),
    "list": ("warpline list", "warpline list --format json"),
    "mcp": ("warpline mcp runs",),
    "memory": ("warpline memory run.warpline", "warpline memory --by module run.warpline"),
    "merge": ("warpline merge run.warpline trace.json.gz -o merged.warpline",),
    "profile": (
        "warpline profile python train.py",
        "warpline profile -o run --pytorch=all python train.py",
        "warpline profile --delay 60 --duration 10 python train.py",
    ),
    "query": ("warpline query run.warpline 'SELECT COUNT(*) FROM kernel'",),
    "recover": ("warpline recover run.warpline.raw",),
    "report": (
        "warpline report run.warpline",
        "warpline report run.warpline -o report.md",
        "warpline report run.warpline -o run.zip --max-size 18MB",
    ),
    "sessions": ("warpline sessions",),
    "shutdown": ("warpline shutdown --session=train",),
    "start": ("warpline start -o run", "warpline start --session=train --duration 10"),
    "stats": (
        "warpline stats run.warpline",
        "warpline stats -r cuda_gpu_kern_sum,nvtx_sum run.warpline",
        "warpline stats -r cuda_gpu_trace --format csv -o trace.csv run.warpline",
    ),
    "status": ("warpline status",),
    "stop": ("warpline stop", "warpline stop --session=train"),
    "summary": ("warpline run.warpline", "warpline summary --filter-time 1s/2s run.warpline"),
    "sweep": ("warpline sweep --vary batch=1,2,4,8 -- python bench.py {batch}",),
    "top": ("warpline top",),
    "translate": ("warpline translate 'nsys profile -t cuda,nvtx -o run ./app'",),
    "trend": ("warpline trend nightly/*.warpline",),
    "view": (
        "warpline view run.warpline",
        "warpline view --live",
        "warpline view me@gpu1:run.warpline",
    ),
}


def shown(name: str) -> str:
    """Return the end of the help of a command; empty without examples."""
    lines = EXAMPLES.get(name, ())
    return "\n".join(["", "examples:", *(f"  {line}" for line in lines), ""]) if lines else ""
