"""--pytorch records its ranges whatever is chosen of NVTX."""

import pytest

from warpline.capture.flags.parsing import parse
from warpline.capture.in_process.profile import Profile
from warpline.injected import compiled, memory, module_names, profiler_ranges

MODULES = ("nn.Module", "torch.compile", "default")


@pytest.mark.parametrize(
    ("words", "trace", "include", "warning"),
    [
        ("", ("cuda", "nvtx"), (), None),
        ("-t cuda", ("cuda",), (), None),
        ("--pytorch=all", ("cuda", "nvtx"), (), None),
        (
            "-t cuda --pytorch=modules",
            ("cuda", "nvtx"),
            MODULES,
            "NVTX ranges of PyTorch are recorded, too, for --pytorch",
        ),
        (
            "-t cuda --pytorch=memory",
            ("cuda", "nvtx"),
            (*MODULES, "torch", "warpline"),
            "NVTX ranges of PyTorch are recorded, too, for --pytorch",
        ),
        (
            "--nvtx-domain-include=mine,torch --pytorch=modules,optimizer",
            ("cuda", "nvtx"),
            ("mine", "torch", *MODULES),
            "NVTX domains recorded, too, for --pytorch: nn.Module, torch.compile, default",
        ),
        ("--nvtx-domain-include=torch --pytorch=dataloader", ("cuda", "nvtx"), ("torch",), None),
        ("--nvtx-domain-exclude=mine --pytorch=all", ("cuda", "nvtx"), (), None),
        (
            "--nvtx-domain-exclude=mine,default --pytorch=functions-trace",
            ("cuda", "nvtx"),
            (),
            "--pytorch lacks what is in excluded NVTX domains: default",
        ),
    ],
)
def test_ranges_that_pytorch_asks_for_are_recorded(words, trace, include, warning):
    settings = parse([*words.split(), "program"])
    assert (settings.trace, settings.nvtx_domain_include) == (trace, include)
    assert settings.warnings == ([] if warning is None else [warning])


def test_in_a_program_a_warning_says_so():
    with pytest.warns(RuntimeWarning, match="recorded, too, for --pytorch: torch$"):
        Profile(nvtx_domain_include=["mine"], pytorch="optimizer")


def test_the_domains_are_those_of_the_injected_code():
    injected = {compiled.DOMAIN, module_names.DOMAIN, profiler_ranges.DOMAIN, memory.DOMAIN}
    assert injected == {"nn.Module", "torch.compile", "torch", "warpline"}


def test_memory_is_that_of_modules_phases_and_steps():
    all_of_it = ("modules", "optimizer", "dataloader", "memory")
    assert parse(["--pytorch=memory", "program"]).pytorch == all_of_it
    assert parse(["--pytorch=memory,none", "program"]).pytorch == ()
