/** Colors as [red, green, blue] in 0..255; canvas pixels as 0xAABBGGRR. */

export type Colour = readonly [number, number, number];

export function fromHex(hex: string): Colour {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Colour;
}

export function toCss([red, green, blue]: Colour): string {
  return `rgb(${red},${green},${blue})`;
}

export function toPixel([red, green, blue]: Colour): number {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Returns the color at the fraction `part` from `low` to `high`. */
export function mixed(low: Colour, high: Colour, part: number): Colour {
  return [0, 1, 2].map((i) =>
    Math.round(low[i] + (high[i] - low[i]) * part),
  ) as unknown as Colour;
}

/** Relative luminance of WCAG 2.2. */
export function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Contrast ratio of WCAG 2.2, 1 to 21. */
export function contrast(one: Colour, other: Colour): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const STEPS = 20;

/** Returns the color, made lighter or darker until it has contrast `least` with the background. */
export function legible(colour: Colour, background: Colour, least: number): Colour {
  const away: Colour = luminance(background) < 0.18 ? [255, 255, 255] : [0, 0, 0];
  for (let step = 0; step < STEPS; step++) {
    const found = mixed(colour, away, step / STEPS);
    if (contrast(found, background) >= least) return found;
  }
  return away;
}

const DARK: Colour = [0, 0, 0];
const LIGHT: Colour = [255, 255, 255];

/** Returns dark or light text, whichever has more contrast with a fill: always at least 4.5. */
export function textOn(fill: Colour): Colour {
  return contrast(DARK, fill) >= contrast(LIGHT, fill) ? DARK : LIGHT;
}
