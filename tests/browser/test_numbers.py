"""The numbers of every panel, as they are on the screen, against plain SQL: on five recordings.

A job of two ranks has clocks to align, collectives and no copies; `pageable_h2d.fixed` has what
is shown of one GPU only: operations, memory, and copies of two directions beside its kernels. The
other three have more events of the same kinds: `make thorough`.
"""

from __future__ import annotations

import re
from random import Random
from statistics import median

import pytest
from support import plain_sums
from support.plain_sums import kind_of, nanoseconds, says

RANKS = ("ddp_serial.bad.rank0", "ddp_serial.bad.rank1")
RECORDINGS = (
    ("pageable_h2d.fixed",),
    RANKS,
    pytest.param(("host_sync.bad",), marks=pytest.mark.thorough),
    pytest.param(("tiny_kernels.fixed",), marks=pytest.mark.thorough),
    pytest.param(("rich_metrics_sampling",), marks=pytest.mark.thorough),
)


@pytest.mark.parametrize("names", RECORDINGS, ids=lambda names: names[0])
def test_every_panel(viewer, report, recording, names):
    names = [f"nsys/{name}" for name in names]
    plain = [plain_sums.read(recording(name)) for name in names]  # one per rank
    viewer.open(report(*names), "#o")
    check_overview(viewer, plain)
    check_steps(viewer, plain)
    check_view(viewer, plain)
    check_events(viewer, plain)
    check_plots(viewer, plain)


def card(viewer, label):
    """Return value and note of a card of the overview; None without one."""
    found = viewer.find(f".wl-card:has(.wl-card-label:text-is('{label}'))")
    if not found.count():
        return None
    return found.locator(".wl-card-value").inner_text(), found.locator(".wl-card-note").inner_text()


def parts_of(pattern, text):
    """Return the groups of a pattern that is in a text."""
    found = re.search(pattern, text)
    assert found, text
    return found.groups()


def device_of(note):
    (number,) = parts_of(r"GPU (\d+)", note)
    return int(number)


def share(part, span):
    return part / (span[1] - span[0])


def check_overview(viewer, plain):
    longest = max(plain, key=lambda one: one.median_ns)
    value, note = card(viewer, "median step time")
    assert says(value, longest.median_ns)
    value, note = card(viewer, "GPU busy")
    own = plain[device_of(note)]
    mean = sum(own.step_ns) / len(own.steps)
    assert says(value, share(own.busy_ns(own.analyzed), own.analyzed))
    (length,) = parts_of(r"of a (.+) step", note)
    assert says(length, mean)
    for kind, label in (("copy", "exposed copies"), ("collective", "exposed communication")):
        found = card(viewer, label)
        assert (found is not None) == any(kind_of(one) == kind for one in own.operations)
        if found:
            assert says(found[0], share(own.exposed_ns(own.analyzed, kind), own.analyzed))
    for number, section in enumerate(viewer.find(".wl-device").all()):
        title = section.locator("h3").inner_text()
        own = plain[device_of(title)]
        mean = sum(own.step_ns) / len(own.steps)
        assert says(title.rpartition("mean ")[2], mean)
        if number == 0:  # the others have only a bar
            check_breakdown(section, own, mean)


def check_breakdown(section, own, mean):
    cells = section.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    )
    rows = {row[1]: row[2:4] for row in cells}
    busy = own.busy_ns(own.analyzed) / len(own.steps)
    assert says(rows["busy"][0], busy)
    if "idle" in rows:
        assert says(rows["idle"][0], mean - busy)
    sums = {"busy", "idle"}
    shares = [float(text.rstrip("%")) for name, (_, text) in rows.items() if name not in sums]
    assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares) + 0.05)
    if "collective" in rows:
        alone = own.exposed_ns(own.analyzed, "collective") / len(own.steps)
        assert says(rows["collective"][0], alone)


def check_steps(viewer, plain):
    viewer.ask("(model.table.value = 'steps')")
    viewer.press("3")
    viewer.find(".tables-body .scroll").wait_for()
    head, *lines = viewer.find(".tables-body [role=row]").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent.trim()))"
    )
    lines = [dict(zip(head, line, strict=True)) for line in lines]
    for gpu, own in enumerate(plain):
        for step in own.steps:
            span = (step.start, step.end)
            (line,) = [one for one in lines if one["Step"] == step.name and one["GPU"] == str(gpu)]
            assert says(line["GPU Time"], step.end - step.start)
            assert says(line["Busy"], own.busy_ns(span))  # the second of this name, after the share


def views(own, length_ns):
    """Return times of a rank: all steps, one step, and parts that cut operations."""
    random = Random(5)
    start, end = own.analyzed
    yield own.analyzed
    yield own.steps[-1].start, own.steps[-1].end
    for part in (0.31, 0.02):
        length = int((end - start) * part)
        low = random.randrange(start, end - length)
        yield low, low + length
    yield start - length_ns, start + 200_000


def check_view(viewer, plain):
    viewer.press("2")
    viewer.drawn()
    # Calls of the OS have the same table as those of CUDA.
    viewer.ask(
        "(model.hidden.value = new Set(model.recording.head.rows"
        ".filter(row => row.kind === 'os').map(row => row.id))).size"
    )
    first = plain[0]
    for span in views(first, 1000):
        viewer.ask(f"model.show({{ start: {span[0]}, end: {span[1]} }})")
        viewer.settle()
        viewer.wait("!model.isSumming.value")
        viewer.frame()
        check_busy(viewer, plain, span)
        if len(plain) == 1:
            check_operations(viewer, first, span)


def shift_of(viewer, gpu, own):
    """Return what the page adds to the times of a file: its clock is aligned with the first."""
    if gpu == 0:
        return 0
    row = f"model.recording.rows[model.recording.rowOf.get('gpu{gpu}/state')].events"
    busy = viewer.ask(f"{row}.start[1]")
    return busy - own.operations[0].start


def check_busy(viewer, plain, span):
    for gpu, own in enumerate(plain):
        (text,) = viewer.find(f".sums [data-row='gpu{gpu}/state']").all_inner_texts()
        shift = shift_of(viewer, gpu, own)
        inside = (span[0] - shift, span[1] - shift)
        busy = own.busy_ns(inside)
        ratio, time = parts_of(r": ([\d.]+%) of the view busy \((.+)\)", text)
        assert says(time, busy), (gpu, span)
        assert says(ratio, share(busy, span)), (gpu, span)


def check_operations(viewer, own, span):
    """Compare count and time of each name, and the events with their spread."""
    table = viewer.table("GPU operations by name")
    by_name: dict[str, list[int]] = {}
    inside = own.inside(span)
    for one in inside:
        clipped = min(one.end, span[1]) - max(one.start, span[0])
        by_name.setdefault(one.name or f"{one.kind} {one.copy_kind}", []).append(clipped)
    expected = sorted((len(times), sum(times)) for times in by_name.values())
    found = sorted((int(count.replace(",", "")), time) for count, time, _ in table.values())
    assert [count for count, _ in found] == [count for count, _ in expected]
    assert sum(count for count, _ in found) == len(inside)
    for count in {count for count, _ in expected}:
        times = sorted(time for each, time in expected if each == count)
        texts = sorted((text for each, text in found if each == count), key=nanoseconds)
        assert all(says(text, time) for text, time in zip(texts, times, strict=True))
    calls = [one for one in own.calls if one[0] < span[1] and one[1] > span[0]]
    counted = viewer.table("API and OS calls")
    assert sum(int(count.replace(",", "")) for count, _ in counted.values()) == len(calls)


def check_events(viewer, plain):
    """The list of the GPU operations in a part of the first rank."""
    own = plain[0]
    low, high = list(views(own, 0))[2]
    viewer.ask(
        f"(model.area.value = {{ span: {{ start: {low}, end: {high} }}, rows: new Set("
        "model.recording.head.rows.flatMap((row, at) =>"
        " row.kind === 'stream' && row.device === 0 ? [at] : [])) }) && 1"
    )
    viewer.ask("(model.tab.value = 'events')")
    viewer.settle()
    viewer.find(".tab-body [role=status]").filter(has_text="median").wait_for()
    said = viewer.find(".tab-body [role=status]").inner_text()
    lengths = [one.end - one.start for one in own.inside((low, high))]
    count, least, middle, most = parts_of(
        r"([\d,]+)(?: recorded)? events · min (.+) · median (.+) · max (.+)", said
    )
    assert says(count, len(lengths))
    assert says(least, min(lengths))
    assert says(middle, median(lengths))
    assert says(most, max(lengths))


def topic(viewer, title):
    viewer.page.locator(".plots > nav button", has_text=title).click()
    viewer.find(f".plots > nav button[aria-current=page]:has-text('{title}')").wait_for()


def plot(viewer, title):
    found = viewer.page.locator("figure.plot", has=viewer.page.get_by_role("heading", name=title))
    found.first.wait_for()
    return found.first


def points(viewer, figure, most):
    """Return the texts of the first points of a plot."""
    chart = figure.locator("svg")
    chart.focus()
    for _ in range(most):
        chart.press("ArrowRight")
        viewer.frame()
        yield figure.locator(".plot-said").inner_text().partition(" · click")[0]


def check_plots(viewer, plain):
    viewer.press("5")
    steps = {
        (f", rank {rank}" if len(plain) > 1 else "", step.name): step.end - step.start
        for rank, own in enumerate(plain)
        for step in own.steps
    }
    figure = plot(viewer, "Step times")
    for text in points(viewer, figure, len(steps)):
        name, rank, time = parts_of(r"^(step_\d+)(, rank \d)?: ([\d.]+ \w+)$", text)
        assert says(time, steps.pop((rank or "", name)))
    assert not steps
    for rank, own in enumerate(plain):
        check_idle(viewer, own, f", rank {rank}" if len(plain) > 1 else "")
    check_kernels(viewer, plain)
    check_launches(viewer, plain)
    check_copies(viewer, plain)
    if len(plain) == 1:
        check_memory(viewer, plain[0])
    else:
        check_ranks(viewer, plain)


def check_idle(viewer, own, rank):
    """Compare the sum of the causes with what is not busy in each step."""
    idle = {
        step.name: step.end - step.start - own.busy_ns((step.start, step.end)) for step in own.steps
    }
    title = f"Idle time per step{rank}"
    if not sum(idle.values()):
        assert not viewer.page.get_by_role("heading", name=title, exact=True).count()
        return
    found = viewer.ask("model.recording.result('step_parts')")
    at = {column["name"]: place for place, column in enumerate(found["columns"])}
    sums = dict.fromkeys(idle, 0)
    for row in found["rows"]:
        is_own = not rank or rank == f", rank {row[at['rank']]}"
        if row[at["kind"]] == "idle" and is_own and row[at["step"]] in sums:
            sums[row[at["step"]]] += row[at["ns"]]
    assert sums == idle
    (first, *_) = points(viewer, plot(viewer, title), 1)
    assert first.startswith("step_")


def check_kernels(viewer, plain):
    topic(viewer, "Kernels")
    by_name: dict[str, list[int]] = {}
    for own in plain:
        for one in own.operations:
            if one.kind == "kernel":
                by_name.setdefault(one.name, []).append(one.end - one.start)
    choice = viewer.page.locator(".kernel-choice")
    choice.wait_for()
    values = choice.locator("option").evaluate_all("all => all.map(one => one.value)")
    assert set(values) == set(by_name)
    for value in values[:3]:
        choice.select_option(value)
        text = f"{len(by_name[value]):,} kernels, "
        note = plot(viewer, "Distribution of kernel times").locator("figcaption .faint")
        note.filter(has_text=text).wait_for()
        count, time = parts_of(r"([\d,]+) kernels, (.+) in all", note.inner_text())
        assert says(count, len(by_name[value]))
        assert says(time, sum(by_name[value]))


def check_launches(viewer, plain):
    topic(viewer, "Launches")
    plot(viewer, "Launch-to-start delay")
    found = viewer.ask("model.recording.result('launch_queue')")
    at = {column["name"]: place for place, column in enumerate(found["columns"])}
    for gpu, own in enumerate(plain):
        delays = [
            max(0, one.start - own.launches[one.correlation])
            for one in own.operations
            if one.kind == "kernel" and one.correlation in own.launches
        ]
        rows = [row for row in found["rows"] if row[at["gpu_index"]] == gpu]
        assert sum(row[at["kernels"]] for row in rows) == len(delays)
        assert max(row[at["max_ns"]] or 0 for row in rows) == max(delays)


def check_memory(viewer, own):
    topic(viewer, "Memory")
    note = plot(viewer, "Memory in use, GPU 0").locator("figcaption .faint").inner_text()
    size, kind = parts_of(r"Peak (.+?) \((.+?)\) at ", note)
    assert size
    assert kind == max(own.memory_peaks, key=lambda one: own.memory_peaks[one])
    assert says(size, own.memory_peaks[kind])


def check_copies(viewer, plain):
    topic(viewer, "Copies")
    sums: dict[str, list[int]] = {}
    for one in (one for own in plain for one in own.operations):
        if one.kind == "memcpy":
            sums.setdefault(one.direction, []).append(one.size)
    if not sums:
        viewer.page.get_by_text("No data for copy_rates: no memcpy events").wait_for()
        return
    note = plot(viewer, "Copied bytes by direction").locator("figcaption .faint").inner_text()
    said = {
        direction: (size, count)
        for direction, size, count in re.findall(r"([\w-]+): (.+?) in ([\d,]+) copies", note)
    }
    assert set(said) == set(sums)
    for direction, sizes in sums.items():
        assert says(said[direction][0], sum(sizes))
        assert says(said[direction][1], len(sizes))


def check_ranks(viewer, plain):
    """Compare the time in collectives, the exposed part, and what the ranks wait for each other."""
    topic(viewer, "Communication")
    texts = list(points(viewer, plot(viewer, "Communication of each rank"), len(plain)))
    for rank, own in enumerate(plain):
        exposed = own.exposed_ns(own.analyzed, "collective")
        time, ratio = parts_of(rf"rank {rank}: (.+) exposed, (.+) of its time", texts[rank])
        assert says(time, exposed)
        assert says(ratio, share(exposed, own.analyzed))
    topic(viewer, "Ranks")
    said = viewer.page.get_by_text(re.compile("The others wait for rank")).inner_text()
    latest, waited = parts_of(r"for rank (\d) most: (.+) in the analyzed", said)
    assert latest == "1"
    # A rank waits in a collective until the last one has started its own.
    collectives = [[one for one in own.operations if kind_of(one) == "collective"] for own in plain]
    shift = shift_of(viewer, 1, plain[1])
    wait = sum(
        max(0, other.start + shift - one.start)
        for one, other in zip(*collectives, strict=True)
        if one.start < plain[0].analyzed[1]
    )
    assert nanoseconds(waited) == pytest.approx(wait, rel=0.01)
