"""What of a command line and an environment may be kept in a recording, which others will read.

Environment: only variables that are known to say how a program computes. Command line: everything
but what looks like a secret, which becomes ``***``. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

MASK = "***"

_Replace = Callable[[re.Match[str]], str]

_KEPT_PREFIXES = (
    "ACCELERATE_",
    "CUBLAS_",
    "CUBLASLT_",
    "CUDA_",
    "CUDNN_",
    "CUFILE_",
    "DEEPSPEED_",
    "DS_",
    "GLOO_",
    "GOMP_",
    "JAX_",
    "KMP_",
    "MKL_",
    "NCCL_",
    "NUMEXPR_",
    "NVIDIA_",
    "NVSHMEM_",
    "NVTE_",
    "NVTX_",
    "OMP_",
    "OPENBLAS_",
    "PYTORCH_",
    "TF32_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHELASTIC_",
    "TORCHINDUCTOR_",
    "TRITON_",
    "UCX_",
    "VLLM_",
    "XLA_",
)
_KEPT_NAMES = frozenset(
    {
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MPI_LOCALRANKID",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
        "RANK",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "SLURM_JOB_ID",
        "SLURM_JOB_NUM_NODES",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "WORLD_SIZE",
    }
)
# Words of a name: --hf-token, HF_TOKEN and hfToken hold one, --monkey and --tokenizer none.
_SECRET_WORDS = frozenset(
    {
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "key",
        "keys",
        "pass",
        "passphrase",
        "pat",
        "private",
        "pwd",
        "sig",
        "signature",
        "token",
        "tokens",
        "webhook",
    }
)
_SECRET_PARTS = ("apikey", "passwd", "password", "secret")  # of a word
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Counts and switches that have "token" or "key" in their names and a plain value behind it.
_HARMLESS_VALUE = re.compile(
    r"[+-]?\d{1,7}(?:\.\d*)?[kKmM]?$|true$|false$|yes$|no$|none$", re.IGNORECASE
)
_SECRET_VALUES = (
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),  # AWS
    re.compile(r"\bhf_[A-Za-z0-9]{16,}"),  # Hugging Face
    re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"),  # GitHub
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}"),  # GitLab
    re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),  # Slack
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),  # Google
    re.compile(r"\bnvapi-[A-Za-z0-9_-]{16,}"),  # NVIDIA
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JSON web tokens
    re.compile(r"(?<=\b[Bb]earer )\S{8,}"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*", re.DOTALL),
)
_URL_LOGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<login>[^/\s@]+)@")
_URL_QUERY = re.compile(r"(?P<name>[?&;][^=&;\s]+)=(?P<value>[^&;#\s]+)")
_HEADER = re.compile(r"(?P<name>[A-Za-z-]+):\s*(?P<value>\S.*)$", re.DOTALL)
_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.-]*)=(?P<value>.*)$", re.DOTALL)


def redact_environment(environment: Mapping[str, str], *, keep_all: bool = False) -> dict[str, str]:
    """Return the variables that a recording keeps, by name in alphabetical order.

    Args:
        environment: The environment of the program.
        keep_all: Keep every variable as it is, secrets included, because the user said so.
    """
    if keep_all:
        return dict(sorted(environment.items()))
    return {
        name: redact_text(value)
        for name, value in sorted(environment.items())
        if is_kept(name) and not is_secret_name(name)
    }


def is_kept(name: str) -> bool:
    """Return whether the variable of this name is on the list of what may be kept."""
    return name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)


def is_secret_name(name: str) -> bool:
    """Return whether an option or a variable of this name probably holds a secret."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _SECRET_WORDS) or any(part in name.lower() for part in _SECRET_PARTS)


def redact_command(words: Sequence[str]) -> list[str]:
    """Return a command line with what looks like a secret masked."""
    shown: list[str] = []
    name_before = ""  # of an option whose value is the next word
    for word in words:
        if name_before and not word.startswith("-") and not _HARMLESS_VALUE.match(word):
            shown.append(MASK)
            name_before = ""
            continue
        shown.append(redact_text(word))
        is_option = word.startswith("-") and "=" not in word
        name_before = word if is_option and is_secret_name(word.lstrip("-")) else ""
    return shown


def redact_text(text: str) -> str:
    """Return one word with what looks like a secret masked."""
    text = _URL_LOGIN.sub(_without_login, text)
    text = _URL_QUERY.sub(_without_value("="), text)
    for pattern, between in ((_ASSIGNMENT, "="), (_HEADER, ": ")):
        found = pattern.match(text)
        if found and "://" not in found["name"]:
            text = _without_value(between)(found)
    for secret in _SECRET_VALUES:
        text = secret.sub(MASK, text)
    return text


def redact_all(texts: Iterable[str]) -> list[str]:
    """Return several words, each on its own, with what looks like a secret masked."""
    return [redact_text(text) for text in texts]


def _without_login(found: re.Match[str]) -> str:
    user, colon, _ = found["login"].partition(":")
    return f"{found['scheme']}{user}:{MASK}@" if colon else f"{found['scheme']}{MASK}@"


def _without_value(between: str) -> _Replace:
    def replace(found: re.Match[str]) -> str:
        is_plain = not is_secret_name(found["name"]) or _HARMLESS_VALUE.match(found["value"])
        return found[0] if is_plain else f"{found['name']}{between}{MASK}"

    return replace
