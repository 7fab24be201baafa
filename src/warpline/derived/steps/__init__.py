"""The steps of a program: detection, measurement, comparison and selection."""

from collections.abc import Mapping

STEP_ARGUMENT: Mapping[str, str] = {
    "name": "use ranges of this name as steps; * matches any text: name=epoch_*; name=launches uses"
    " repeating launches"
}
