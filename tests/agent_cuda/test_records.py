"""Every kind of record, in the layouts of every version of CUPTI."""

from __future__ import annotations

from functools import partial

import pytest
from agent_cuda import cuda_logs as logs

# CUDA 12.0, 12.2, 12.3, 12.4, 12.5, 12.6, 12.8, 12.9, and 13.0.0 to 13.5.
VERSIONS = [18, 20, 21, 22, 23, 24, 26, 28]
VERSIONS += [130000, 130001, 130101, 130200, 130301, 130401, 130500]
EVERYTHING = {"cuda_memory": 1, "cuda_api": "all", "cuda_waits": "cupti"}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def record(run, cuda, version):
    cupti = cuda.cupti12 if version < 100 else cuda.cupti13
    environment = {"FAKE_CUPTI_VERSION": str(version)}
    # Of 13.0.0 kernels are kept by their time, and the fake's are of long ago.
    return partial(run, "init", "records", cupti=cupti, environment=environment, **EVERYTHING)


@pytest.fixture
def folder(record):
    return record()


def _fields(found, *names):
    return [tuple(getattr(one, name) for name in names) for one in found]


def test_kernels(folder, version):
    kernels = logs.found(folder, logs.KERNEL)
    if version == 130000:
        assert not kernels
        (buffer,) = [b for b in logs.found(folder, logs.BUFFER) if b.not_taken]
        assert buffer.not_taken == 4
        return
    plain, in_graph, unnamed, long_named = kernels
    assert (plain.name, plain.start, plain.end, plain.correlation) == ("_Z5plainv", 1000, 2000, 101)
    assert (plain.device, plain.context, plain.stream) == (1, 2, 7)
    assert (plain.grid, plain.block) == ((70000, 300, 2), (256, 2, 1))
    assert plain.registers == 40
    assert plain.shared == (1024, 2048, 4096)
    assert plain.local == (16, 5_000_000_000)
    assert (plain.node, plain.cluster, plain.flags) == (None, None, 0)
    assert in_graph.node == (0x500000001, 9)
    assert in_graph.cluster == (2, 1, 1, 1)
    assert in_graph.flags == 16 | (64 if version >= 130000 else 0)
    assert (unnamed.name, unnamed.start, unnamed.end) == (None, 0, 0)
    assert long_named.name == "n" * 3000


def test_copies(folder, version):
    plain, batch, peer = logs.found(folder, logs.COPY)
    assert (plain.copy_kind, plain.memories, plain.is_async) == (1, (2, 3), 1)
    assert (plain.bytes, plain.start, plain.end) == (1_048_576, 7000, 8000)
    assert (plain.device, plain.context, plain.stream, plain.correlation) == (1, 2, 13, 111)
    assert (plain.node, plain.peer, plain.count) == (None, None, None)
    assert batch.node == (77, 9)
    assert batch.count == (4 if version >= 26 else None)
    assert (peer.copy_kind, peer.memories, peer.correlation) == (10, (3, 3), 113)
    assert peer.peer == ((0, 1), (1, 2))


def test_fills_and_graphs(record, version):
    folder = record(cuda_graph="graph")
    (fill,) = logs.found(folder, logs.FILL)
    assert (fill.value, fill.bytes, fill.memory, fill.is_async) == (0xAB, 512, 3, 1)
    assert (fill.start, fill.end, fill.correlation, fill.node) == (9000, 9500, 121, None)
    here, ends_elsewhere = logs.found(folder, logs.GRAPH)
    assert (here.graph, here.start, here.end, here.correlation) == (6, 10_000, 20_000, 131)
    assert (here.device, here.context, here.stream, here.last) == (1, 2, 13, None)
    assert ends_elsewhere.last == ((0, 1) if version >= 21 else None)


def test_waits_and_events(folder, version):
    names = ("type", "correlation", "context", "stream", "event", "sync", "status")
    has_sync = version >= 26
    assert _fields(logs.found(folder, logs.WAIT), *names) == [
        (3, 141, 2, 13, logs.NONE, 0, 0),
        (2, 142, 2, 13, 55, 99 if has_sync else 0, 600 if has_sync else 0),
    ]
    names = ("event", "context", "stream", "correlation", "device", "sync", "time")
    assert _fields(logs.found(folder, logs.EVENT), *names) == [
        (55, 2, 13, 151, *((1, 99, None) if has_sync else (logs.NONE, 0, None))),
        (55, 2, 13, 152, *((1, 99, 13_000) if has_sync else (logs.NONE, 0, None))),
    ]


def test_memory_and_pools(folder):
    allocation, release = logs.found(folder, logs.MEMORY)
    assert (allocation.operation, allocation.memory, allocation.is_async) == (1, 3, 0)
    assert (allocation.time, allocation.bytes, allocation.address) == (
        14_000,
        2_097_152,
        0x7F0000000000,
    )
    assert (allocation.stream, allocation.pool, allocation.name) == (logs.NONE, None, None)
    assert (release.operation, release.is_async, release.pool_type) == (2, 1, 1)
    assert release.pool == (0x1000, 20, 30, 10)
    assert release.name == "d_table"
    (pool,) = logs.found(folder, logs.POOL)
    assert (pool.operation, pool.type, pool.time, pool.correlation) == (3, 1, 15_000, 171)
    assert (pool.address, pool.sizes) == (0x1000, (20, 30, 10, 1))


def test_facts(folder, version):
    (device,) = logs.found(folder, logs.DEVICE)
    assert (device.id, device.name, device.multiprocessors) == (1, "Fake GPU", 132)
    assert device.uuid == bytes(i * 17 for i in range(16))
    assert device.memory == (150_000_000_000, 4_800_000_000_000)
    assert device.clock == 1_980_000_000
    assert device.l2_and_warp == (52_428_800, 32)
    assert device.compute == (9, 0)
    assert device.pci == (1, 0xAB, 1)
    assert device.limits == (2048, 233_472, 65_536, 0)
    contexts = {
        (c.id, c.device, c.null_stream, c.parent, c.is_green)
        for c in logs.found(folder, logs.CONTEXT)
    }
    green = {(3, 1, 17, 2, 1)} if version >= 22 else set()
    assert contexts == {(2, 1, 7, 0, 0)} | green
    streams = {(s.id, s.context, s.priority, s.type) for s in logs.found(folder, logs.STREAM)}
    assert streams == {(13, 2, -5, 2)}
    (overhead,) = logs.found(folder, logs.OVERHEAD)
    assert (overhead.overhead, overhead.object) == (5 << 16, (2, 4001))
    assert (overhead.start, overhead.end) == (16_000, 17_000)
    assert overhead.correlation == (181 if version >= 21 else 0)


def test_what_is_collected_and_by_what_is_written_down(folder, cuda, version):
    (collecting,) = logs.found(folder, logs.COLLECTING)
    assert collecting.collects == 0b11_1110_1111
    file = cuda.cupti12 if version < 100 else cuda.cupti13
    notes = logs.notes(folder)
    assert notes[0] == (logs.NOTE_USING, f"CUPTI {version} {file}")
    assert [kind for kind, _ in notes[1:]] == [logs.NOTE_DOUBT] * (version == 130000)


def test_kinds_not_asked_for_are_not_enabled(run, tmp_path):
    told = tmp_path / "told"
    switches = ("kernel", "memcpy", "memset", "sync", "event", "overhead")
    keys = {f"cuda_{switch}": 0 for switch in switches}
    folder = run("init", "records", environment={"FAKE_CUPTI_LOG": str(told)}, **keys)
    assert told.read_text().split("\n")[1:5] == ["all_sync_records 0", "on 8", "on 9", "on 37"]
    assert not logs.found(folder, logs.KERNEL)
    assert logs.found(folder, logs.COLLECTING)[0].collects == 1


def test_a_graph_is_recorded_as_a_whole_or_node_by_node(run, tmp_path):
    told = tmp_path / "told"
    environment = {"FAKE_CUPTI_LOG": str(told)}
    words = ("init", "node", 5, 0, "node", 6, 5)
    whole = run(*words, environment=environment, cuda_graph="graph")
    assert "on 51" in told.read_text()
    assert not logs.found(whole, logs.GRAPH_NODE)
    told.unlink()
    by_node = run(*words, environment=environment)
    assert "on 51" not in told.read_text()
    nodes = logs.found(by_node, logs.GRAPH_NODE)
    assert [(n.node, n.original, n.graph, n.type) for n in nodes] == [(5, 0, 9, 0), (6, 5, 9, 0)]


@pytest.mark.parametrize(("level", "peers"), [("graph", False), ("node", True)])
def test_peer_copies_are_not_asked_for_where_graphs_are_traced_as_wholes(
    run, tmp_path, level, peers
):
    # With copies and whole graphs together they let programs die in the driver.
    told = tmp_path / "told"
    run("init", "launch", 1, cuda_graph=level, environment={"FAKE_CUPTI_LOG": str(told)})
    story = told.read_text().split("\n")
    assert "on 1" in story
    assert ("on 22" in story) == peers
    assert ("on 51" in story) == (level == "graph")


def test_a_kind_that_fails_is_told_once_and_the_rest_is_recorded(run):
    folder = run(
        "init", "launch", 3, environment={"FAKE_CUPTI_FAIL_KIND": "51"}, cuda_graph="graph"
    )
    told = [text for kind, text in logs.notes(folder) if kind == logs.NOTE_KIND_FAILED]
    assert told == ["graphs: CUPTI_ERROR_INVALID_KIND (21)"]
    assert len(logs.found(folder, logs.KERNEL)) == 3
    assert not logs.found(folder, logs.COLLECTING)[0].collects & 16
