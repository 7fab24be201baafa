"""Paths of modules within compiled code, which may run for several modules of a model."""

from __future__ import annotations


def full_path(around: str | None, around_class: str | None, path: str) -> str:
    """Return the path of a module of compiled code within the whole model.

    Args:
        around: Path of the module whose call runs the code, None outside modules.
        around_class: Its class, None if unknown.
        path: The module's path below the compiled code, the class of its root first, as in
            `compiled_kernel`: ``Block.attn.qkv``.

    Returns:
        ``GPT.blocks.3.attn.qkv`` in a call of ``GPT.blocks.3``, if that is a Block; otherwise the
        path as it is. A wrapper is around a model of another class.
    """
    root, _, below = path.partition(".")
    if around is None or around_class != root:
        return path
    return f"{around}.{below}" if below else around
