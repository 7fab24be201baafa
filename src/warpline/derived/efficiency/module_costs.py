"""What each module costs per step: GPU time by phase, CPU time, calls, kernels and FLOP."""

from __future__ import annotations
