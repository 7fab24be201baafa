"""After profiling, the screen ends with the layers if there is GPU work."""

from pathlib import Path

import warpline
from warpline import api
from warpline.result import Result
from warpline.trace import MemorySource, Trace

DEMO = Path(warpline.__file__).parent / "data" / "pageable_h2d.bad.sqlite"


def test_layers_stand_before_what_the_recording_holds():
    document = api.summary(warpline.open(DEMO), with_layers=True)
    *_, layers, holdings = document.sections
    assert (layers.name, holdings.name) == ("layers", "recording")
    assert isinstance(layers, Result)
    whole = warpline.stats(warpline.open(DEMO), "layers")
    assert layers.columns["name"].to_list() == whole.columns["name"].to_list()[: len(layers)]
    assert layers.title == f"Layers, 8 of {len(whole)}" or len(whole) <= 8


def test_without_device_work_there_are_none():
    ranges: dict[str, list[object]] = {"start_ns": [0], "end_ns": [5], "name": ["a"]}
    document = api.summary(Trace(MemorySource({"range": ranges})), with_layers=True)
    assert "layers" not in [section.name for section in document.sections]
    told = [section.name for section in document.sections if not isinstance(section, Result)]
    assert told == ["device_sum"]  # once for all of CUDA
