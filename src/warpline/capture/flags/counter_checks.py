"""Which flags of ``warpline kernels`` cannot be combined."""

from __future__ import annotations

from warpline.capture.flags.counting import CacheControl, CountingSettings, Page, ReplayMode
from warpline.capture.flags.nvtx_ranges import MOST_NAMES
from warpline.capture.session.agent_config import FilterMode
from warpline.errors import UsageError

_REPLAY_HINT = "use --replay-mode kernel, the default: it gives the same metrics"


# Attributes of flags that do not fit --source, which samples all kernels all the time.
_NOT_SAMPLED = (
    *("set", "section", "metrics", "disable_extra_suffixes", "sample", "overhead"),
    *("kernel_id", "launch_skip", "launch_count", "launch_skip_before_match", "filter_mode"),
    *("nvtx", "nvtx_include", "nvtx_exclude", "nvtx_push_pop_scope", "range_filter"),
    *("profile_from_start", "steps", "every", "duty", "step_range", "kill"),
    *("replay_mode", "app_replay_match", "app_replay_mode", "check_exit_code"),
    *("cache_control", "clock_control", "print_summary", "print_metric_instances"),
)
_ONLY_SAMPLED = ("sampling_interval", "import_source")


def check_report(settings: CountingSettings) -> None:
    """Reject flags that choose launches of a run only."""
    _check_source_of_report(settings)
    if settings.nvtx_include or settings.nvtx_exclude or any(settings.range_filter):
        raise UsageError(
            "launches of a report cannot be chosen by their NVTX ranges",
            hint="use -k, --kernel-id, -s or -c",
        )


def check(settings: CountingSettings) -> None:
    """Reject conflicting flags of a run."""
    if not settings.command:
        raise UsageError(
            "missing PROGRAM or REPORT argument",
            hint="run warpline kernels -- python train.py, or warpline kernels run.ncu-rep",
        )
    if settings.source:
        _check_source(settings)
        return
    _ignore_sampling(settings)
    _check_steps(settings)
    _check_application(settings)
    _check_ranges(settings)
    _check_control(settings)
    ways = {
        "--nvtx-include": settings.window is not None,
        "--profile-from-start no": not settings.profile_from_start,
        "--range-filter": bool(settings.range_filter[1]) and settings.profile_from_start,
        "--steps": settings.samples_steps,
    }
    chosen = [name for name, is_chosen in ways.items() if is_chosen]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} cannot be combined", hint="use one")
    if settings.page is Page.SOURCE:
        raise UsageError(
            "--page source: instructions are in reports of ncu only", hint="use --page raw"
        )


def _check_source(settings: CountingSettings) -> None:
    """Reject what counts or chooses launches, where the whole run is sampled."""
    for attribute in _NOT_SAMPLED:
        if attribute in settings.given:
            raise UsageError(
                f"--source and --{attribute.replace('_', '-')} cannot be combined: all kernels"
                " are sampled, and nothing is counted",
                hint="count in a run of its own; -k chooses the kernels that --source prints",
            )
    if settings.page not in {None, Page.SOURCE, Page.SESSION}:
        raise UsageError(
            f"--source and --page {settings.page} cannot be combined", hint="use --page source"
        )


def _check_source_of_report(settings: CountingSettings) -> None:
    """Take --source for the page of that name."""
    if settings.source and settings.page not in {None, Page.SOURCE}:
        raise UsageError(
            f"--source and --page {settings.page} cannot be combined", hint="use --page source"
        )
    if settings.source:
        settings.page = Page.SOURCE
    _ignore_sampling(settings)


def _ignore_sampling(settings: CountingSettings) -> None:
    """Note the flags of sampling, which ncu has for its counters, where nothing is sampled."""
    given = [name for name in _ONLY_SAMPLED if name in settings.given]
    settings.ignored[:0] = [f"--{name.replace('_', '-')}" for name in given]


def _check_application(settings: CountingSettings) -> None:
    """Reject what depends on time where each run must count the same launches."""
    if not settings.is_application:
        return
    for name, is_given in (("--overhead", settings.overhead), ("--duty", settings.duty)):
        if is_given:
            raise UsageError(
                f"{name} cannot be combined with --replay-mode {settings.replay_mode}: it depends"
                " on time, and each run must count the same launches",
                hint="use -c, --sample or --steps to count fewer launches",
            )


def _check_steps(settings: CountingSettings) -> None:
    """Reject incomplete and conflicting ways to sample steps."""
    if settings.samples_steps:
        if settings.every is not None and settings.duty is not None:
            raise UsageError("--every and --duty cannot be combined", hint="use one")
        if settings.duty is None and (settings.steps is None or settings.every is None):
            raise UsageError(
                "--steps and --every belong together", hint="use --steps 1 --every 100"
            )
        if settings.steps and settings.every and settings.steps > settings.every:
            raise UsageError(
                f"--steps {settings.steps} exceeds --every {settings.every}",
                hint="use fewer steps per sample",
            )


def _check_control(settings: CountingSettings) -> None:
    """Reject control of the program or the GPU that the way of counting cannot have."""
    if settings.kill and not settings.launch_count:
        raise UsageError("--kill yes requires -c", hint="use -c N --kill yes")
    if settings.kill and (settings.counts_windows or settings.is_application):
        raise UsageError(
            f"--kill yes is not supported with --replay-mode {settings.replay_mode}",
            hint=_REPLAY_HINT,
        )
    is_replay_of_kernels = settings.replay_mode is ReplayMode.KERNEL
    if settings.cache_control is CacheControl.ALL and not is_replay_of_kernels:
        raise UsageError(
            f"--cache-control all is not supported with --replay-mode {settings.replay_mode}:"
            " caches are flushed before each pass of a launch",
            hint=_REPLAY_HINT,
        )
    if settings.kill and settings.filter_mode is not FilterMode.GLOBAL:
        raise UsageError(
            f"--kill yes and --filter-mode {settings.filter_mode} cannot be combined",
            hint="use one",
        )


def _check_ranges(settings: CountingSettings) -> None:
    """Reject NVTX expressions that are too many, or more than the way of counting can use."""
    expressions = (*settings.nvtx_include, *settings.nvtx_exclude)
    if sum(len(expression.names) for expression in expressions) > MOST_NAMES:
        raise UsageError(f"more than {MOST_NAMES} NVTX ranges", hint="use regex:EXPRESSION")
    if settings.range_filter[2] and not settings.nvtx_include:
        raise UsageError(
            "--range-filter: NVTX ranges are those of --nvtx-include",
            hint="add --nvtx-include RANGE/",
        )
    if not settings.counts_windows:
        return
    mode = f"--replay-mode {settings.replay_mode}"
    if settings.nvtx_exclude or settings.range_filter[2]:
        flag = "--nvtx-exclude" if settings.nvtx_exclude else "--range-filter for NVTX ranges"
        raise UsageError(
            f"{flag} is not supported with {mode}", hint="name the range with --nvtx-include"
        )
    if len(expressions) > 1 or (expressions and not expressions[0].is_single):
        raise UsageError(
            f"{mode} counts one NVTX range, without nesting or expressions",
            hint="use --nvtx-include RANGE or --nvtx-include DOMAIN@RANGE",
        )
