"""Parse the command line of ``warpline profile``: flags as in ``nsys profile``, then a program."""

from __future__ import annotations

from collections.abc import Sequence

from warpline import installation
from warpline.capture.flags import capabilities
from warpline.capture.flags.declarations import GRAMMAR
from warpline.capture.flags.pytorch import NEEDS_READING, with_ranges
from warpline.capture.flags.settings import CaptureRange, CaptureSettings
from warpline.capture.session.agent_config import WaitSource
from warpline.capture.session.control import RangeMode
from warpline.errors import UsageError


def parse(words: Sequence[str]) -> CaptureSettings:
    """Return the settings that the command line makes.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, or two flags conflict.
    """
    settings = CaptureSettings()
    rest = GRAMMAR.read(words, settings)
    settings.command = tuple(rest[1:] if rest[:1] == ["--"] else rest)
    if not settings.asks_for_lists:
        check(settings)
    elif settings.host is not None:
        raise UsageError(
            "--host has no lists", hint="run warpline profile --gpu-metrics-devices=help there"
        )
    return settings


def check(settings: CaptureSettings) -> None:
    """Reject conflicting flags and warn about flags without effect."""
    if not settings.command:
        raise UsageError("missing PROGRAM argument", hint="run warpline profile -- python train.py")
    if settings.nvtx_domain_include and settings.nvtx_domain_exclude:
        raise UsageError(
            "--nvtx-domain-include and --nvtx-domain-exclude cannot be combined", hint="use one"
        )
    if settings.capture_range is CaptureRange.NVTX and settings.nvtx_capture is None:
        raise UsageError("-c nvtx requires -p", hint="use -c nvtx -p RANGE[@DOMAIN]")
    if settings.duration is None and not settings.stop_on_exit:
        raise UsageError("-x false requires --duration", hint="use -d SECONDS -x false")
    _check_host(settings)
    _check_reading(settings)
    _check_sampling(settings)
    _check_keeping(settings)
    _check_metrics(settings)
    _check_os_calls(settings)
    _check_library_calls(settings)
    warn = settings.warnings.append
    chosen = with_ranges(
        settings.pytorch,
        settings.trace,
        settings.nvtx_domain_include,
        settings.nvtx_domain_exclude,
    )
    settings.trace, settings.nvtx_domain_include, warnings = chosen
    settings.warnings += warnings
    if settings.nvtx_capture is not None and settings.capture_range is not CaptureRange.NVTX:
        warn("-p is ignored (it requires -c nvtx)")
    if settings.capture_range is not CaptureRange.NONE and settings.mode is RangeMode.NONE:
        warn(f"-c {settings.capture_range} is not supported; the whole run is recorded")
    if "capture_range_end" in settings.given and settings.capture_range is CaptureRange.NONE:
        warn("--capture-range-end is ignored (it requires -c)")
    if "trace" in settings.given:
        lacking = capabilities.lacking(settings.trace)
        if lacking:
            warn(f"-t {','.join(lacking)} is not recorded ({capabilities.WHY_NOT})")


# What is written to other files than logs, which cannot be trimmed, or what selects otherwise.
_NOT_KEPT = (
    "steps",
    "every",
    "duty",
    "capture_range",
    "gpu_metrics_devices",
)
_OFF = (None, (), 0.0, "none")


def _check_keeping(settings: CaptureSettings) -> None:
    """Reject flags that cannot be combined with --keep-last."""
    if settings.keep_last is None:
        if settings.when is not None:
            raise UsageError("--when requires --keep-last", hint="use --keep-last=30s")
        return
    for attribute in _NOT_KEPT:
        if attribute in settings.given and getattr(settings, attribute) not in _OFF:
            raise UsageError(
                f"--{attribute.replace('_', '-')} and --keep-last cannot be combined",
                hint="omit one of them",
            )
    for word in sorted(NEEDS_READING.intersection(settings.pytorch)):
        # PyTorch itself holds the events of the whole run.
        raise UsageError(
            f"--pytorch={word} and --keep-last cannot be combined",
            hint="use --pytorch=all,autograd-nvtx, whose ranges are kept",
        )
    if "gpu_health" not in settings.given:
        settings.gpu_health = 0.0


def _check_host(settings: CaptureSettings) -> None:
    """Reject flags that make no sense without --host, or with it."""
    if settings.host is None:
        for attribute in ("host_dir", "host_python"):
            if attribute in settings.given:
                raise UsageError(
                    f"--{attribute.replace('_', '-')} requires --host",
                    hint="use --host [USER@]HOST",
                )
    elif not settings.stop_on_exit:
        raise UsageError(
            "--host and -x false cannot be combined", hint="omit -x: nothing would read its output"
        )


def _check_reading(settings: CaptureSettings) -> None:
    """Reject flags that read the recording where that is impossible, and print no summary."""
    if settings.stats:
        installation.require_reading("--stats")
    if settings.export:
        installation.require_reading("--export")
    for word in sorted(NEEDS_READING.intersection(settings.pytorch)):
        if settings.host is None:
            installation.require_reading(f"--pytorch={word}")
    settings.no_summary |= not installation.reads()


def _check_metrics(settings: CaptureSettings) -> None:
    """Reject an unknown set of metrics, and warn about flags without effect."""
    if settings.gpu_metrics is not None:
        return
    for attribute in ("gpu_metrics_set", "gpu_metrics_frequency"):
        if attribute in settings.given:
            name = f"--{attribute.replace('_', '-')}"
            settings.warnings.append(f"{name} is ignored (it requires --gpu-metrics-devices)")


def _check_library_calls(settings: CaptureSettings) -> None:
    """Warn about a flag that has no effect without calls of libraries."""
    name = "library_backtrace_threshold"
    if name in settings.given and not capabilities.has_library_calls(settings.trace):
        settings.warnings.append(
            f"--{name.replace('_', '-')} is ignored (it requires a library in -t, such as cublas)"
        )


def _check_os_calls(settings: CaptureSettings) -> None:
    """Warn about flags that have no effect without -t osrt."""
    if capabilities.OS_CALLS in settings.trace:
        return
    for attribute in ("osrt_threshold", "osrt_backtrace_threshold"):
        if attribute in settings.given:
            name = f"--{attribute.replace('_', '-')}"
            settings.warnings.append(f"{name} is ignored (it requires -t osrt)")


def _check_sampling(settings: CaptureSettings) -> None:
    """Reject incomplete or conflicting flags for step sampling."""
    steps, every, duty = settings.steps, settings.every, settings.duty
    if steps is None and every is None and duty is None:
        if settings.step_range is not None and settings.sampling is None:
            settings.warnings.append("--step-range is ignored (it requires --steps or --duty)")
        if "cuda_detach" in settings.given:
            settings.warnings.append("--cuda-detach is ignored (it requires --steps or --duty)")
        return
    if settings.cuda_waits is WaitSource.CUPTI:
        settings.warnings.append(
            "--cuda-waits=cupti is ignored (it would also add overhead to launches between samples)"
        )
    if every is not None and duty is not None:
        raise UsageError("--every and --duty cannot be combined", hint="use one")
    is_one_sample = settings.GOES_ON and steps is not None and every is None
    if duty is None and (steps is None or every is None) and not is_one_sample:
        needs = (
            "--every requires --steps" if steps is None else "--steps requires --every or --duty"
        )
        raise UsageError(needs, hint="use --steps 5 --every 100, or --duty 2%")
    if steps is not None and every is not None and steps > every:
        raise UsageError(
            f"--steps {steps} exceeds --every {every}", hint="use fewer steps per sample"
        )
    if settings.capture_range not in {CaptureRange.NONE, CaptureRange.CUDA_PROFILER_API}:
        raise UsageError(
            f"-c {settings.capture_range} and step sampling cannot be combined",
            hint="use --step-range to name the range that starts a step",
        )
