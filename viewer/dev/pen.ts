/** A drawing context that records its calls. */

import type { Pen, Strip, Surface } from "../src/engine/surface";

export interface Call {
  readonly name: string;
  readonly values: readonly unknown[];
  readonly fill: unknown;
}

const WIDTH_OF_A_LETTER = 6;

export function recordingPen(): { pen: Pen; calls: Call[] } {
  const calls: Call[] = [];
  const state: Record<string, unknown> = { fillStyle: "" };
  const pen = new Proxy(state, {
    get(target, name: string) {
      if (name in target) return target[name];
      if (name === "measureText") return (text: string) => ({ width: text.length * WIDTH_OF_A_LETTER });
      return (...values: unknown[]) => {
        calls.push({ name, values, fill: target["fillStyle"] });
      };
    },
    set(target, name: string, value: unknown) {
      target[name] = value;
      return true;
    },
  });
  return { pen: pen as unknown as Pen, calls };
}

export function recordingSurface(): Surface & { strips: Strip[] } {
  const strips: Strip[] = [];
  return {
    strips,
    strip(width, lines) {
      const strip: Strip = {
        width,
        lines,
        pixels: new Uint32Array(width * lines),
        upload: () => undefined,
        draw: () => undefined,
      };
      strips.push(strip);
      return strip;
    },
    pattern: (_, ink) => `hatch:${ink.hatch}`,
  };
}
