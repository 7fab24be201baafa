"""Ordinary programs that use PyTorch's profiler; each returns what does not depend on the clock.

A script takes the module that the profiler is imported from and a folder for its files.
"""

import gzip
import json
import re
from collections import Counter

import torch
from torch import nn


class Block(nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def training():
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(16, 4))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)


def train_step(model, optimizer):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.ones(8, 16)), torch.arange(8) % 4).backward()
    optimizer.step()


def sums(averages):
    """What rows of a table have beside times."""
    return Counter(
        (row.key, row.count, str(row.input_shapes), row.flops, row.cpu_memory_usage)
        for row in averages
    )


def rows_of(table):
    """The names and counts of a printed table."""
    lines = [line.split() for line in table.splitlines()]
    return Counter((line[0], line[-1]) for line in lines if len(line) > 5)


def inference(profiler, _):
    """The first page of the recipe: labels, and a table."""
    model = training()[0].eval()
    with (
        profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True) as prof,
        profiler.record_function("model_inference"),
        torch.no_grad(),
    ):
        model(torch.ones(8, 16))
    table = prof.key_averages().table(sort_by="count", row_limit=10, max_name_column_width=25)
    return rows_of(table), sums(prof.key_averages(group_by_input_shape=True))


def defaults(profiler, _):
    """No arguments at all."""
    with profiler.profile() as prof:
        torch.ones(4) @ torch.ones(4)
    names = [event.name for event in prof.events()]
    return names, prof.key_averages().table(row_limit=-1).count("\n")


def nesting(profiler, _):
    """Events one by one, with their parents."""
    model, optimizer = training()
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as prof:
        train_step(model, optimizer)
    return [
        (event.name, event.cpu_parent and event.cpu_parent.name, event.thread)
        for event in prof.events()
    ]


def memory(profiler, _):
    """Tensors that operators allocate."""
    with profiler.profile(profile_memory=True, record_shapes=True) as prof:
        kept = torch.ones(1024, 256)
        del kept
        held = torch.ones(64) + 1
    rows = prof.key_averages()
    total = prof.key_averages().total_average()
    assert "CPU Mem" in rows.table(sort_by="self_cpu_memory_usage")
    kept = {row.key: (row.cpu_memory_usage, row.self_cpu_memory_usage) for row in rows}
    return kept, total.count, total.cpu_memory_usage, held.sum().item()


def flop(profiler, _):
    """FLOP of products."""
    with profiler.profile(with_flops=True) as prof:
        torch.ones(32, 64) @ torch.ones(64, 16)
        nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
    rows = prof.key_averages()
    return rows_of(rows.table()), sums(rows), rows.total_average().flops


def tensorboard(profiler, folder):
    """The loop of the TensorBoard tutorial."""
    model, optimizer = training()
    handler = profiler.tensorboard_trace_handler(str(folder), worker_name="w0")
    with profiler.profile(
        schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=handler,
        record_shapes=True,
    ) as prof:
        for _ in range(10):
            prof.step()
            train_step(model, optimizer)
    files = sorted(folder.glob("w0.*.pt.trace.json"))
    return [events_of(json.loads(file.read_text())) for file in files]


def compressed(profiler, folder):
    """Compressed traces of a worker without a name."""
    model, optimizer = training()
    handler = profiler.tensorboard_trace_handler(str(folder / "new"), use_gzip=True)
    with profiler.profile(on_trace_ready=handler):
        train_step(model, optimizer)
    (file,) = (folder / "new").glob("*.pt.trace.json.gz")
    with gzip.open(file) as text:
        return events_of(json.load(text))


def events_of(trace):
    return Counter(
        (event["ph"], event.get("cat"), event["name"])
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["cat"] != "Trace"
    )


def by_hand(profiler, folder):
    """Without a block; what a trace says of itself."""
    prof = profiler.profile(record_shapes=True, with_flops=True)
    prof.preset_metadata_json("preset", '{"a": 1}')
    prof.start()
    prof.add_metadata("note", "a word")
    prof.add_metadata_json("numbers", "[1, 2]")
    torch.ones(3).sum()
    prof.stop()
    prof.export_chrome_trace(str(folder / "trace.json"))
    trace = json.loads((folder / "trace.json").read_text())
    told = ("preset", "note", "numbers", "record_shapes", "with_flops", "schemaVersion")
    return [trace.get(key) for key in told], events_of(trace)


def stacks(profiler, folder):
    """Source lines of operators, as input of flame graphs."""
    config = torch._C._profiler._ExperimentalConfig(verbose=True)
    model, optimizer = training()
    with profiler.profile(with_stack=True, experimental_config=config) as prof:
        for _ in range(3):
            train_step(model, optimizer)
    prof.export_stacks(str(folder / "stacks.txt"), "self_cpu_time_total")
    lines = (folder / "stacks.txt").read_text().splitlines()
    assert any("profiler_scripts.py" in line for line in lines)
    rows = prof.key_averages(group_by_stack_n=4)
    # Functions are rows, too, and those of the profiler differ.
    return Counter(
        (row.key, re.sub(" at 0x[0-9a-f]+", "", str(row.stack)))
        for row in rows
        if row.key.startswith("aten::")
    )


def trainer(profiler, _):
    """A callback of a training library, which steps at the end of each of its steps."""
    seen = []

    class Callback:
        def __init__(self, prof):
            self.prof = prof

        def on_step_end(self):
            self.prof.step()

    model, optimizer = training()
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU],
        schedule=profiler.schedule(skip_first=3, wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: seen.append((prof.step_num, sums(prof.key_averages()))),
        record_shapes=True,
    ) as prof:
        callback = Callback(prof)
        for _ in range(14):
            train_step(model, optimizer)
            callback.on_step_end()
    return seen


def actions(profiler, _):
    """A library that labels its own actions and keeps them open across steps."""
    seen: list[object] = []
    model, optimizer = training()
    prof = profiler.profile(
        schedule=profiler.schedule(wait=0, warmup=1, active=3),
        on_trace_ready=seen.append,
    )
    prof.__enter__()
    for index in range(5):
        label = profiler.record_function(f"[pl][profile]run_training_batch {index}")
        label.__enter__()
        train_step(model, optimizer)
        label.__exit__(None, None, None)
        prof.step()
    prof.__exit__(None, None, None)
    assert set(seen) == {prof}
    return prof.current_action.name, sums(prof.key_averages()), prof.step_num


def accumulated(profiler, _):
    """Events of all cycles together."""
    model, optimizer = training()
    with profiler.profile(
        schedule=profiler.schedule(wait=1, warmup=1, active=1, repeat=3), acc_events=True
    ) as prof:
        for _ in range(9):
            train_step(model, optimizer)
            prof.step()
    return sums(prof.key_averages())


def loader(profiler, _):
    """Batches of a DataLoader, and a schedule of the program's own."""
    data = torch.utils.data.TensorDataset(torch.ones(24, 16))
    model, optimizer = training()

    def every_third(step):
        return profiler.ProfilerAction.RECORD_AND_SAVE if step % 3 else profiler.ProfilerAction(0)

    seen: list[object] = []
    with profiler.profile(
        schedule=every_third, on_trace_ready=lambda prof: seen.append(sums(prof.key_averages()))
    ) as prof:
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=4):
            model(batch).sum().backward()
            optimizer.step()
            prof.step()
    return seen


def toggled(profiler, _):
    """A part of the block is not recorded."""
    cpu = [profiler.ProfilerActivity.CPU]
    with profiler.profile(activities=cpu) as prof:
        torch.ones(2).sum()
        prof.toggle_collection_dynamic(False, cpu)
        torch.ones(2).prod()
        prof.toggle_collection_dynamic(True, cpu)
        torch.ones(2).mean()
    return [event.name for event in prof.events()]


SCRIPTS = [
    defaults,
    inference,
    nesting,
    memory,
    flop,
    tensorboard,
    compressed,
    by_hand,
    stacks,
    trainer,
    actions,
    accumulated,
    loader,
    toggled,
]
