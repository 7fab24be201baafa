import { describe, expect, it } from "vitest";
import { expectLayer } from "../../dev/layers";
import { signed } from "./views/changes";
import { moved } from "./views/map";

const LAYERS = ["data", "plots", "views", "app"];
/** What the page takes from that of the timeline: nothing with a state. */
const SHARED = ["../../base/", "../../data/page-blocks"];
const HERE = new URL("./", import.meta.url);

describe("the layers of the page of a fleet", () => {
  it.each(LAYERS)("%s imports only from those below and what the pages share", (layer) => {
    expectLayer(HERE, LAYERS, layer, SHARED);
  });
});

describe("keys on a map", () => {
  it("move between cells, and not out of the map", () => {
    const cells = { rows: 3, columns: 2 };
    expect(moved(null, "ArrowDown", cells)).toEqual({ row: 0, column: 0 });
    expect(moved({ row: 0, column: 0 }, "ArrowDown", cells)).toEqual({ row: 1, column: 0 });
    expect(moved({ row: 2, column: 1 }, "PageDown", cells)).toEqual({ row: 2, column: 1 });
    expect(moved({ row: 2, column: 1 }, "Home", cells)).toEqual({ row: 2, column: 0 });
    expect(moved({ row: 2, column: 1 }, "Escape", cells)).toBeNull();
    expect(moved({ row: 2, column: 1 }, "Tab", cells)).toBeUndefined();
  });
});

describe("differences", () => {
  it("have a sign, as on the screen", () => {
    expect([signed(-6_610_400), signed(677_123), signed(0), signed(-0.2)]).toEqual(["-6.61 ms", "+677 us", "+0 ns", "-0 ns"]);
  });
});
