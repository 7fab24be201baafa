"""Calls NVTX from Python in every way that all versions of the nvtx package have."""

import threading

import nvtx


@nvtx.annotate("decorated", color="red", domain="work", category="calls")
def _decorated():
    nvtx.mark("mark", color="green")


@nvtx.annotate()
def _named_by_function():
    pass


def _in_thread():
    with nvtx.annotate("in a thread"):
        pass


_decorated()
_named_by_function()
with nvtx.annotate("wörld 世界", color=0x123456, payload=7), nvtx.annotate("inner", domain="work"):
    pass
nvtx.push_range("pushed", color="blue", domain="work", category=3, payload=2.5)
nvtx.pop_range(domain="work")
nvtx.end_range(nvtx.start_range("started", domain="work"))
for i in range(3):
    with nvtx.annotate(f"step {i}"):
        pass
thread = threading.Thread(target=_in_thread)
thread.start()
thread.join()
domain = nvtx.get_domain("objects")
if hasattr(domain, "push_range"):
    attributes = domain.get_event_attributes(message="object", color="red", category="kind")
    domain.push_range(attributes)
    domain.pop_range()
else:  # 0.2.11
    nvtx.push_range("object", color="red", domain="objects", category="kind")
    nvtx.pop_range(domain="objects")
