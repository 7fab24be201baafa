import { describe, it } from "vitest";
import { expectLayer } from "../../dev/layers";

const LAYERS = ["base", "data", "engine", "plots", "views", "app"];
const SOURCE = new URL("../", import.meta.url);

describe("the layers", () => {
  it.each(LAYERS)("%s imports only from those below", (layer) => {
    expectLayer(SOURCE, LAYERS, layer, []);
  });
});
