"""Real browsers for tests, and the page of a report in one of them.

Tests wait for the page's own marks (viewer/CONTAINER.md, section 6), never for a fixed time.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # test modules must import without Playwright
    from playwright.sync_api import BrowserContext, ConsoleMessage, Frame, Locator, Page, Request

# First the same engine without the windows around pages: they take half of the time of the tests.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FIREFOX = ("firefox-esr", "firefox")
REQUIRE = "WARPLINE_REQUIRE_BROWSER"

# Start, end and kind of every GPU operation in a capture of Nsight Systems.
OPERATIONS = """
    SELECT start, end, 0 FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL SELECT start, end, 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL SELECT start, end, 2 FROM CUPTI_ACTIVITY_KIND_MEMSET"""

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
COLOR_RULES = ["color-contrast"]  # all that depends on the theme

_LIMIT_MS = 20_000
_WAIT = """async (limit) => {
  const end = performance.now() + limit;
  for (;;) {
    const model = window.warpline?.model;
    const marks = (name) => performance.getEntriesByName(name).length;
    if (model && (%s)) return true;
    if (performance.now() > end) return false;
    await new Promise(requestAnimationFrame);
  }
}"""


def find_program(variable: str, names: tuple[str, ...]) -> str | None:
    """Return the path of a browser, from an environment variable or one of the given names."""
    named = os.environ.get(variable)
    if named:
        return shutil.which(named)
    return next((found for name in names if (found := shutil.which(name))), None)


def busy_ns(operations: list[tuple[int, int, int]], start: int, end: int) -> int:
    """Return the busy time, by going through all starts and ends."""
    total, until = 0, start
    for first, last, _ in sorted(operations):
        total += max(0, min(last, end) - max(first, until))
        until = max(until, min(last, end))
    return total


def strangers(requests: list[str]) -> list[str]:
    """Return the requests other than files opened by a test and the page's own workers."""
    return [url for url in requests if not url.startswith(("file://", "blob:"))]


@dataclass
class Viewer:
    """A report in a browser.

    Attributes:
        page: The browser's page.
        problems: Errors and warnings on the page's console, and uncaught exceptions.
        requests: Addresses requested by the page, including its own.
    """

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.problems.append(f"thrown: {error}"))
        self.page.context.on("request", self._note)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.problems.append(f"{message.type}: {message.text}")

    def _note(self, request: Request) -> None:
        self.requests.append(request.url)

    # -- opening and waiting -------------------------------------------------------------------

    def open(self, target: Path | str, address: str = "#t") -> None:
        """Open a file or an address, and wait for all events; on the timeline also for a frame."""
        self.page.goto((target.as_uri() if isinstance(target, Path) else target) + address)
        self.wait("model.isComplete.value")
        if address.startswith("#t"):
            self.drawn()

    def turn(self, address: str) -> None:
        """Go to another address of the open page, and wait until that is shown."""
        self.page.evaluate("(address) => { location.hash = address; }", address)
        names = {"o": "overview", "t": "timeline", "p": "plots", "k": "tables", "e": "environment"}
        self.wait(f"model.page.value === {json.dumps(names[address[1]])}")
        self.frame()
        if address.startswith("#t"):
            self.drawn()

    def drawn(self) -> None:
        """Wait until all events were drawn once."""
        self.wait("marks('warpline-full') > 0")

    def wait(self, condition: str) -> None:
        """Wait for a JavaScript condition on `model` and `marks(NAME)`."""
        if self.page.evaluate(_WAIT % condition, _LIMIT_MS):
            return
        raise AssertionError(f"the page never came to {condition}; it said {self.problems}")

    def wait_in(self, frame: Frame, condition: str) -> None:
        """Wait for a JavaScript condition on `model` and `marks(NAME)` of a frame."""
        if not frame.evaluate(_WAIT % condition, _LIMIT_MS):
            raise AssertionError(f"the frame never came to {condition}; it said {self.problems}")

    def settle(self) -> None:
        """Wait until the tables match the view or the selection."""
        wanted = "(model.area.value?.span ?? model.view.value)"
        now = "model.settled.value.span"
        self.wait(f"{now}.start === {wanted}.start && {now}.end === {wanted}.end")
        self.frame()

    def frame(self) -> None:
        """Wait until the page has been painted with its current state."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    # -- doing ---------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        """Press keys one after the other, then wait for a frame."""
        for key in keys:
            self.page.keyboard.press(key)
        self.frame()

    def walk(self, key: str) -> str:
        """Press a key that moves to another event, and return that event's id."""
        before = json.dumps(self.selected)
        self.press(key)
        self.wait(f"model.address().selected !== {before}")
        self.frame()
        selected = self.selected
        assert selected is not None
        return selected

    def click(self, row_id: str, time_ns: float) -> None:
        """Select the event of a row at a time."""
        x, y, width, height = self.row_box(row_id)
        start, end = self.view
        self.page.mouse.click(x + (time_ns - start) / (end - start) * width, y + height / 2)
        self.wait(
            f"model.selected.value?.start <= {time_ns} && model.selected.value.end >= {time_ns} &&"
            f" model.recording.head.rows[model.selected.value.row].id === {json.dumps(row_id)}"
        )
        self.frame()

    def find(self, selector: str) -> Locator:
        """Return the elements matched by a CSS or Playwright selector."""
        return self.page.locator(selector)

    # -- asking --------------------------------------------------------------------------------

    def ask(self, expression: str) -> Any:
        """Return the value of an expression about `model`."""
        return self.page.evaluate(
            f"() => {{ const {{ model }} = window.warpline; return {expression}; }}"
        )

    @property
    def view(self) -> tuple[float, float]:
        """The time in view."""
        start, end = self.ask("[model.view.value.start, model.view.value.end]")
        return start, end

    @property
    def area(self) -> tuple[int, int]:
        """The selected time."""
        start, end = self.ask("[model.area.value.span.start, model.area.value.span.end]")
        return start, end

    @property
    def selected(self) -> str | None:
        """Id of the selected event."""
        found: str | None = self.ask("model.address().selected")
        return found

    @property
    def said(self) -> str:
        """The last announcement to screen readers."""
        return self.find("[aria-live]").inner_text()

    @property
    def head(self) -> dict[str, Any]:
        """The container's head, as stored in the file."""
        text = self.find("#warpline-head").text_content()
        assert text is not None
        head: dict[str, Any] = json.loads(text)
        return head

    def row_box(self, row_id: str) -> tuple[float, float, float, float]:
        """Return left, top, width and height of a row's events on the screen."""
        canvas = self.find("canvas[role=application]").bounding_box()
        label = self.find(f".row-label[data-row={json.dumps(row_id)}]").bounding_box()
        assert canvas is not None
        assert label is not None
        return canvas["x"], label["y"], canvas["width"], label["height"]

    def table(self, heading: str) -> dict[str, tuple[str, ...]]:
        """Return a table of the panel below the timeline: its cells by the first cell's text."""
        rows = self.find(f".names:has(h3:text-is({json.dumps(heading)})) tbody tr")
        cells: list[list[str]] = rows.evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
        )
        return {name: tuple(rest) for name, *rest in cells}


# Contrast follows from the colour and size of a text and from what is behind it: of texts that are
# alike in these, such as the cells of a table, the first stands for all, as axe takes milliseconds
# for each. Where a text lies over something else than its ancestors, it stands for itself only; and
# one that is scrolled out of sight or a single letter, of which axe says nothing, for such ones.
_MARK_ALIKE = """(within) => {
  const grounds = new Map([[null, ""]]);
  const ground = (one) => {
    if (!grounds.has(one)) {
      const style = getComputedStyle(one);
      const { backgroundColor, backgroundImage, opacity, filter, position } = style;
      const own = [backgroundColor, backgroundImage, opacity, filter].join();
      const isOpaque = backgroundColor.startsWith("rgb(") && opacity === "1";
      const isOver = position === "absolute" || position === "fixed" || one.closest("svg");
      const below = isOpaque ? "" : isOver ? `over ${grounds.size}` : ground(one.parentElement);
      grounds.set(one, `${below};${own}`);
    }
    return grounds.get(one);
  };
  const seen = new Set();
  for (const one of [...document.querySelectorAll(within)].flatMap(
    (root) => [...root.querySelectorAll(":not(:has(*))")])) {
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(one);
    const isOff = one.disabled || one.closest("[aria-disabled=true]") !== null;
    const { left, top, width, height } = one.getBoundingClientRect();
    const isOnTop = document.elementFromPoint(left + width / 2, top + height / 2) === one;
    const isShort = one.textContent.trim().length < 2;
    const text = [color, fontSize, fontWeight, textShadow, isOff, isOnTop, isShort];
    const look = [ground(one), ...text, one.checkVisibility()].join("|");
    if (seen.has(look)) one.dataset.alike = "";
    seen.add(look);
  }
}"""
_RUN_AXE = """async ([within, rules]) => {
  const run = async (context, options) =>
    (await axe.run(context, { resultTypes: ["violations"], ...options })).violations;
  const contrast = "color-contrast";
  const others = rules.filter((one) => one !== contrast);
  const found = others.length === 0 ? [] : await run(
    within, { runOnly: others, rules: { [contrast]: { enabled: false } } });
  if (rules.includes(contrast) || rules.includes("wcag2aa")) found.push(
    ...await run({ include: within, exclude: "[data-alike]" }, { runOnly: [contrast] }));
  for (const one of document.querySelectorAll("[data-alike]")) delete one.dataset.alike;
  return found;
}"""


def violations(
    viewer: Viewer, within: str = "html", rules: list[str] = RULES
) -> list[tuple[Any, ...]]:
    """Return the violations found by axe-core: rule, reason, and elements."""
    from axe_playwright_python.sync_playwright import Axe

    if viewer.page.evaluate("typeof axe === 'undefined'"):  # half a megabyte, once per page
        viewer.page.evaluate(Axe().axe_script)
    viewer.page.evaluate(_MARK_ALIKE, within)
    found = viewer.page.evaluate(_RUN_AXE, [within, rules])
    return [
        (
            one["id"],
            one["help"],
            [(node["html"][:200], node["any"][:1]) for node in one["nodes"][:4]],
        )
        for one in found
    ]


def new_context(browser: Any, **options: Any) -> BrowserContext:
    """Return a context like a laptop's window, with the light theme by default."""
    settings = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light", **options}
    context: BrowserContext = browser.new_context(**settings)
    context.set_default_timeout(_LIMIT_MS)
    return context
