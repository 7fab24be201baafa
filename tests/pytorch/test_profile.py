"""Programs find in warpline.torch what they find in torch.profiler."""

import pytest

import warpline.torch

torch = pytest.importorskip("torch")
profiler = pytest.importorskip("torch.profiler")

from pytorch import profiler_scripts  # noqa: E402 - imports PyTorch

pytestmark = [
    pytest.mark.torch,
    # PyTorch's own, of one profiler or of both
    pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning"),
    pytest.mark.filterwarnings("ignore:Profiler won't be using warmup:UserWarning"),
    pytest.mark.filterwarnings("ignore:Incorrect schedule:UserWarning"),
]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("script", profiler_scripts.SCRIPTS, ids=lambda script: script.__name__)
def test_scripts_give_the_same_with_both_imports(script, tmp_path):
    found = []
    for place, module in enumerate((profiler, profiler, warpline.torch)):
        folder = tmp_path / str(place)
        folder.mkdir()
        found.append(script(module, folder))  # what PyTorch loads at first is not compared
    assert found[1]
    assert found[2] == found[1]


def test_every_name_is_there():
    for name in profiler.__all__:
        assert name in warpline.torch.__all__
        same = getattr(warpline.torch, name) is getattr(profiler, name)
        assert same == (name != "profile")
    assert issubclass(warpline.torch.profile, profiler.profile)
