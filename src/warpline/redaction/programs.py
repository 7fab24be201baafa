"""Programs that start other programs, with their flags and subcommands."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpline.frozen import frozen
from warpline.lazy import lazy_pattern
from warpline.redaction.word_lists import words

PYTHON = lazy_pattern(r"python(?:[0-9](?:\.[0-9]{1,2}t?)?)?(?:-dbg)?|pypy3?|ipython3?", re.ASCII)
SHELLS = frozenset({"bash", "dash", "fish", "ksh", "sh", "zsh"})

PYTHON_SWITCHES = frozenset("bBdEiIOPqRsSuvx")  # letters that take no value
# Values of -X and -W.
PYTHON_WORDS = words(
    """
    always default dev error faulthandler frozen_modules frozen_modules=off frozen_modules=on
    gil=0 gil=1 ignore importtime int_max_str_digits module no_debug_ranges once perf showrefcount
    tracemalloc utf8 utf8=0 utf8=1 warn_default_encoding
    """
)
SHELL_SWITCHES = lazy_pattern(r"-[abefilnuvx]{0,5}c?", re.ASCII)


@frozen
class Launcher:
    """A program that starts the program in its arguments.

    Attributes:
        subcommands: Words that say what it is to do.
        values: Flags whose value is the next word, whatever that looks like.
        numbers: Short flags that count something: their numbers are kept.
        modules: Flags that name a module of Python to start.
    """

    subcommands: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()


def _launcher(
    subcommands: str = "", values: str = "", numbers: str = "", modules: str = ""
) -> Launcher:
    known = words(numbers)
    return Launcher(words(subcommands), words(values) | known, known, words(modules))


_MPI = _launcher(
    values="-x -genv -env -host -hosts -H -hostfile -f --hostfile --host --mca -mca -wdir -path",
    numbers="-n -np -c -ppn -N -npernode",
)
_SLURM = _launcher(
    values="-A -p -w -x -J -o -e -i -q -t -D --account --partition --job-name --export --output",
    numbers="-n -N -c -G",
)
_TORCHRUN = _launcher(
    values="--rdzv-id --rdzv_id --rdzv-endpoint --rdzv_endpoint --rdzv-conf", modules="-m --module"
)
_CONTAINER = _launcher(
    "run exec shell",
    "-e -v -w -u -p -l -h -B --env --env-file --volume --mount --name --network --user --label",
)

LAUNCHERS: Mapping[str, Launcher] = {
    "accelerate": _launcher("launch test env", "--config_file", modules="-m --module"),
    "apptainer": _CONTAINER,
    "chrt": _launcher(),
    "compute-sanitizer": _launcher(),
    "conda": _launcher("run", "-n -p --name --prefix"),
    "coverage": _launcher("run", "--source --rcfile", modules="-m"),
    "cuda-gdb": _launcher(),
    "deepspeed": _launcher(values="-H -i -e --include --exclude --master_addr", modules="--module"),
    "docker": _CONTAINER,
    "env": _launcher(values="-u -C -S --unset --chdir"),
    "fabric": _launcher("run"),
    "gdb": _launcher(values="-ex -x"),
    "hatch": _launcher("run"),
    "horovodrun": _launcher(values="-H --hosts", numbers="-np"),
    "ionice": _launcher(numbers="-c -n"),
    "ipython": _launcher(),
    "jsrun": _launcher(values="-E -h -o -k", numbers="-n -a -c -g -r"),
    "kernprof": _launcher(modules="-m"),
    "micromamba": _launcher("run", "-n -p"),
    "mpiexec": _MPI,
    "mpirun": _MPI,
    "ncu": _launcher(values="-o -k -f --export --kernel-name --section --metrics --set"),
    "nice": _launcher(numbers="-n"),
    "nohup": _launcher(),
    "nsys": _launcher("profile launch", "-o -t --output --trace"),
    "numactl": _launcher(values="-N -m -C"),
    "orterun": _MPI,
    "pdm": _launcher("run"),
    "perf": _launcher("record stat", "-o -e -F -g"),
    "pipenv": _launcher("run"),
    "podman": _CONTAINER,
    "poetry": _launcher("run"),
    "prun": _MPI,
    "py-spy": _launcher("record top", "-o -d -r -f"),
    "ray": _launcher("job submit", "--address --working-dir"),
    "setsid": _launcher(),
    "singularity": _CONTAINER,
    "srun": _SLURM,
    "stdbuf": _launcher(values="-i -o -e"),
    "strace": _launcher(values="-e -o -p"),
    "sudo": _launcher(values="-u -g -p -h"),
    "taskset": _launcher(values="-c"),
    "time": _launcher(values="-f -o"),
    "timeout": _launcher(values="-k -s"),
    "torchrun": _TORCHRUN,
    "uv": _launcher("run", "-p --with --python --extra", modules="-m --module"),
    "warpline": _launcher("profile", "-o -t -e -p"),
    "xvfb-run": _launcher(values="-e -f -s"),
}
# Modules that start a script: python -m torch.distributed.run ...
MODULES: Mapping[str, Launcher] = {
    "accelerate.commands.launch": LAUNCHERS["accelerate"],
    "cProfile": _launcher(values="-o -s", modules="-m"),
    "coverage": LAUNCHERS["coverage"],
    "deepspeed.launcher.runner": LAUNCHERS["deepspeed"],
    "kernprof": _launcher(modules="-m"),
    "line_profiler": _launcher(),
    "pdb": _launcher(values="-c", modules="-m"),
    "torch.distributed.launch": _TORCHRUN,
    "torch.distributed.run": _TORCHRUN,
    "warpline": LAUNCHERS["warpline"],
    "warpline.annotate": _launcher(values="--include", modules="-m"),
}
# Programs started by launchers; their names reveal nothing about the user.
OTHERS = words(
    """
    composer curl ffmpeg git lightning litgpt lm_eval make mysql nvidia-smi psql pytest ray
    redis-cli rsync scp sglang ssh sshpass tritonserver trtexec trtllm-bench trtllm-serve tune
    vllm wandb wget
    """
)

# Short flags with several letters that many programs have.
SHORT_FLAGS = words(
    """
    -O0 -O1 -O2 -O3 -OO -Os -Wall -ex -genv -hostfile -it -mca -np -npernode -ppn -qq -ti -vv -vvv
    -wdir
    """
)
# Subcommands of programs.
ACTIONS = words(
    """
    all bench benchmark chat complete demo eval evaluate evaluation export finetune fit generate
    generation infer inference latency launch predict prepare preprocess pretrain profile run
    sample serve serving sft submit sweep test throughput train training tune validate
    """
)


def is_program(name: str) -> bool:
    """Return whether a file name is a program on the lists."""
    known = name in LAUNCHERS or name in SHELLS or name in OTHERS
    return known or PYTHON.fullmatch(name) is not None
