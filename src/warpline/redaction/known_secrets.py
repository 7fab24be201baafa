"""Known formats of secrets, and names that indicate a secret value.

The second line of defence: what the lists let through is masked if it looks like one of these.
"""

from __future__ import annotations

from warpline.lazy import lazy_pattern

MASK = "***"
LONGEST = 256  # letters of a value that may be kept

# Words of a name: --hf-token, HF_TOKEN and hfToken contain one, --monkey and --tokenizer do not.
_SECRET_WORDS = frozenset(
    {
        *("account", "auth", "authorization", "bearer", "card", "code", "cookie", "credential"),
        *("credentials", "cvv", "id", "key", "keys", "login", "mfa", "otp", "pass", "passphrase"),
        *("pat", "phone", "pin", "private", "pw", "pwd", "sas", "sig", "signature", "ssn"),
        *("token", "tokens", "totp", "user", "username", "webhook"),
    }
)
_SECRET_PARTS = ("apikey", "passcode", "passwd", "password", "secret")  # of a word
_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_SECRET_VALUES = lazy_pattern(
    r"(?:AKIA|ASIA)[0-9A-Z]{12}"  # AWS
    r"|hf_[A-Za-z0-9]{6}"  # Hugging Face
    r"|sk-[A-Za-z0-9_-]{8}"  # OpenAI, Anthropic
    r"|gh[pousr]_[A-Za-z0-9]{8}|github_pat_"  # GitHub
    r"|glpat-"  # GitLab
    r"|xox[abeoprs]-"  # Slack
    r"|AIza[A-Za-z0-9_-]{16}"  # Google
    r"|nvapi-"  # NVIDIA
    r"|wandb_v[0-9]"  # Weights & Biases
    r"|eyJ[A-Za-z0-9_-]{8}"  # JSON web tokens
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-"  # UUIDs
    r"|(?=[a-f]{0,19}[0-9])[a-f0-9]{20}"  # digests and keys in hexadecimal
    r"|BEGIN [A-Z ]*PRIVATE KEY"
)


def is_secret_name(name: str) -> bool:
    """Return whether an option or a variable of this name may contain a secret or a user name."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _SECRET_WORDS) or any(part in name.lower() for part in _SECRET_PARTS)


def holds_known_secret(text: str) -> bool:
    """Return whether a part of a text looks like a key of a well-known kind."""
    return _SECRET_VALUES.search(text) is not None
