"""Whether agents record, for what is read beside them."""

from __future__ import annotations

from warpline.capture.session.control import ControlFile, RangeMode, State
from warpline.capture.session.readings import IsRecording


class RecordingState:
    """Whether the agents record now, or did at some time since the last look.

    Args:
        control: The control page of the session.
    """

    def __init__(self, control: ControlFile) -> None:
        self._control = control
        self._windows = control.counters().windows_done

    def look(self) -> IsRecording:
        """Return whether recording is on, or whether a capture range ended since the last call."""
        counters = self._control.counters()
        before, self._windows = self._windows, counters.windows_done
        state = self._control.state
        is_open = self._control.mode is RangeMode.NONE or counters.windows_open > 0
        if state is State.TIME_WINDOW or (state is State.RECORDING and is_open):
            return IsRecording.YES
        return IsRecording.WAS if counters.windows_done != before else IsRecording.NO
