"""What sessions observe of a program from outside: flags, and links to the processes that do."""

from __future__ import annotations

import socket

import pytest

from warpline.capture.flags.sessions import parse_attach, parse_launch, parse_start
from warpline.capture.launcher.beside import Observers
from warpline.errors import UsageError

SAMPLED = [
    *("-s", "process-tree", "--sampling-frequency=500", "-b", "fp", "--python-sampling=true"),
    *("-t", "nvtx,python-gil", "--gpu-health=2", "--gpu-metrics-devices=0"),
]


def test_what_is_observed_from_outside_is_of_all_three() -> None:
    attached, rest = parse_attach([*SAMPLED, "7"])
    assert rest == ["7"]
    launched = parse_launch([*SAMPLED, "--", "train"])
    for settings in (parse_start(SAMPLED), attached, launched):
        sampling = settings.cpu_sampling
        assert sampling is not None
        assert (sampling.period_ns, sampling.backtrace) == (2_000_000, "fp")
        assert sampling.has_switches
        assert sampling.python == ("samples", "gil")
        assert settings.gpu_health == 2
        assert settings.gpu_metrics is not None
        assert settings.warnings == []


def test_start_changes_what_launch_has_set() -> None:
    settings = parse_start([*SAMPLED, "-s", "none", "--cpuctxsw=process-tree"])
    sampling = settings.cpu_sampling
    assert sampling is not None
    assert (sampling.period_ns, sampling.has_switches) == (0, True)


def test_what_a_program_must_be_started_with_is_left_out() -> None:
    settings = parse_start(["-t", "nvtx,osrt,mpi,openmp"])
    assert settings.trace == ("nvtx",)
    assert settings.warnings == [
        "-t osrt,mpi,openmp is not recorded in sessions (use warpline profile)"
    ]
    assert "--pytorch" in parse_start(["--pytorch=modules"]).warnings[0]


@pytest.mark.parametrize("flag", ["--gpu-metrics-devices=help", "--gpu-metrics-set=help"])
def test_lists_are_those_of_profile(flag: str) -> None:
    with pytest.raises(UsageError, match="only warpline profile lists"):
        parse_start([flag])


def test_observers_are_closed_without_waiting() -> None:
    own, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    observers = Observers([own], [7])
    assert observers.pids == {7}
    assert not observers.have_ended()
    observers.end()
    assert far.recv(10) == b""  # it is told
    assert not observers.have_ended()
    far.send(b'{"ended": true, "counts": {"samples": 3}}')
    assert observers.have_ended()
    observers.close()
    assert observers.counts == {"samples": 3}
    far.close()


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b"\xff", b'{"counts": 5}', b'{"ended": 1}'])
def test_observers_that_say_something_else_or_die(said: bytes) -> None:
    own, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    observers = Observers([own])
    if said:
        far.send(said)
    far.close()
    observers.close()
    assert observers.have_ended()
    assert observers.counts == {}
