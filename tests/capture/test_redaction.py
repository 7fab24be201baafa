"""Recordings keep only harmless parts of command lines and environments."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

import pytest
from capture.harmless_commands import FILES, pairs
from capture.secret_forms import KEYS, forms, forms_in_names, forms_of_numbers
from hypothesis import given
from hypothesis import strategies as st

from warpline.redaction import MASK, Project, join_command, redact_command, run_as_typed
from warpline.redaction.environment import redact_environment
from warpline.redaction.known_secrets import is_secret_name

# A random word, a phrase with signs, and a number; a word that could be a flag's name.
RANDOM, SIGNS, NUMBER, WORD = "XhB72kqP9zQw", "Tr0ub4dor&3", "8675309", "hunter2"
PIECE = 4  # letters of a secret that count as a leak


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("project")
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return Project(tmp_path)


def leaked(form: list[str], secret: str, project: Project) -> set[str]:
    """Return the pieces of a secret that are left of a command line that has it."""
    planted = [word.replace("SECRET", secret) for word in form]
    shown = join_command(redact_command(planted, project))
    own = " ".join(form)  # "train" is in "train.py", whatever the secret is
    return {piece for piece in pieces_of(secret) if piece in shown and piece not in own}


@cache
def pieces_of(secret: str) -> frozenset[str]:
    return frozenset(secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1))


def test_there_are_more_than_two_hundred_forms():
    every = [*forms(), *forms_of_numbers(), *forms_in_names()]
    assert len({tuple(form) for form in every}) == len(every) > 200
    assert all(any("SECRET" in word for word in form) for form in every)


@pytest.mark.parametrize("form", forms(), ids=shlex.join)
def test_no_form_of_a_secret_is_kept(form, project):
    for where in (project, Project()):
        for secret in (RANDOM, SIGNS, NUMBER, WORD, *KEYS):
            assert not leaked(form, secret, where), (secret, where)


@pytest.mark.parametrize("form", forms_of_numbers(), ids=shlex.join)
def test_what_is_no_number_is_not_kept_where_a_number_is(form, project):
    for secret in (RANDOM, SIGNS, WORD, *KEYS):
        assert not leaked(form, secret, project), secret


@pytest.mark.parametrize("form", forms_in_names(), ids=shlex.join)
def test_what_looks_like_no_name_is_not_kept_as_a_name(form, project):
    for secret in (RANDOM, SIGNS, NUMBER, *KEYS):
        assert not leaked(form, secret, project), secret


def test_more_than_sixty_command_lines_are_harmless():
    assert len(pairs()) > 60


@pytest.mark.parametrize(("line", "expected"), pairs(), ids=[line for line, _ in pairs()])
def test_harmless_command_lines_stay_readable(line, expected, project):
    assert join_command(redact_command(shlex.split(line), project)) == expected


@given(
    st.text(min_size=1).filter(lambda text: not text.startswith("-")), st.text("ae_-", max_size=9)
)
def test_no_value_of_an_unlisted_flag_is_kept(value, name):
    flag = f"--my{name}x"
    shown = redact_command(["python", "train.py", flag, value, f"{flag}={value}"])
    assert shown == ["python", "train.py", flag, MASK, f"{flag}={MASK}"]


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_words_are_taken(words):
    shown = redact_command(words)
    assert len(shown) <= len(words) + 1  # -cTEXT becomes two
    assert all(word.isascii() and word.isprintable() for word in shown)


def test_a_file_of_the_project_is_kept_by_its_path_in_it(project):
    inside = f"{project.folder}/scripts/run.sh"
    assert redact_command(["bash", inside], project) == ["bash", "scripts/run.sh"]
    assert redact_command(["bash", inside], Project()) == ["bash", "run.sh"]
    assert redact_command(["bash", "/else/run.sh"], project) == ["bash", "run.sh"]
    assert redact_command(["prog", "configs/base.yaml"], project) == ["prog", "configs/base.yaml"]
    assert redact_command(["prog", "configs/none.yaml"], project) == ["prog", MASK]
    assert redact_command(["prog", "configs/base.yaml"], Project()) == ["prog", MASK]


def test_a_key_in_the_name_of_a_file_is_masked(project):
    name = "configs/hf_aBcDeFgHiJkLmNoP.yaml"
    (Path(project.folder) / name).touch()
    assert redact_command(["prog", "--config", name], project) == ["prog", "--config", MASK]


def test_a_program_is_kept_by_its_name():
    assert redact_command(["/home/me/venv/bin/my-prog_2"]) == ["my-prog_2"]
    assert redact_command(["/home/me/my prog"]) == [MASK]
    assert redact_command([]) == []


def test_what_is_masked_is_not_quoted():
    assert join_command(["a b", MASK, f"--x={MASK}", "~y"]) == f"'a b' {MASK} --x={MASK} '~y'"


def test_a_command_to_run_again_has_no_pattern_of_files_in_it():
    assert run_as_typed(f"python a.py --x={MASK} {MASK}") == f"python a.py '--x={MASK}' '{MASK}'"
    assert run_as_typed("python 'a b' *") == "python 'a b' *"
    assert run_as_typed(f"a' {MASK}") == f"a' {MASK}"


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "hf-token", "hfToken", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "apiKey"),
        *("db_password", "dbpassword", "PGPASSWD", "MySecret", "Authorization", "SSH_AUTH_SOCK"),
    ],
)
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokenizer", "monkey", "keyboard", "CUDA_VISIBLE_DEVICES", "author", "passes", "path"]
)
def test_names_of_other_things(name):
    assert not is_secret_name(name)


HARMLESS = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUDA_MODULE_LOADING": "EAGER",
    "CUDA_VISIBLE_DEVICES": "GPU-6f1d8c0a-4b7e-42b1-9c3d-d0a8f5e61234,GPU-7f1d8c0a",
    "KMP_AFFINITY": "granularity=fine,compact,1,0",
    "LOCAL_RANK": "3",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "NCCL_ALGO": "Ring,Tree",
    "NCCL_DEBUG": "TRACE",
    "NCCL_DEBUG_SUBSYS": "INIT,COLL",
    "NCCL_IB_HCA": "mlx5_0:1,mlx5_1:1",
    "NCCL_PROTO": "LL128",
    "NCCL_SOCKET_IFNAME": "^lo,docker0",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    "NVIDIA_TF32_OVERRIDE": "0",
    "OMP_PLACES": "cores",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128",
    "SLURM_JOB_ID": "12345",
    "TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_LOGS": "+dynamo,recompiles",
    "VLLM_ATTENTION_BACKEND": "FLASH_ATTN",
}
MASKED = {
    "CUDA_HOME": "/usr/local/cuda",
    "CUDNN_LOGDEST_DBG": "/home/me/log",
    "MASTER_ADDR": "node7.cluster",
    "NCCL_DEBUG_FILE": "/x/%h",
    "NCCL_NET_PLUGIN": "hunter2",
    "NCCL_SOCKET_IFNAME": "hunter2",
    "TORCH_HOME": "https://me:pw@host/",
    "TRITON_CACHE_DIR": "/home/me",
    "VLLM_HOST_IP": "10.0.0.7",
    "XLA_FLAGS": "--xla_x=1",
}
DROPPED = {
    "AWS_SECRET_ACCESS_KEY": "x",
    "HOME": "/home/me",
    "NCCL_sk-aBcDeFgHiJkL": "1",
    "NVIDIA_API_KEY": "x",
    "TORCHELASTIC_RUN_ID": "x",
    "VLLM_API_KEY": "x",
}


def test_harmless_variables_are_kept():
    assert redact_environment(HARMLESS) == HARMLESS


def test_values_of_other_forms_are_masked():
    assert redact_environment(MASKED) == dict.fromkeys(MASKED, MASK)


def test_other_variables_are_not_kept_by_name():
    assert redact_environment(DROPPED) == {}


@pytest.mark.parametrize("key", [RANDOM, SIGNS, WORD, *KEYS])
def test_no_variable_keeps_a_secret(key):
    names = [*HARMLESS, *MASKED, *DROPPED, "TORCH_X", "NCCL_Y", "CUDA_Z"]
    for value in (key, f"a,{key}", f"a={key}", f"https://x/{key}"):
        kept = redact_environment(dict.fromkeys(names, value))
        assert set(kept.values()) == {MASK}


def test_all_of_it_is_kept_when_asked_for():
    everything = {**HARMLESS, **DROPPED}
    assert redact_environment(everything, keep_all=True) == dict(sorted(everything.items()))
