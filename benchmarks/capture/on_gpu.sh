#!/bin/sh
# Everything that only a GPU can show, in parts of at most ten minutes each:
#   on_gpu.sh checks | cost | pairs | ranks  OUTPUT_FOLDER [NSYS]
# checks: the GPU tests, sampling, instructions, ten million launches; cost: what recording adds; pairs: programs
# with faults and without, timed in turn and recorded; ranks: the same of ddp_serial, on two GPUs.
# Builds agent and core, unless WARPLINE_AGENT and WARPLINE_CORE name them.
set -u
part=$1 out=$2 nsys=${3:+--nsys=$3}
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
python=${PYTHON:-python3}
mkdir -p "$out"
if [ -z "${WARPLINE_AGENT:-}" ]; then
  build=${BUILD:-/tmp/warpline-on-gpu}
  cmake -S native -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null && cmake --build "$build" -j >/dev/null || exit 1
  export WARPLINE_AGENT="$build/libwarpline_agent.so" WARPLINE_CORE="$build/libwarpline_core.so"
fi
export PYTHONPATH="$root/src:$root/tests:$root/benchmarks${PYTHONPATH:+:$PYTHONPATH}"
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
"$python" -c 'import sys, torch; print(sys.version.split()[0], torch.__version__, torch.version.cuda)'
cost() { "$python" benchmarks/capture/cuda_cost.py "$@" $nsys; }
judged() {
  for kind in ours nsys; do
    timeout 200 "$python" benchmarks/findings_quality.py "$out/$kind" >"$out/$kind.txt" 2>&1 &
  done
  wait
  cat "$out/ours.txt" "$out/nsys.txt"
  (cd "$out" && tar -cf - ours/*.warpline | xz -T0 -2 >ours.tar.xz; rm -rf ours nsys)
}
say() { printf '\n== %s (%s)\n' "$*" "$(date -u +%T)"; }

case $part in
checks)
  say "GPU tests"
  timeout 300 "$python" -m pytest -q -m gpu tests/gpu -p no:cacheprovider 2>&1 | tail -15
  say "at rest"
  timeout 150 "$python" benchmarks/capture/sampling.py --rest --rounds 5 2>&1 | tail -8
  say "instructions of a call"
  timeout 150 "$python" benchmarks/capture/instructions.py $nsys
  say "ten million launches"
  nvcc -O2 -o /tmp/cuda_cost benchmarks/capture/cuda_cost.cu
  timeout 200 "$python" -m warpline profile -f -o /tmp/long -- /tmp/cuda_cost long 10000000 2>&1 | tail -30
  ls -l /tmp/long.warpline && timeout 60 "$python" -m warpline stats -r cuda_gpu_kern_sum /tmp/long.warpline
  ;;
cost)
  say launches
  cost launches --sets 11 --kinds alone,kernels,ours,rest,nsys --json "$out/launches.json"
  say calls
  cost calls --sets 7 --kinds alone,kernels,ours,nsys --json "$out/calls.json"
  say "a training program"
  kinds=alone,ours,sampled,attached,nsys,torch
  cost gpt --sets 11 --turns 30 --kinds $kinds --limit 300 --json "$out/gpt.json"
  ;;
pairs)
  say "pairs"
  "$python" benchmarks/pairs.py "$out" --limit 330 $nsys
  judged
  ;;
ranks)
  say "ddp_serial on two GPUs"
  "$python" benchmarks/pairs.py "$out" ddp_serial --ranks 2 $nsys
  judged
  ;;
*)
  sed -n 2,7p "$0"
  exit 2
  ;;
esac
