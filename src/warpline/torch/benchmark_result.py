"""What `warpline.torch.benchmark` returns."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.annotate import annotate
from warpline.capture.in_process.profile import Profile
from warpline.capture.in_process.run import is_recorded
from warpline.errors import CaptureError, MissingTableError
from warpline.lazy import lazy
from warpline.result import Skipped
from warpline.torch.timing.medians import Median, median, percentile
from warpline.torch.timing.rounds import ratio
from warpline.torch.timing.stopwatches import Call, Sample
from warpline.units import format_bytes, format_count, format_mhz, format_ns

if TYPE_CHECKING:
    from warpline import api
    from warpline.result import Result
    from warpline.trace import Trace
else:  # only a recording needs it
    api = lazy("warpline.api")

_HEADINGS = ("", "Median", "95% interval", "p95", "Min", "CPU", "Peak memory", "Runs", "Ratio")
_ALWAYS = 5  # columns that are shown also without values


@dataclass(frozen=True)
class Measurement:
    """Times of one function.

    Attributes:
        name: Its name.
        samples: Its runs, in order.
        is_on_gpu: Whether times are those of GPU work, by CUDA events. Otherwise of the CPU.
        peak_bytes: GPU memory that a call allocates at most; None for CPU functions.
    """

    name: str
    samples: Sequence[Sample] = field(repr=False)
    is_on_gpu: bool = False
    peak_bytes: int | None = None

    @property
    def times_ns(self) -> list[float]:
        """The time of each run."""
        return [sample.time_ns for sample in self.samples]

    @property
    def time_ns(self) -> Median:
        """The median time, with its 95% interval."""
        return median(self.times_ns)

    @property
    def p95_ns(self) -> float:
        """95% of the runs took this time at most."""
        return percentile(self.times_ns, 0.95)

    @property
    def min_ns(self) -> float:
        """The shortest time."""
        return min(self.times_ns)

    @property
    def cpu_ns(self) -> Median | None:
        """How long the CPU takes to launch the work; None for CPU functions."""
        return median([sample.cpu_ns for sample in self.samples]) if self.is_on_gpu else None

    @property
    def is_launch_bound(self) -> bool:
        """Whether launching the work takes longer than the work: in a loop, the GPU is idle."""
        return self.cpu_ns is not None and self.cpu_ns.value > self.time_ns.value

    def to_dict(self) -> dict[str, Any]:
        """Return all values as JSON has them: times in ns."""
        cpu_ns = self.cpu_ns
        return {
            "name": self.name,
            "is_on_gpu": self.is_on_gpu,
            "runs": len(self.samples),
            "median_ns": self.time_ns.to_dict(),
            "p95_ns": self.p95_ns,
            "min_ns": self.min_ns,
            "cpu_ns": None if cpu_ns is None else cpu_ns.to_dict(),
            "is_launch_bound": self.is_launch_bound,
            "peak_bytes": self.peak_bytes,
            "times_ns": self.times_ns,
        }

    def cells(self) -> tuple[str, ...]:
        """Return the row of the printed table."""
        time_ns, cpu_ns = self.time_ns, self.cpu_ns
        return (
            self.name,
            format_ns(time_ns.value),
            _span(format_ns(time_ns.low), format_ns(time_ns.high)),
            format_ns(self.p95_ns),
            format_ns(self.min_ns),
            "" if cpu_ns is None else format_ns(cpu_ns.value),
            "" if self.peak_bytes is None else format_bytes(self.peak_bytes),
            format_count(len(self.samples)),
        )


class Benchmark(Sequence[Measurement]):
    """The result of a benchmark: it prints as a table.

    The measurements are its items: the function, then those it was compared with.

    Attributes:
        device: The name of the GPU, or "CPU".
        notes: What limits the results, in sentences.
        is_flushed: Whether the L2 cache of the GPU was flushed before each run.
        clocks: Clocks of the GPU in Hz and what limited them: ``sm_clock_hz``, ``clock_limits``.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        call: Call,
        *,
        device: str,
        is_flushed: bool = False,
        clocks: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._measurements = tuple(measurements)
        self._call = call
        self._trace: Trace | None = None
        self.device = device
        self.is_flushed = is_flushed
        self.clocks = clocks or {}
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self._measurements)

    def __getitem__(self, index: Any) -> Any:
        return self._measurements[index]

    @property
    def time_ns(self) -> Median:
        """The median time of the function, with its 95% interval."""
        return self._measurements[0].time_ns

    @property
    def ratios(self) -> list[Median | None]:
        """Median time of each function divided by that of the first one in the same round.

        It is None for the first one.
        """
        first, *others = self._measurements
        return [None, *(ratio(item.samples, first.samples) for item in others)]

    @property
    def recording(self) -> Trace:
        """A recording of one more run of the function, made at the first use.

        Raises:
            CaptureError: The program is being recorded; that recording has the runs.
        """
        if self._trace is None:
            self._trace = _recorded(self._call, self._measurements[0].name)
        return self._trace

    @property
    def kernels(self) -> Result:
        """The kernels of one run: the table ``cuda_gpu_kern_sum`` of `recording`.

        Raises:
            MissingTableError: The function launches none, or they were not recorded.
            CaptureError: As for `recording`.
        """
        first = self._measurements[0]
        if not first.is_on_gpu:
            hint = "pass tensors on the GPU"
            raise MissingTableError(f"{first.name} runs on the CPU: no kernels", hint=hint)
        found = api.run(self.recording, "cuda_gpu_kern_sum")
        if isinstance(found, Skipped):
            hint = "see copies and memsets: warpline.stats(result.recording, 'cuda_gpu_sum')"
            trace = self.recording
            if not (trace.has("api_call") and trace.row_count("api_call")):
                hint = "run warpline doctor: it says what keeps CUDA from being recorded"
            raise MissingTableError(f"{first.name}: no kernels were recorded", hint=hint)
        return found

    def to_json(self) -> str:
        """Return all results, with the time of each run."""
        return json.dumps(
            {
                "device": self.device,
                "l2_flushed": self.is_flushed,
                "clocks": self.clocks,
                "notes": list(self.notes),
                "measurements": [
                    {**item.to_dict(), "ratio": None if found is None else found.to_dict()}
                    for item, found in zip(self, self.ratios, strict=True)
                ],
            }
        )

    def __repr__(self) -> str:
        head = [self.device]
        if self.clocks.get("sm_clock_hz"):
            clocks = self.clocks["sm_clock_hz"]
            low, high = format_mhz(min(clocks)), format_mhz(max(clocks))
            head.append(f"SM clock {high if low == high else _span(low, high)}")
        if self._measurements[0].is_on_gpu:
            head.append("L2 cache flushed" if self.is_flushed else "L2 cache warm")
        rows = [
            (*item.cells(), "" if found is None else _in_words(found))
            for item, found in zip(self, self.ratios, strict=True)
        ]
        lines = [", ".join(head), *_table(rows)]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def _recorded(call: Call, name: str) -> Trace:
    if is_recorded():
        raise CaptureError(
            "this program is already being recorded", hint="see the runs in that recording"
        )
    folder = Path(tempfile.mkdtemp(prefix="warpline-"))
    try:
        with Profile(str(folder / "run").replace("%", "%%")) as run, annotate(name):
            call()
        trace = run.trace
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(trace, shutil.rmtree, folder, ignore_errors=True)
    return trace


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, without the columns that are empty."""
    columns = [
        (heading, *cells)
        for place, (heading, cells) in enumerate(
            zip(_HEADINGS, zip(*rows, strict=True), strict=True)
        )
        if place < _ALWAYS or any(cells)
    ]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for cells in zip(*columns, strict=True):
        name, *others = zip(cells, widths, strict=True)
        aligned = [name[0].ljust(name[1]), *(text.rjust(width) for text, width in others)]
        lines.append("  ".join(aligned).rstrip())
    return lines


def _in_words(found: Median) -> str:
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _span(low: str, high: str) -> str:
    """Return a span of two formatted numbers, with their unit once: ``12.9 to 14.0 ms``."""
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"
