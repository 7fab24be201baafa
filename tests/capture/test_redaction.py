"""Nothing that looks like a secret gets into a recording unasked."""

from __future__ import annotations

import pytest

from warpline.capture.redaction import (
    MASK,
    is_secret_name,
    redact_command,
    redact_environment,
    redact_text,
)


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "hf-token",
        "hfToken",
        "AWS_SECRET_ACCESS_KEY",
        "WANDB_API_KEY",
        "apiKey",
        "db_password",
        "dbpassword",
        "PGPASSWD",
        "MySecret",
        "Authorization",
        "SSH_AUTH_SOCK",
    ],
)
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokenizer", "monkey", "keyboard", "CUDA_VISIBLE_DEVICES", "author", "passes", "path"]
)
def test_names_of_other_things(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train.py --token abc --lr 3", "train.py --token *** --lr 3"),
        ("train.py --api-key=abc", "train.py --api-key=***"),
        ("train.py --max-tokens 4096 --num-key-value-heads=8", None),
        ("train.py --password --verbose", None),
        ("A_TOKEN=x python a.py", "A_TOKEN=*** python a.py"),
        ("env CUDA_VISIBLE_DEVICES=0,1 python a.py", None),
        ("git clone https://me:pw@host/r.git", "git clone https://me:***@host/r.git"),
        ("curl https://tok@host/x?api_key=q&n=1", "curl https://***@host/x?api_key=***&n=1"),
        ("run AKIAIOSFODNN7EXAMPLE", "run ***"),
        ("run --id=AKIAIOSFODNN7EXAMPLE", "run --id=***"),
        ("run hf_aBcDeFgHiJkLmNoPqRsT", "run ***"),
        ("run sk-proj-aBcDeFgHiJkLmNoPq", "run ***"),
        ("run ghp_aBcDeFgHiJkLmNoPqRsTuVwX", "run ***"),
        ("run eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ", "run ***"),
        ("python -m pytest tests/test_tokens.py", None),
    ],
)
def test_command_lines(line, expected):
    assert " ".join(redact_command(line.split())) == (expected or line)


def test_headers_and_bearers_are_masked():
    assert redact_text("Authorization: Bearer abcdefghijkl") == f"Authorization: {MASK}"
    assert redact_text("send Bearer abcdefghijkl now") == f"send Bearer {MASK} now"


def test_a_private_key_is_masked_whole():
    assert redact_text("-----BEGIN RSA PRIVATE KEY-----\nabc\n") == MASK


ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "0",
    "NCCL_DEBUG": "INFO",
    "RANK": "3",
    "HOME": "/home/me",
    "NVIDIA_API_KEY": "x",
    "TORCH_URL": "https://me:pw@host/",
    "AWS_SECRET_ACCESS_KEY": "x",
}


def test_the_environment_is_an_allow_list_without_secrets():
    assert redact_environment(ENVIRONMENT) == {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "RANK": "3",
        "TORCH_URL": f"https://me:{MASK}@host/",
    }


def test_all_of_it_is_kept_when_asked_for():
    assert redact_environment(ENVIRONMENT, keep_all=True) == dict(sorted(ENVIRONMENT.items()))
