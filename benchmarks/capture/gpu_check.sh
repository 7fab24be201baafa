#!/bin/sh
# Checks CUDA recording on a machine with a GPU and PyTorch: builds the agent, unless WARPLINE_AGENT
# names one, prints what the machine is, and runs gpu_check.py with the arguments given.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
if [ -z "${WARPLINE_AGENT:-}" ]; then
  build=${BUILD:-/tmp/warpline-gpu-check}
  cmake -S native -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
  cmake --build "$build" -j >/dev/null
  export WARPLINE_AGENT="$build/libwarpline_agent.so"
fi
export PYTHONPATH="$root/src:$root/tests${PYTHONPATH:+:$PYTHONPATH}"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader || true
python=${PYTHON:-python3}
"$python" -c 'import sys, torch; print(sys.version.split()[0], torch.__version__, torch.version.cuda)'
"$python" benchmarks/capture/gpu_check.py "$@"
