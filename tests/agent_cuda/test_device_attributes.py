"""Attributes of GPUs: the fake driver gives each its number below zero, but no multiple of ten.

Its PCI address is another value.
"""

from __future__ import annotations

import re

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs
from agent_cuda.cupti_headers import CUDA_INCLUDE, header_folders

MOST = 147  # the last number in CUDA 13.0
PLACE = {"pci_bus_id": 0xAB, "pci_domain_id": 1}
AS_NCU = {"gpu_pci_subsystem_id": "gpu_pci_sub_system_id"}


def attributes(folder, device):
    """Return the attributes of a device, each of which was written once."""
    found = [one for one in logs.found(folder, logs.DEVICE_ATTRIBUTE) if one.device == device]
    values = {one.name: one.value for one in found}
    assert len(found) == len(values)
    assert PLACE | {"pci_device_id": device} == {
        name: values.pop(name) for name in (*PLACE, "pci_device_id")
    }
    return values


def test_each_gpu_has_those_that_the_driver_knows(run):
    folder = run("init", "repeat", 3, "k1,k2", **counted.keys())
    devices = [one.id for one in logs.found(folder, logs.DEVICE)]
    assert devices
    for device in devices:
        numbers = [-value for value in attributes(folder, device).values()]
        assert numbers == [n for n in range(1, MOST + 1) if n % 10 and n not in {33, 34, 50}]


def test_they_are_no_part_of_a_timeline(run):
    folder = run("init", "repeat", 3, "k1")
    assert logs.found(folder, logs.DEVICE)
    assert logs.found(folder, logs.DEVICE_ATTRIBUTE) == []


def test_their_names_are_those_of_the_drivers_header(run):
    headers = [folder / "cuda.h" for folder in (CUDA_INCLUDE, *header_folders())]
    texts = [header.read_text() for header in headers if header.is_file()]
    if not texts:
        pytest.skip("needs cuda.h")
    folder = run("init", "repeat", 1, "k1", **counted.keys())
    ours = attributes(folder, logs.found(folder, logs.DEVICE)[0].id)
    for text in texts:
        listed = re.findall(r"\bCU_DEVICE_ATTRIBUTE_(\w+)\s*=\s*(\d+)", text)
        theirs = {AS_NCU.get(name.lower(), name.lower()): -int(number) for name, number in listed}
        known = {name: value for name, value in ours.items() if value >= min(theirs.values())}
        renamed = known.items() - theirs.items()  # in CUDA 12
        assert all(name.endswith(("_v1", "_nor", "_ops")) for name, _ in renamed)
        assert len(known) > 100
