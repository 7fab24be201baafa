"""Labels of metrics that have none of their own, from their names."""

from __future__ import annotations

from warpline.counters.units import unit_of

_UNITS = {
    "dram": "DRAM",
    "dramc": "DRAM",
    "fbpa": "DRAM",
    "gr": "GPU",
    "gpc": "GPU",
    "gpu": "GPU",
    "idc": "Constant Cache",
    "l1tex": "L1",
    "lts": "L2",
    "ltc": "L2",
    "sm": "SM",
    "smsp": "Scheduler",
}
_WORDS = {
    "inst": "instructions",
    "op": "",
    "t": "",
    "d": "data",
    "m": "",
    "f": "filter",
    "mem": "",
    "dshared": "distributed shared",
    "req": "request",
    "pq": "queue",
    "lts2xbar": "to crossbar",
    "xbar2lts": "from crossbar",
    "l1tex2xbar": "to L2:",
    "xbar2l1tex": "from L2:",
    "mio2rf": "MIO to registers:",
    "sm2tex": "SM to texture:",
    "lsuin": "LSU input",
    "tmain": "texture input",
    "texin": "texture input",
    "tex": "texture",
    "fmaheavy": "FMA heavy",
    "fmalite": "FMA lite",
    "decomp": "decompression",
    "gmma": "GMMA",
    "realtime": "",
    "srcunit": "of",
    "ctas": "blocks",
    "cgas": "clusters",
}
_ACRONYMS = {
    *("adu", "alu", "cbu", "fma", "ipa", "lsu", "mio", "tma", "xu", "fp16", "fp64", "tc"),
    *("dmma", "hmma", "hgmma", "qgmma", "imma", "igmma", "bmma", "bgmma", "dram", "rf"),
}


def label_of(metric: str) -> str:
    """Return a label of a counter: ``SM: instructions executed pipe LSU``."""
    base, _, rollup = metric.partition(".")
    unit, _, counter = base.replace("srcunit_tex", "srcunit_L1").partition("__")
    words = [
        word.upper() if word in _ACRONYMS else _WORDS.get(word, word) for word in counter.split("_")
    ]
    per_cycle = " per cycle" if "per_cycle" in rollup else ""
    label = _UNITS.get(unit, unit)
    return f"{label}: {' '.join(word for word in words if word not in ('', label))}{per_cycle}"


def unit_in_json(metric: str) -> str:
    """Return the unit of a metric in JSON, where percentages are ratios; empty without one."""
    unit = unit_of(metric)
    return "ratio" if unit == "%" else unit
