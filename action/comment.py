"""Writes a Markdown file as a comment on the pull request, in place of the one of the last run.

Usage: comment.py FILE, with the variables of GitHub Actions, TOKEN and BASELINE.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 60_000  # of a comment; GitHub takes 65,536
PER_PAGE = 100


def main() -> int:
    """Write the comment; one that is not allowed, as for forks, is a warning."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event["pull_request"]["number"]
    repository = os.environ["GITHUB_REPOSITORY"]
    mark = f"<!-- warpline {os.environ['BASELINE']} -->"
    text = Path(sys.argv[1]).read_text(encoding="utf-8")[:MOST_CHARACTERS]
    run = (
        f"{os.environ['GITHUB_SERVER_URL']}/{repository}/actions/runs/{os.environ['GITHUB_RUN_ID']}"
    )
    body = {"body": f"{mark}\n{text}\n\n[Run and timeline]({run})\n"}
    try:
        found = find(f"/repos/{repository}/issues/{number}/comments", mark)
        if found is None:
            ask("POST", f"/repos/{repository}/issues/{number}/comments", body)
        else:
            ask("PATCH", f"/repos/{repository}/issues/comments/{found}", body)
    except urllib.error.HTTPError as error:
        hint = "the job needs `permissions: pull-requests: write`; forks never have it"
        print(f"::warning::no comment: GitHub answered {error.code}; {hint}")
    except OSError as error:
        print(f"::warning::no comment: {error}")
    return 0


def find(path: str, mark: str) -> int | None:
    """Return the id of the comment that begins with a mark; None if there is none."""
    page = 1
    while True:
        comments = ask("GET", f"{path}?per_page={PER_PAGE}&page={page}")
        for comment in comments:
            if (comment["body"] or "").startswith(mark):
                return int(comment["id"])
        if len(comments) < PER_PAGE:
            return None
        page += 1


def ask(method: str, path: str, content: object = None) -> Any:
    """Send a request to GitHub and return its answer."""
    request = urllib.request.Request(
        os.environ["GITHUB_API_URL"] + path,
        method=method,
        data=None if content is None else json.dumps(content).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
