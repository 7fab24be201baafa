"""Sampled metrics of the chip, of network adapters and switches in exports."""

from __future__ import annotations

from support.nsys_exports import strings
from support.nsys_samples import declared, network, sample, told


def test_metrics_of_the_chip_belong_to_no_gpu(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_SOC_METRICS": declared("DRAM Read [Throughput %]"),
            "SOC_METRICS": [sample(1, 0, 9)],
        }
    )
    assert told(rows_of, trace) == [(1, None, "DRAM Read [Throughput %]", 9.0)]
    assert trace.row_count("device") == 0


NETWORK = [
    {"metricsListId": 0, "metricsIdx": 6, "name": "IB: Bytes sent", "unit": "bytes/ms"},
    {"metricsListId": 0, "metricsIdx": 7, "name": "IB: Send waits", "unit": ""},
]


def test_network_adapters_are_in_the_names(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_NETWORK_METRICS": NETWORK,
            "TARGET_INFO_NIC_INFO": [
                {"nicId": 0, "name": "mlx5_0"},
                {"nicId": 1, "name": "mlx5_1"},
                {"nicId": 2, "name": "eth0"},
                {"nicId": 3, "name": "eth0"},
            ],
            "NIC_ID_MAP": [{"nicId": n, "globalId": 70 + n} for n in range(4)],
            "NET_NIC_METRIC": [
                network(5, 70, 6, 1000, portId=0),
                network(5, 71, 6, 2000, portId=1),
                network(5, 71, 6, 3000, portId=2),
                network(5, 71, 7, 4, portId=1),
                network(5, 72, 6, 5, portId=0),
                network(5, 73, 6, 6, portId=0),
                network(5, -1, 9, 2.5, portId=0),
            ],
        }
    )
    assert {name: (time, device, value) for time, device, name, value in told(rows_of, trace)} == {
        "mlx5_0: IB: Bytes sent [bytes/ms]": (5, None, 1000.0),
        "mlx5_1 port 1: IB: Bytes sent [bytes/ms]": (5, None, 2000.0),
        "mlx5_1 port 2: IB: Bytes sent [bytes/ms]": (5, None, 3000.0),
        "mlx5_1 port 1: IB: Send waits": (5, None, 4.0),
        "eth0 (0x48): IB: Bytes sent [bytes/ms]": (5, None, 5.0),
        "eth0 (0x49): IB: Bytes sent [bytes/ms]": (5, None, 6.0),
        "NIC 0xffffffffffffffff: metric 9": (5, None, 2.5),
    }
    assert trace.meta.unread == {}
    assert trace.row_count("device") == 0


def test_switches_and_exports_that_name_no_port(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_NETWORK_METRICS": NETWORK,
            "NET_IB_DEVICE_INFO": [
                {"networkId": 1, "guid": 0xABC, "name": "leaf-3", "des": "Quantum"},
                {"networkId": 1, "guid": 0xABD, "name": None, "des": "Quantum"},
            ],
            "NET_IB_SWITCH_METRIC": [
                network(5, 0xABC, 6, 1),
                network(6, 0xABD, 6, 2),
                network(7, 0xABE, 6, 3),
            ],
        }
    )
    assert told(rows_of, trace) == [
        (5, None, "leaf-3: IB: Bytes sent [bytes/ms]", 1.0),
        (6, None, "Quantum: IB: Bytes sent [bytes/ms]", 2.0),
        (7, None, "IB switch 0xabe: IB: Bytes sent [bytes/ms]", 3.0),
    ]
