/** Outlines of layers as SVG paths, in steps: bytes change at once. Pure. */

/** Returns the area between two rows of heights in pixels; columns of -1 in `states` are left out. */
export function areaPath(states: Int32Array, bottom: ArrayLike<number>, top: ArrayLike<number>): string {
  let path = "";
  for (const [from, until] of runs(states)) {
    path += `M${from} ${round(bottom[from] as number)}`;
    for (let at = from; at < until; at++) path += stepTo(at, top, at === from || top[at] !== top[at - 1]);
    path += `V${round(bottom[until - 1] as number)}`;
    for (let at = until - 1; at > from; at--) if (bottom[at] !== bottom[at - 1]) path += `H${at}V${round(bottom[at - 1] as number)}`;
    path += `H${from}Z`;
  }
  return path;
}

/** Returns a line through heights in pixels. */
export function linePath(states: Int32Array, height: ArrayLike<number>): string {
  let path = "";
  for (const [from, until] of runs(states)) {
    path += `M${from} ${round(height[from] as number)}`;
    for (let at = from; at < until; at++) path += stepTo(at, height, at > from && height[at] !== height[at - 1]);
  }
  return path;
}

/** Goes to the end of a column, first up or down where the height changes. */
function stepTo(at: number, height: ArrayLike<number>, changes: boolean): string {
  return `${changes ? `V${round(height[at] as number)}` : ""}H${at + 1}`;
}

function runs(states: Int32Array): [from: number, until: number][] {
  const found: [number, number][] = [];
  let from = -1;
  states.forEach((state, at) => {
    if (state >= 0 && from < 0) from = at;
    if (state < 0 && from >= 0) {
      found.push([from, at]);
      from = -1;
    }
  });
  if (from >= 0) found.push([from, states.length]);
  return found;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
