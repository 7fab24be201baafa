/** Drawing helpers beyond a 2D context: scaled pixel strips and patterns. */

import type { Hatch, Ink } from "./theme";

/** The part of CanvasRenderingContext2D that the engine uses; tests substitute their own. */
export interface Pen {
  fillStyle: string | CanvasGradient | CanvasPattern;
  strokeStyle: string | CanvasGradient | CanvasPattern;
  lineWidth: number;
  font: string;
  textBaseline: CanvasTextBaseline;
  textAlign: CanvasTextAlign;
  globalAlpha: number;
  imageSmoothingEnabled: boolean;
  fillRect(x: number, y: number, width: number, height: number): void;
  strokeRect(x: number, y: number, width: number, height: number): void;
  clearRect(x: number, y: number, width: number, height: number): void;
  fillText(text: string, x: number, y: number, maxWidth?: number): void;
  measureText(text: string): { readonly width: number };
  beginPath(): void;
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  bezierCurveTo(a: number, b: number, c: number, d: number, x: number, y: number): void;
  rect(x: number, y: number, width: number, height: number): void;
  closePath(): void;
  stroke(): void;
  fill(): void;
  clip(): void;
  save(): void;
  restore(): void;
  setLineDash(segments: number[]): void;
}

export interface Strip {
  readonly width: number;
  readonly lines: number;
  readonly pixels: Uint32Array;
  /** Makes the pixels drawable; called once per frame. */
  upload(): void;
  /** Draws `lines` lines, starting at `line`, scaled to a rectangle. */
  draw(pen: Pen, line: number, lines: number, x: number, y: number, w: number, h: number): void;
}

export interface Surface {
  strip(width: number, lines: number): Strip;
  pattern(pen: Pen, ink: Ink): string | CanvasPattern;
}

const TILE = 8;

type Painter = (pen: CanvasRenderingContext2D) => void;

function lines(...strokes: readonly (readonly [number, number, number, number])[]): Painter {
  return (pen) => {
    pen.beginPath();
    for (const [x0, y0, x1, y1] of strokes) {
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
    }
    pen.stroke();
  };
}

const RISING = [
  [-2, 2, 2, -2],
  [0, 8, 8, 0],
  [6, 10, 10, 6],
] as const;
const FALLING = [
  [-2, 6, 2, 10],
  [0, 0, 8, 8],
  [6, -2, 10, 2],
] as const;
const PAINTERS: Readonly<Record<Hatch, Painter>> = {
  rising: lines(...RISING),
  falling: lines(...FALLING),
  crossed: lines(...RISING, ...FALLING),
  bars: lines([2, 0, 2, 8], [6, 0, 6, 8]),
  grid: lines([4, 0, 4, 8], [0, 4, 8, 4]),
  waves: lines([0, 2, 4, 5], [4, 5, 8, 2]),
  dots: (pen) => {
    pen.fillRect(1, 1, 2, 2);
    pen.fillRect(5, 5, 2, 2);
  },
  plain: () => undefined,
};

function newCanvas(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

/** The surface of a browser. */
export function browserSurface(): Surface {
  const patterns = new Map<string, CanvasPattern | string>();
  let last: Strip | null = null;
  return {
    strip(width, wanted) {
      if (last && last.width === width && last.lines >= wanted) return last;
      const canvas = newCanvas(width, wanted);
      const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
      const image = pen.createImageData(width, wanted);
      last = {
        width,
        lines: wanted,
        pixels: new Uint32Array(image.data.buffer),
        upload: () => pen.putImageData(image, 0, 0),
        draw(target, line, count, x, y, w, h) {
          const context = target as CanvasRenderingContext2D;
          context.imageSmoothingEnabled = false;
          context.drawImage(canvas, 0, line, width, count, x, y, w, h);
        },
      };
      return last;
    },
    pattern(pen, ink) {
      const key = `${ink.hatch ?? ""} ${ink.css}`;
      let found = patterns.get(key);
      if (found === undefined) {
        const canvas = newCanvas(TILE, TILE);
        const tile = canvas.getContext("2d") as CanvasRenderingContext2D;
        tile.strokeStyle = ink.css;
        tile.fillStyle = ink.css;
        tile.lineWidth = 1.2;
        PAINTERS[ink.hatch ?? "plain"](tile);
        found = (pen as CanvasRenderingContext2D).createPattern(canvas, "repeat") ?? ink.css;
        patterns.set(key, found);
      }
      return found;
    },
  };
}
