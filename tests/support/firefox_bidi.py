"""A stock Firefox, driven through WebDriver BiDi: Playwright only drives its own builds."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_LIMIT_S = 60
_VIEWPORT = {"width": 1440, "height": 900}
_SHIFT = "\ue008"
# No network requests and no pages other than those that tests open.
_SETTINGS = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.log.level": "Fatal",
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}


class Firefox:
    """One page of a Firefox.

    Attributes:
        problems: Errors and warnings on the page's console, and uncaught exceptions.
        requests: Addresses requested by the page.
    """

    def __init__(self, connection: ClientConnection) -> None:
        """Connect to a Firefox that has just started."""
        self._connection = connection
        self._number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.send("session.new", capabilities={})
        self._context = self.send("browsingContext.getTree")["contexts"][0]["context"]
        self.send("browsingContext.setViewport", context=self._context, viewport=_VIEWPORT)
        self.send("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])

    def send(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            told = json.loads(self._connection.recv(timeout=_LIMIT_S))
            if told.get("id") == self._number:
                assert told["type"] == "success", told
                return told["result"]
            self._hear(told.get("method"), told.get("params", {}))

    def _hear(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "log.entryAdded" and params["level"] in {"error", "warn"}:
            self.problems.append(f"{params['level']}: {params['text']}")
        elif method == "network.beforeRequestSent":
            self.requests.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Open an address."""
        self.send("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression, which may be a promise, as JSON."""
        answer = self.send(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        text = answer["result"].get("value")
        return None if text is None else json.loads(text)

    def wait(self, condition: str) -> None:
        """Wait for a condition on `model` and `marks(NAME)`."""
        assert self.ask(
            f"""(async () => {{
              const end = performance.now() + {_LIMIT_S / 2 * 1000};
              const marks = (name) => performance.getEntriesByName(name).length;
              for (;;) {{
                const model = window.warpline?.model;
                if (model && ({condition})) return true;
                if (performance.now() > end) return false;
                await new Promise(requestAnimationFrame);
              }}
            }})()"""
        ), (condition, self.problems)

    def press(self, key: str) -> None:
        """Press a key; a capital letter with Shift."""
        pressed = [_SHIFT, key] if key != key.lower() else [key]
        downs = [{"type": "keyDown", "value": one} for one in pressed]
        ups = [{"type": "keyUp", "value": one} for one in reversed(pressed)]
        self._act({"type": "key", "id": "keys", "actions": [*downs, *ups]})

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse from one position to another."""
        moves = [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 50}
            for x, y in (start, end)
        ]
        down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        self._act({"type": "pointer", "id": "mouse", "actions": [moves[0], down, moves[1], up]})

    def _act(self, source: dict[str, Any]) -> None:
        self.send("input.performActions", context=self._context, actions=[source])

    def screenshot(self) -> bytes:
        """Return a screenshot as PNG."""
        shot = self.send("browsingContext.captureScreenshot", context=self._context)
        return base64.b64decode(shot["data"])


@contextlib.contextmanager
def running(program: str, profile: Path) -> Iterator[Firefox]:
    """Run a Firefox with a new profile in a directory."""
    from websockets.sync.client import connect

    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in _SETTINGS.items()]
    (profile / "user.js").write_text("".join(lines))
    command = [program, "--headless", "--no-remote", "--profile", str(profile)]
    log = profile / "log.txt"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*command, "--remote-debugging-port=0", "about:blank"],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            with connect(f"{_address(process)}/session", max_size=None) as connection:
                yield Firefox(connection)
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"WebDriver BiDi listening on (ws://\S+)", line)
        if found:
            return found[1]
    raise AssertionError("Firefox ended before it listened")
