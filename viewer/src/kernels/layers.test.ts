import { describe, it } from "vitest";
import { expectLayer } from "../../dev/layers";

const LAYERS = ["data", "plots", "views", "app"];
/** What the page takes from that of the timeline: nothing with a state. */
const SHARED = ["../../base/", "../../data/page-blocks", "../../plots/scale"];
const HERE = new URL("./", import.meta.url);

describe("the layers of the page of kernels", () => {
  it.each(LAYERS)("%s imports only from those below and what both pages share", (layer) => {
    expectLayer(HERE, LAYERS, layer, SHARED);
  });
});
