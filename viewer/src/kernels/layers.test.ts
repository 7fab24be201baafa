import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const LAYERS = ["data", "plots", "views", "app"];
/** What the page takes from that of the timeline: nothing with a state. */
const SHARED = ["../../base/", "../../data/inflate", "../../plots/scale"];
const HERE = new URL("./", import.meta.url);

describe("the layers of the page of kernels", () => {
  it.each(LAYERS)("%s imports only from those below and what both pages share", (layer) => {
    const allowed = LAYERS.slice(0, LAYERS.indexOf(layer)).map((one) => `../${one}/`);
    const files = readdirSync(new URL(layer, HERE)).filter((name) => /\.tsx?$/.test(name) && !name.includes(".test."));
    expect(files.length).toBeGreaterThan(0);
    for (const name of files) {
      const text = readFileSync(new URL(`${layer}/${name}`, HERE), "utf8");
      for (const [, path = ""] of text.matchAll(/from "(\.\.\/[^"]+)"/g)) {
        expect([...allowed, ...SHARED].some((prefix) => path.startsWith(prefix)), `${layer}/${name}: ${path}`).toBe(true);
      }
      expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|\beval\(|new Function/);
    }
  });
});
