import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Head } from "../data/head";
import { readHead } from "../data/head";
import { Recording } from "../data/recording";
import { fuzzyFind } from "../base/fuzzy";
import { commandsOf } from "./commands";
import { keyName } from "./help";
import { chordOf, isSingle, KEYS, keyOf, MOUSE } from "./keys";
import { Model } from "./model";
import { byTopic, openTopic, TOPICS } from "./topics";

function model(head: Partial<Head> = {}): Model {
  const text = JSON.stringify({ container_version: 1, start_ns: 0, end_ns: 1000, ...head });
  const none = { get: () => Promise.reject(new Error("none")) };
  const nobody = { order: () => Promise.reject(new Error("nobody")) };
  return new Model(new Recording(readHead(text), none as never, nobody as never));
}

const press = (key: string, more: Partial<KeyboardEvent> = {}) =>
  chordOf({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...more });

describe("keys", () => {
  it("no key stands for two things, and every letter of g is free elsewhere", () => {
    const all = KEYS.flatMap((key) => key.keys);
    expect(new Set(all).size).toBe(all.length);
    expect(all).not.toContain("g");
  });

  it("writes presses as the table does", () => {
    expect(press("w")).toBe("w");
    expect(press("k", { ctrlKey: true })).toBe("Ctrl+k");
    expect(press("K", { metaKey: true })).toBe("Ctrl+k");
    expect(press("P", { ctrlKey: true, shiftKey: true })).toBe("Ctrl+Shift+p");
    expect(press("a", { altKey: true })).toBeNull();
  });

  it("takes two keys one after the other", () => {
    const one = model();
    one.page.value = "overview";
    expect(keyOf(one, "g")).toBeNull();
    keyOf(one, "t")?.run(one);
    expect(one.page.value).toBe("timeline");
    expect(one.theme.value).toBe("dark"); // t alone would have changed it
    keyOf(one, "t")?.run(one);
    expect(one.theme.value).toBe("light");
    keyOf(one, "g");
    expect(keyOf(one, "w")?.text).toBe("Zoom in"); // an unknown second key counts on its own
    expect(keyOf(one, "q")).toBeNull();
  });

  it("keys of the timeline leave other pages alone", () => {
    const one = model();
    one.page.value = "tables";
    expect(keyOf(one, "w")).toBeNull();
    expect(keyOf(one, "2")?.text).toBe("Timeline");
  });

  it("single keys can be turned off; those with Ctrl and names stay", () => {
    const one = model();
    one.hasSingleKeys.value = false;
    for (const chord of KEYS.flatMap((key) => key.keys).filter((key) => !key.includes(" "))) {
      expect(keyOf(one, chord) === null, chord).toBe(isSingle(chord));
    }
    keyOf(one, "g");
    expect(keyOf(one, "o")).toBeNull();
  });

  it("names keys as they are printed", () => {
    expect(["w", "W", "?", "g k", "Ctrl+Shift+p", "ArrowLeft", "Escape"].map(keyName)).toEqual([
      "W", "Shift+W", "?", "G then K", "Ctrl+Shift+P", "←", "Esc",
    ]);
  });
});

const RESULTS = ["steps", "cuda_gpu_kern_sum", "layers", "phases", "recording", "kernel_class_sum", "layers:autograd", "new"].map(
  (name, block) => ({ name, title: name, command: "", block }),
);

describe("topics and commands", () => {
  it("puts every table under one topic", () => {
    const topics = byTopic(RESULTS);
    expect(topics.flatMap((one) => one.tables.map((table) => table.name)).sort()).toEqual(
      RESULTS.map((one) => one.name).sort(),
    );
    expect(topics.find((one) => one.topic === "ranges")?.tables[0]?.name).toBe("layers");
    expect(topics.find((one) => one.topic === "recording")?.tables.map((one) => one.name)).toEqual(["recording", "new"]);
    expect(new Set(TOPICS.flatMap((one) => one.tables)).size).toBe(TOPICS.flatMap((one) => one.tables).length);
  });

  it("opens a topic, or says that there is none", () => {
    const one = model({ results: RESULTS });
    openTopic(one, "ranges");
    expect([one.page.value, one.table.value]).toEqual(["tables", "layers"]);
    one.page.value = "timeline";
    openTopic(one, "collectives");
    expect(one.page.value).toBe("timeline");
    expect(one.told.value).toContain("no such table");
  });

  it("the palette finds rows, findings, tables, steps and actions", () => {
    const one = model({
      results: RESULTS,
      rows: [
        { id: "g", parent: null, label: "GPU 0", kind: "group", count: 0, parts: [] },
        { id: "g/s", parent: "g", label: "stream 7", kind: "stream", count: 0, parts: [] },
      ],
      steps: [{ label: "", rows: [], start_ns: [100, 300], end_ns: [300, 400], text: ["a", "b"], excluded: [] }],
      findings: [{ id: "F1", windows_ns: [[100, 200]], rows: [], events: [] }],
      summary: { findings: [{ id: "F1", rule: "x", severity: "high", title: "host waits" }] },
    });
    const find = (typed: string) => fuzzyFind(commandsOf(one), (each) => each.title, typed, 5)[0];
    expect(find("go stream 7")?.title).toBe("Go to GPU 0 · stream 7");
    expect(find("host waits")?.kind).toBe("Finding");
    expect(find("kernel_class")?.kind).toBe("Table");
    one.page.value = "overview";
    find("step b")?.run(one);
    expect(one.page.value).toBe("timeline");
    expect(one.view.value).toEqual({ start: 290, end: 410 });
    find("zoom in fast")?.run(one);
    expect(one.view.value).toEqual({ start: 335, end: 365 });
    find("host waits")?.run(one);
    expect(one.finding.value).toBe("F1");
  });
});

describe("docs/timeline.md", () => {
  it("lists all keys and what the mouse does", () => {
    const page = readFileSync(new URL("../../../docs/timeline.md", import.meta.url), "utf8");
    const lines = KEYS.map(({ keys, text }) => `| ${keys.map((key) => `\`${keyName(key)}\``).join(", ")} | ${text} |`);
    for (const line of [...lines, ...MOUSE.map(([what, text]) => `| ${what} | ${text} |`)]) expect(page).toContain(line);
  });
});
