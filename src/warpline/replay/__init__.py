"""The event graph of a trace, and what its steps would take if something were changed.

The graph holds what must happen before what: the calls of the host in the order of each thread,
the work that they launch, the order of streams, events between streams, calls that wait for the
device, collectives in which ranks meet. `graph.event_graph` builds it, `timing.retime` says when
everything happens, unchanged or after edits, and `prediction.predict` what a step would take.
"""

from __future__ import annotations
