"""The tasks of VS Code that docs/notebook.md shows."""

from __future__ import annotations

import importlib
import json
import re

from warpline.cli import parser


def test_commands_of_the_tasks_are_read(repository):
    text = (repository / "docs" / "notebook.md").read_text(encoding="utf-8")
    found = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert found
    tasks = json.loads(found[1])["tasks"]
    assert {task["command"] for task in tasks} == {"warpline"}
    names = [task["args"][0] for task in tasks]
    assert names == ["profile", "analyze", "view"]
    for name, task in zip(names, tasks, strict=True):
        command = importlib.import_module(f"warpline.cli.{name}")
        own = getattr(command, "read", None) or parser.parser_of(command).read
        args = own(task["args"][1:])
        assert "${workspaceFolder}/.vscode/run" in str(vars(args))
