"""The steps of the GitHub Action, run in a shell with the variables of a runner."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import warpline

ACTION = Path(__file__).parents[2] / "action"
DATA = Path(warpline.__file__).parent / "data"
BAD, FIXED = (str(DATA / f"pageable_h2d.{name}.sqlite") for name in ("bad", "fixed"))
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
LONG_COMMENTS = [{"id": number, "body": "a"} for number in range(100)]


class Ran(NamedTuple):
    """What a job did: the end of the first failed step, or of the last one."""

    status: int
    output: str
    outputs: dict[str, str]
    used: list[str]


def value(expression: str, contexts: dict[str, Any]) -> Any:
    """Evaluate what action.yml has of the language of expressions."""
    if "&&" in expression:
        return all(value(part.strip(), contexts) for part in expression.split("&&"))
    compared = re.fullmatch(r"(\S+) (==|!=) '(.*)'", expression)
    if compared:
        return (value(compared[1], contexts) == compared[3]) == (compared[2] == "==")
    found: Any = contexts
    for name in expression.split("."):
        found = found.get(name, "")
    return found


class Runner:
    """A runner of GitHub Actions, with a server in place of GitHub."""

    def __init__(self, folder: Path, address: str) -> None:
        self.action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
        self.folder, self.address = folder, address
        self.temp = folder / "temp"
        binaries = folder / "bin"
        for made in (self.temp, binaries):
            made.mkdir()
        for name, words in (("warpline", "-m warpline"), ("python", "")):
            command = binaries / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            command.chmod(0o755)
        self.path = f"{binaries}{os.pathsep}{os.environ['PATH']}"

    def run(self, event: str, branch: str, **inputs: str) -> Ran:
        given = {name.replace("_", "-"): text for name, text in inputs.items()}
        unknown = set(given) - set(self.action["inputs"])
        assert not unknown
        repository = {"default_branch": "main"}
        number = {"pull_request": {"number": 7}} if event == "pull_request" else {}
        content = {"repository": repository, **number}
        (self.folder / "event.json").write_text(json.dumps(content))
        contexts: dict[str, Any] = {
            "github": {"event_name": event, "event": content, "sha": "abc", "token": "secret"},
            "runner": {"temp": str(self.temp), "os": "Linux", "arch": "X64"},
            "steps": {},
        }
        contexts["inputs"] = {
            name: given.get(name, self.text(declared["default"], contexts))
            for name, declared in self.action["inputs"].items()
        }
        shown = ""
        outputs: dict[str, str] = {}
        used: list[str] = []
        for step in self.action["runs"]["steps"]:
            if not value(step.get("if", "runner.temp"), contexts):
                continue
            if "uses" in step:
                used.append(step["uses"])
                continue
            written = self.folder / "output"
            written.write_text("")
            done = self._shell(step, event, branch, contexts)
            shown += done.stdout + done.stderr
            lines = written.read_text().splitlines()
            found = dict(line.split("=", 1) for line in lines)
            outputs |= found
            if "id" in step:
                contexts["steps"][step["id"]] = {"outputs": found}
            if done.returncode:
                return Ran(done.returncode, shown, outputs, used)
        return Ran(0, shown, outputs, used)

    def text(self, text: str, contexts: dict[str, Any]) -> str:
        return EXPRESSION.sub(lambda found: str(value(found[1], contexts)), text)

    def _shell(
        self, step: dict[str, Any], event: str, branch: str, contexts: dict[str, Any]
    ) -> subprocess.CompletedProcess[str]:
        own = {name: self.text(text, contexts) for name, text in step.get("env", {}).items()}
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            timeout=120,
            env={
                **os.environ,
                "PATH": self.path,
                "GITHUB_ACTION_PATH": str(ACTION),
                "GITHUB_API_URL": self.address,
                "GITHUB_EVENT_NAME": event,
                "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
                "GITHUB_OUTPUT": str(self.folder / "output"),
                "GITHUB_REF_NAME": branch,
                "GITHUB_REPOSITORY": "me/program",
                "GITHUB_RUN_ID": "5",
                "GITHUB_SERVER_URL": "https://github.example",
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
                **own,
            },
        )


class GitHub(http.server.BaseHTTPRequestHandler):
    """Comments of a pull request: two pages, of which the second has ours once it is written."""

    comments: list[dict[str, Any]]
    asked: list[str]
    status = 200
    address: str

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        assert self.headers["Authorization"] == "Bearer secret"
        content: Any = {}
        if self.command == "GET":
            first = 100 * (int(self.path.rpartition("=")[2]) - 1)
            content = self.comments[first : first + 100]
        elif self.status == 200 and self.command == "POST":
            self.comments.append({"id": 4711, **json.loads(body)})
        elif self.status == 200:
            self.comments[-1] |= json.loads(body)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the names of the library

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def github():
    class Own(GitHub):
        comments = [*LONG_COMMENTS]  # noqa: RUF012 - one list per test
        asked: list[str] = []  # noqa: RUF012

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Own.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield Own
        server.shutdown()


@pytest.fixture
def runner(tmp_path, github):
    return Runner(tmp_path, github.address)


def test_actions_of_others_are_pinned_and_inputs_are_no_scripts(runner):
    steps = runner.action["runs"]["steps"]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[\w/-]+@v\d+", name) for name in used)
    scripts = [step["run"] for step in steps if "run" in step]
    assert not any("${{" in script for script in scripts)


def test_the_comment_of_a_pull_request_is_one_that_is_replaced(runner, github):
    words = {"recordings": BAD, "page": "false"}
    first = runner.run("pull_request", "7/merge", **words)
    assert first.status == 0, first.output
    assert first.outputs == {"outcome": "none"}
    (comment,) = github.comments[100:]
    assert comment["body"].startswith(
        "<!-- warpline main -->\nNo baseline `main` yet: the next run on `main` saves it."
    )
    assert "https://github.example/me/program/actions/runs/5" in comment["body"]
    assert runner.run("pull_request", "7/merge", **words).status == 0
    assert len(github.comments) == 101
    assert github.asked[-1] == "PATCH /repos/me/program/issues/comments/4711"
    github.status = 403
    refused = runner.run("pull_request", "7/merge", **words)
    assert refused.status == 0
    assert "::warning::no comment: GitHub answered 403; the job needs" in refused.output
    assert runner.run("pull_request", "7/merge", page="false").status == 2


@pytest.mark.slow
def test_a_regression_fails_against_the_baseline_of_main(runner, github):
    saved = runner.run("push", "main", recordings=FIXED)
    assert saved.status == 0, saved.output
    assert saved.used[-2:] == ["actions/cache/save@v4", "actions/upload-artifact@v4"]
    assert Path(saved.outputs["page"]).read_text().startswith("<!doctype html>")
    assert github.asked == []
    words = {"fail_on": "step:3%,finding:high", "page": "false"}
    found = runner.run("pull_request", "7/merge", recordings=BAD, **words)
    assert found.status == 3, found.output
    assert found.outputs == {"outcome": "regression"}
    assert found.used == ["actions/cache/restore@v4"]
    # The numbers of docs/gate.md.
    assert "Regression: step +535.9%" in github.comments[-1]["body"]
    assert "Regression: step +535.9%" in (runner.folder / "summary.md").read_text()
    same = {"recordings": FIXED, "page": "false"}
    assert runner.run("pull_request", "7/merge", **same).outputs == {"outcome": "undecided"}
    assert runner.run("pull_request", "7/merge", undecided="fail", **same).status == 4
    merged = runner.run("push", "main", recordings=BAD, page="false")
    assert merged.status == 0
    assert merged.outputs == {"outcome": "regression", "saved": "true"}
    assert "::warning::steps are slower" in merged.output


@pytest.mark.slow
def test_a_command_is_recorded(runner):
    (runner.folder / "program.py").write_text(
        "import warpline\n"
        "open('runs', 'a').write('x')\n"
        "for _ in range(9):\n"
        "    with warpline.annotate('step'): pass\n"
    )
    found = runner.run("push", "main", command="python program.py", runs="2")
    assert found.status == 0, found.output
    assert (runner.folder / "runs").read_text() == "xxx"  # with the one that does not count
    assert "2 runs, step on the CPU" in found.output
    failed = runner.run("push", "main", command="exit 9", warm_up="0")
    assert failed.status == 9
