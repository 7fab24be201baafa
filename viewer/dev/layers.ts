import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";

/**
 * Expects that the files of a layer import only from the layers below it and from what is shared, and write no markup.
 *
 * `here` is the folder of the page; `layers` are the folders in it, the lowest first; `shared` are beginnings of paths.
 */
export function expectLayer(here: URL, layers: readonly string[], layer: string, shared: readonly string[]): void {
  const allowed = layers.slice(0, layers.indexOf(layer)).map((one) => `../${one}/`);
  const files = readdirSync(new URL(layer, here)).filter((name) => /\.tsx?$/.test(name) && !name.includes(".test."));
  expect(files.length).toBeGreaterThan(0);
  for (const name of files) {
    const text = readFileSync(new URL(`${layer}/${name}`, here), "utf8");
    for (const [, path = ""] of text.matchAll(/from "(?:worker-text:)?(\.\.\/[^"]+)"/g)) {
      expect([...allowed, ...shared].some((prefix) => path.startsWith(prefix)), `${layer}/${name}: ${path}`).toBe(true);
    }
    expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|\beval\(|new Function/);
  }
}
