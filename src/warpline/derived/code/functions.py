"""The functions that a recording has instructions of."""

from __future__ import annotations

from warpline.derived import derived
from warpline.frozen import frozen
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.trace import Trace

NO_MODULE = -1


@frozen
class Functions:
    """Functions as they were loaded: Triton, for one, loads many of the same name.

    Attributes:
        of_row: Function of each row of `kernel_instruction`, shape (n,).
        process: Row of `process` of each function, shape (functions,).
        module: Checksum of its module, or `NO_MODULE`, shape (functions,).
        name: Text row of its mangled name, shape (functions,).
    """

    of_row: I64
    process: I64
    module: I64
    name: I64

    def __len__(self) -> int:
        return len(self.process)


@derived
def functions(trace: Trace) -> Functions:
    """Return the functions, by process, module, name and address."""
    wanted = ("process_id", "module_checksum", "function_id", "offset_bytes", "address")
    code = trace.columns("kernel_instruction", *wanted)
    process = code["process_id"].values.astype("int64")
    module = code["module_checksum"].filled(NO_MODULE)
    name = code["function_id"].values.astype("int64")
    address, offset = code["address"], code["offset_bytes"].values
    start = (address.values - offset) * address.is_valid()
    groups = factorize_rows(process, module, name, start)
    first = groups.first
    return Functions(groups.codes.astype("int64"), process[first], module[first], name[first])
