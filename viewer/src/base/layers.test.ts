import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const LAYERS = ["base", "data", "engine", "plots", "views", "app"];
const SOURCE = new URL("../", import.meta.url);

describe("the layers", () => {
  it.each(LAYERS)("%s imports only from those below", (layer) => {
    const allowed = LAYERS.slice(0, LAYERS.indexOf(layer));
    const files = readdirSync(new URL(layer, SOURCE)).filter(
      (name) => /\.tsx?$/.test(name) && !name.includes(".test."),
    );
    expect(files.length).toBeGreaterThan(0);
    for (const name of files) {
      const text = readFileSync(new URL(`${layer}/${name}`, SOURCE), "utf8");
      for (const [, other] of text.matchAll(/from "(?:worker-text:)?\.\.\/(\w+)\//g)) {
        expect(allowed, `${layer}/${name}`).toContain(other);
      }
      expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|\beval\(|new Function/);
    }
  });
});
