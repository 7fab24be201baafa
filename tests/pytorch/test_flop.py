"""FLOP are those of PyTorch's own counter."""

import json

import pytest

import warpline
from warpline.derived.operators import flops
from warpline.derived.operators.flops import counted_operators, flop_of

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, flop_registry  # noqa: E402

pytestmark = [pytest.mark.torch]

MODELS = {
    "convolutions": (
        nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2),
        nn.ConvTranspose2d(8, 6, 3, stride=2, output_padding=1, groups=2),
        nn.Conv2d(6, 6, (3, 1), dilation=2, bias=False),
        (2, 4, 9, 8),
    ),
    "one dimension": (nn.Conv1d(4, 8, 3, stride=2), nn.Flatten(), nn.Linear(32, 3), (2, 4, 9)),
    "three dimensions": (nn.Conv3d(2, 3, 2), nn.ReLU(), nn.MaxPool3d(2), (2, 2, 5, 4, 5)),
    "transformer": (
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        nn.TransformerEncoderLayer(16, 4, 8, dropout=0.0),
        (3, 5, 16),
    ),
    "recurrent": (nn.GRU(4, 8, 2), (5, 3, 4)),
    "bilinear": (nn.Linear(4, 4, bias=False), nn.Linear(4, 6), (3, 2, 4)),
}
QUERY, KEY, VALUE, RESULT = (2, 4, 8, 16), (2, 2, 10, 16), (2, 2, 10, 6), (2, 4, 8, 6)


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    torch.manual_seed(0)
    *layers, shape = MODELS[name]
    model, given = nn.Sequential(*layers), torch.randn(shape, requires_grad=True)

    def step():
        result = model(given)
        (result[0] if isinstance(result, tuple) else result).square().sum().backward()

    step()
    with FlopCounterMode(display=False) as counter:
        step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        step()
    path = str(tmp_path / "trace.json")
    profile.export_chrome_trace(path)
    counted = counted_operators(warpline.open(path))
    assert counted.is_known.all()
    assert counted.flop.sum() == counter.get_total_flops()
    assert counted.flop.sum() > 0


@pytest.mark.parametrize("kind", ["efficient", "flash", "cudnn"])
@pytest.mark.parametrize("is_backward", [False, True])
def test_fused_attention(kind, is_backward):
    name = f"_scaled_dot_product_{kind}_attention" + "_backward" * is_backward
    shapes = (RESULT,) * is_backward + (QUERY, KEY, VALUE)
    formula = flop_registry[getattr(torch.ops.aten, name)]
    tensors = [torch.empty(shape, device="meta") for shape in shapes]
    assert flop_of(f"aten::{name}", json.dumps(shapes)) == formula(*tensors)


def test_all_operators_that_pytorch_counts_are_known():
    counted = [str(packet) for packet in flop_registry if str(packet).startswith("aten.")]
    names = [f"aten::{name.removeprefix('aten.')}" for name in counted]
    assert set(names) <= set(flops._FORMULAS)
