/** A map of values on a canvas: the pointer and the arrow keys show what a cell stands for. */

import { useEffect, useRef, useState } from "preact/hooks";
import { toCss } from "../../base/colour";
import { shortened } from "../../base/text";
import { cellsOf, type Cells, colorOf, SCALES, type Values } from "../plots/cells";
import { apart, LEFT, layoutOf, type Layout, MOST_ROWS, mostColumns } from "../plots/layout";

const FONT = "11px system-ui, sans-serif";
const LETTERS = 20; // of a label
const TIP = 424; // px: a map that leaves so much room is small
const TIP_HIGH = 140; // px

export interface MapProps {
  readonly id: string;
  readonly label: string;
  readonly values: Values;
  /** The value with the strongest color. */
  readonly limit: number;
  readonly theme: "light" | "dark";
  readonly room: number;
  readonly rowName: (row: number) => string;
  readonly columnName: (column: number) => string;
  /** What is written beside rows that are marked. */
  readonly marked: ReadonlyMap<number, string>;
  /** Says what the value at a place is, in lines. */
  readonly say: (place: number) => readonly string[];
  /** Which of several values a cell shows. */
  readonly farthest?: string;
  /** Says why there is no value at a place. */
  readonly absent?: (place: number) => string;
}

interface At {
  readonly row: number;
  readonly column: number;
}

export function HeatMap(props: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState<At | null>(null);
  const cells = cellsOf(props.values, MOST_ROWS, mostColumns(props.room));
  const layout = layoutOf(cells, props.room);
  useEffect(() => {
    if (canvas.current) draw(canvas.current, props, cells, layout, at);
  });
  const pointed = (event: MouseEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / layout.high);
    const column = Math.floor((event.clientX - box.left - LEFT) / layout.wide);
    setAt(row >= 0 && row < cells.rows && column >= 0 && column < cells.columns ? { row, column } : null);
  };
  const pressed = (event: KeyboardEvent): void => {
    const next = moved(at, event.key, cells);
    if (next === undefined) return;
    event.preventDefault();
    setAt(next);
  };
  const place = at ? (cells.place[at.row * cells.columns + at.column] ?? -1) : -1;
  const lines = at ? said(props, cells, at, place) : [];
  return (
    <div class="map">
      <canvas
        id={props.id}
        ref={canvas}
        role="application"
        tabIndex={0}
        aria-label={`${props.label} Arrow keys move between cells.`}
        style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
        onMouseMove={pointed}
        onMouseLeave={() => setAt(null)}
        onKeyDown={pressed}
        onBlur={() => setAt(null)}
      />
      <output id={`${props.id}-said`} class={lines.length ? "tip" : "unseen"} style={lines.length && at ? tipPlace(layout, at, props.room) : {}}>
        {lines.map((line) => (
          <div key={line}>{line}</div>
        ))}
      </output>
    </div>
  );
}

/** Returns where the text about a cell is: beside a small map, else beside the cell, towards the middle, and not on its row. */
function tipPlace(layout: Layout, { row, column }: At, room: number): Record<string, string> {
  if (room - layout.width > TIP) return { left: `${layout.width + 8}px`, top: `${Math.max(Math.min(row * layout.high, layout.height - TIP_HIGH), 0)}px` };
  const x = LEFT + (column + 1) * layout.wide;
  const isRight = x > layout.width / 2;
  const isLow = row * layout.high > layout.height / 2;
  return {
    left: isRight ? "auto" : `${x + 8}px`,
    right: isRight ? `calc(100% - ${x - layout.wide - 8}px)` : "auto",
    top: isLow ? "auto" : `${(row + 1) * layout.high + 8}px`,
    bottom: isLow ? `calc(100% - ${row * layout.high - 8}px)` : "auto",
  };
}

/** Returns the cell that a key leads to, null to leave, undefined for other keys. */
export function moved(at: At | null, key: string, cells: { readonly rows: number; readonly columns: number }): At | null | undefined {
  if (key === "Escape") return null;
  const steps: Record<string, readonly [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    PageUp: [-16, 0],
    PageDown: [16, 0],
    Home: [0, -cells.columns],
    End: [0, cells.columns],
  };
  const step = steps[key];
  if (!step) return undefined;
  if (!at) return { row: 0, column: 0 };
  const within = (value: number, count: number): number => Math.min(Math.max(value, 0), count - 1);
  return { row: within(at.row + step[0], cells.rows), column: within(at.column + step[1], cells.columns) };
}

function said(props: MapProps, cells: Cells, at: At, place: number): readonly string[] {
  const count = Math.min(cells.rowsPerCell, props.values.rows - at.row * cells.rowsPerCell);
  const first = at.row * cells.rowsPerCell;
  if (place < 0 && props.absent) return [props.absent(first * props.values.columns + at.column * cells.columnsPerCell)];
  if (place < 0) return [`${props.rowName(first)}, ${props.columnName(at.column * cells.columnsPerCell)}: not recorded`];
  const of = count > 1 || cells.columnsPerCell > 1 ? [`Shown of ${props.rowName(first)} to ${props.rowName(first + count - 1)}: ${props.farthest ?? "the farthest from the median"}`] : [];
  return [...props.say(place), ...of];
}

function draw(canvas: HTMLCanvasElement, props: MapProps, cells: Cells, layout: Layout, at: At | null): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(layout.width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const { wide, high, gap } = layout;
  for (let cell = 0; cell < cells.place.length; cell++) {
    const place = cells.place[cell] as number;
    if (place < 0) continue;
    const [row, column] = [Math.floor(cell / cells.columns), cell % cells.columns];
    pen.fillStyle = toCss(colorOf(props.values.at[place] as number, props.limit, SCALES[props.theme]));
    pen.fillRect(LEFT + column * wide, row * high, wide - gap, high - gap);
  }
  drawLabels(pen, props, cells, layout, getComputedStyle(canvas));
  if (!at) return;
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 2;
  pen.strokeRect(LEFT + at.column * wide - 1, at.row * high - 1, wide + 2 - gap, high + 2 - gap);
}

function drawLabels(pen: CanvasRenderingContext2D, props: MapProps, cells: Cells, layout: Layout, style: CSSStyleDeclaration): void {
  const { wide, high } = layout;
  pen.font = FONT;
  pen.textBaseline = "middle";
  pen.fillStyle = style.getPropertyValue("--wl-dim");
  pen.textAlign = "right";
  for (let row = 0; row < cells.rows; row += layout.everyRow) {
    pen.fillText(shortened(props.rowName(row * cells.rowsPerCell), LETTERS), LEFT - 6, Math.max((row + 0.5) * high, 6));
  }
  pen.textAlign = "center";
  for (let column = 0; column < cells.columns; column += layout.everyColumn) {
    const name = props.columnName(column * cells.columnsPerCell).replace(/^(step|rank) /, "");
    pen.fillText(shortened(name, LETTERS), LEFT + (column + 0.5) * wide, cells.rows * high + 10);
  }
  pen.textAlign = "left";
  pen.fillStyle = style.color;
  pen.font = `bold ${FONT}`;
  const texts = new Map([...props.marked].map(([row, text]) => [(Math.floor(row / cells.rowsPerCell) + 0.5) * high, text]));
  for (const y of apart([...texts.keys()].sort((one, other) => one - other))) {
    pen.fillText(`\u25c0 ${shortened(texts.get(y) ?? "", LETTERS)}`, LEFT + cells.columns * wide + 4, Math.max(y, 6));
  }
}
