import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { expectLayer } from "../../dev/layers";
import { contrast, fromHex } from "../base/colour";
import { THEMES } from "../engine/theme";

const LAYERS = ["data", "plots", "views", "app"];
/** What the page takes from that of the timeline: nothing with a state. */
const SHARED = ["../../base/", "../../data/page-blocks"];
const HERE = new URL("./", import.meta.url);

describe("the layers of the page of flame graphs", () => {
  it.each(LAYERS)("%s imports only from those below and what the pages share", (layer) => {
    expectLayer(HERE, LAYERS, layer, SHARED);
  });
});

describe.each(["dark", "light"] as const)("the colors of the %s page of flame graphs", (theme) => {
  it("differ from the background", () => {
    const css = readFileSync(new URL("app/flame.css", import.meta.url), "utf8");
    const line = css.split("\n").find((one) => one.startsWith(theme === "dark" ? ":root {" : ':root[data-theme="light"]')) ?? "";
    const colors = [...line.matchAll(/--[\w-]+: (#[0-9a-f]{6});/g)].map(([, value = ""]) => value);
    expect(colors.length).toBe(2);
    for (const value of colors) expect(contrast(fromHex(value), THEMES[theme].background)).toBeGreaterThanOrEqual(4.5);
  });
});
