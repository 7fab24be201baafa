"""Before a program is counted: find the GPUs, try their counters, and plan the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.counting import passes
from warpline.capture.flags.counting import CountingSettings
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.machine.gpus import Gpu, Gpus, find_gpus
from warpline.capture.machine.obstacles import Obstacle
from warpline.capture.session.agent_config import Clocks, CountersConfig
from warpline.counters.host_process import HostProcess
from warpline.counters.names import DURATION, is_fact
from warpline.counters.plan import Plan, Session, plan
from warpline.counters.request import Request
from warpline.counters.units import unit_of
from warpline.errors import CounterError, UsageError
from warpline.units import plural

_NAMES_SHOWN = 3
_CONTROL_VERSION = 130_400  # CUPTI's: the first that locks clocks and flushes caches
_REPLAY_HINT = "--replay-mode kernel counts them"


@dataclass(frozen=True)
class Prepared:
    """What the agents are to count.

    Attributes:
        counters: Their configuration; None if counters cannot be used. For several runs of the
            program, what all of them count together.
        obstacle: Why they cannot be used; None if they can.
        chip: The chip that the metrics were planned for.
        warnings: What is left out, and why.
        runs: The configuration of each run of the program, if there are several.
    """

    counters: CountersConfig | None
    obstacle: Obstacle | None = None
    chip: str = ""
    warnings: tuple[str, ...] = ()
    runs: tuple[CountersConfig, ...] = ()


def prepare(
    settings: CountingSettings, environment: Mapping[str, str], program: Path | None
) -> Prepared:
    """Return what the agents are to count in a program.

    If the set `light` is all that is asked for, obstacles are returned, so that a timeline can be
    recorded instead; otherwise they are errors.

    Args:
        settings: What is asked for.
        environment: The program's environment.
        program: Its executable; None for this process.

    Raises:
        UsageError: A metric, set or section is unknown, or the metrics need more passes than the
            settings allow.
        CounterError: There is no GPU, or counters cannot be used.
    """
    settings.request.sections()  # unknown names are errors before anything is started
    gpus = find_gpus(environment, find_cupti(environment, program), settings.devices)
    if settings.controls_gpu:
        _check_version(gpus)
    gpu = gpus.tried
    if gpu.obstacle is not None:
        if not settings.request.is_light:
            raise CounterError(gpu.obstacle.cause, hint=gpu.obstacle.cure)
        return Prepared(None, gpu.obstacle)
    if gpu.chip is None:
        raise CounterError(f"the chip of {gpu.name} is unknown to CUPTI", hint="update CUPTI")
    with HostProcess([gpus.cupti]) as host:
        request = settings.request
        planned = plan(host, gpu.chip, request.sections(), _words(request))
        runs = passes.runs_of(host, planned) if settings.is_application else None
    if not planned.sessions:
        raise UsageError(
            f"none of the metrics is a counter of {gpu.chip}: {_left_out(planned.left_out)}",
            hint=f"warpline kernels --query-metrics --chips {gpu.chip} lists them",
        )
    if runs is not None:
        return _application(settings, planned, runs, gpus, gpu)
    session = planned.sessions[0]
    if settings.is_range and session.passes > 1:
        raise UsageError(
            f"--replay-mode {settings.replay_mode}: these metrics need"
            f" {session.passes} passes, and CUPTI cannot repeat the CUDA calls of a range",
            hint="choose metrics of one pass (warpline kernels plan shows the passes), or use"
            " --replay-mode app-range, which runs the program once per pass",
        )
    names = [metric.name for metric in session.metrics]
    return Prepared(
        settings.counters(_with_units(names), session.passes),
        chip=gpu.chip,
        warnings=(
            *_of_clocks(settings, gpu),
            *_named(settings, planned),
            *_of_another_run(planned, session),
            *_of_other_chips(settings, gpus, gpu),
        ),
    )


def prepare_samples(
    settings: CountingSettings, environment: Mapping[str, str], program: Path | None
) -> str:
    """Return the chip of the GPU whose program counters can be sampled in a program.

    Args:
        settings: What is asked for.
        environment: The program's environment.
        program: Its executable; None for this process.

    Raises:
        CounterError: There is no GPU, or its program counters cannot be sampled. What keeps
            counters from being used keeps them, too.
    """
    gpu = find_gpus(environment, find_cupti(environment, program), settings.devices).tried
    if gpu.obstacle is not None:
        raise CounterError(gpu.obstacle.cause, hint=gpu.obstacle.cure)
    return gpu.chip or gpu.name


def _words(request: Request) -> tuple[str, ...]:
    """Return the metrics to plan: launches with facts only are counted, too."""
    words = request.metrics
    has_facts_only = bool(words) and not request.sections() and all(map(is_fact, words))
    return (*words, DURATION) if has_facts_only else words


def _check_version(gpus: Gpus) -> None:
    """Raise CounterError if CUPTI cannot lock clocks and flush caches."""
    if gpus.version >= _CONTROL_VERSION:
        return
    # Before 13.0, CUPTI counted its versions from 1.
    is_known = gpus.version >= 10_000
    found = f"{gpus.version // 10_000}.{gpus.version // 100 % 100}" if is_known else "older than 13"
    raise CounterError(
        f"--clock-control and --cache-control need CUPTI 13.4 or later; {gpus.cupti} is {found}",
        hint="run pip install 'nvidia-cuda-cupti>=13.4' in the program's Python environment",
    )


def _application(
    settings: CountingSettings, planned: Plan, runs: Sequence[Sequence[str]], gpus: Gpus, gpu: Gpu
) -> Prepared:
    """Return what the runs of application replay count."""
    counted = {name for names in runs for name in names}
    wanted = [metric.name for metric in planned.metrics]
    left = [name for name in wanted if name not in counted]
    if not runs:
        raise UsageError(
            f"--replay-mode {settings.replay_mode}: each of these metrics needs several passes of"
            " one launch",
            hint=_REPLAY_HINT,
        )
    warnings = [
        *_of_clocks(settings, gpu),
        *_named(settings, planned),
        *_of_other_chips(settings, gpus, gpu),
    ]
    if left:
        shown = ", ".join(left[:_NAMES_SHOWN])
        more = f" and {len(left) - _NAMES_SHOWN} more" if len(left) > _NAMES_SHOWN else ""
        warnings.append(
            f"not counted, because they need several passes of one launch: {shown}{more};"
            f" {_REPLAY_HINT}"
        )
    metrics = _with_units([name for name in wanted if name in counted])
    return Prepared(
        settings.counters(metrics, len(runs)),
        chip=planned.chip,
        warnings=tuple(warnings),
        runs=tuple(settings.counters(_with_units(names), 1) for names in runs),
    )


def _with_units(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, unit_of(name)) for name in names)


def _of_clocks(settings: CountingSettings, gpu: Gpu) -> list[str]:
    """Return a warning about clocks that are changed."""
    if settings.clock_control is Clocks.NONE:
        return []
    how = f"--clock-control {settings.clock_control}"
    return [f"{how} changes the clocks of {gpu.name} for all programs on it"]


def _named(settings: CountingSettings, planned: Plan) -> list[str]:
    """Return a warning about metrics that were named and are left out."""
    named = {
        name: why
        for name, why in planned.left_out.items()
        if name in settings.request.metrics and not is_fact(name)
    }
    return [f"not counted: {_left_out(named)}"] if named else []


def _of_another_run(planned: Plan, session: Session) -> list[str]:
    """Return a warning about metrics that need another run of the program."""
    others = len(planned.metrics) - len(session.metrics)
    if not others:
        return []
    first = planned.sessions[1].metrics[0]
    what = f"{plural(others, 'metric')} cannot be counted in the same run, such as {first.name}"
    return [f"{what}: use --replay-mode application, or count them in a run of their own"]


def _of_other_chips(settings: CountingSettings, gpus: Gpus, gpu: Gpu) -> list[str]:
    """Return a warning if there are other chips than that of the plan."""
    found = []
    seen = {other.chip: other for other in gpus.gpus if other.chip not in (gpu.chip, None)}
    if seen and not settings.devices:
        names = [f"GPU {other.index} ({other.name})" for other in seen.values()]
        found.append(
            f"metrics are those of {gpu.chip}; {' and '.join(names)} may not have all of them"
            f" (--devices {gpu.index} counts on one GPU only)"
        )
    return found


def _left_out(reasons: Mapping[str, str]) -> str:
    shown = [f"{name} ({why})" for name, why in list(reasons.items())[:_NAMES_SHOWN]]
    more = len(reasons) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
