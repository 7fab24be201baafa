/** A virtual list: it renders only the visible lines. Its columns can be resized. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface ListColumn {
  readonly title: ComponentChildren;
  readonly key: string;
  readonly isNumber: boolean;
  readonly sorted?: "ascending" | "descending" | undefined;
}

export interface ListProps {
  readonly count: number;
  readonly lineHeight: number;
  readonly label: string;
  readonly columns: readonly ListColumn[];
  readonly template: string;
  /** In em: a narrower list scrolls sideways. */
  readonly leastWidth?: number;
  readonly selected?: number;
  readonly cells: (line: number) => readonly ComponentChildren[];
  readonly onLine?: (line: number) => void;
  readonly lineClass?: (line: number) => string;
}

// Browsers limit the height of elements to some ten million pixels.
const MOST_PX = 8_000_000;
const LEAST_COLUMN_PX = 36;
const KEY_PX = 16;
const GAP_PX = 12;
const MARGINS_PX = 40; // of a line, and the scroll bar

/** Splits a grid template at its top-level spaces. */
export function tracksOf(template: string): string[] {
  return template.match(/(?:[^\s(]|\([^)]*\))+/g) ?? [];
}

interface Widths {
  readonly template: string;
  readonly leastWidth: string | undefined;
  /** Sets the width of a column; all others keep theirs. */
  readonly resize: (head: HTMLElement, column: number, px: number) => void;
  readonly reset: () => void;
}

/** The widths of the columns: those of the template until one is resized, then pixels for all. */
function useWidths(template: string, leastWidth: number | undefined): Widths {
  const [changed, setChanged] = useState<{ readonly template: string; readonly px: readonly number[] } | null>(null);
  const px = changed?.template === template ? changed.px : null;
  const least = leastWidth ? `${leastWidth}em` : undefined;
  return {
    template: px ? px.map((one) => `${one}px`).join(" ") : template,
    leastWidth: px ? `${px.reduce((sum, one) => sum + one, (px.length - 1) * GAP_PX + MARGINS_PX)}px` : least,
    resize: (head, column, width) => {
      const now = px ?? [...head.children].map((cell) => cell.getBoundingClientRect().width);
      setChanged({ template, px: now.map((one, at) => (at === column ? Math.max(LEAST_COLUMN_PX, width) : one)) });
    },
    reset: () => setChanged(null),
  };
}

/** Resizes the column of a heading by some pixels. */
function widen(widths: Widths, heading: HTMLElement, column: number, more: number): void {
  widths.resize(heading.parentElement as HTMLElement, column, heading.getBoundingClientRect().width + more);
}

/** The edge of a column heading: the mouse moves it, a double click resets all columns. */
function Edge({ column, widths }: { column: number; widths: Widths }) {
  return (
    <span
      class="edge"
      aria-hidden="true"
      title="Drag to resize the column. Double-click to reset all columns."
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        event.preventDefault(); // no selection of text
      }}
      onPointerMove={(event) => {
        const edge = event.currentTarget;
        if (!edge.hasPointerCapture(event.pointerId)) return;
        widen(widths, edge.parentElement as HTMLElement, column, event.clientX - edge.getBoundingClientRect().right);
      }}
      onDblClick={widths.reset}
    />
  );
}

export function List(props: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(300);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setRoom(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const { count, lineHeight } = props;
  const widths = useWidths(props.template, props.leastWidth);
  const whole = count * lineHeight;
  const shown = Math.min(whole, MOST_PX);
  const scale = shown > room ? (whole - room) / (shown - room) : 1;
  const first = Math.max(0, Math.floor((top * scale) / lineHeight) - 2);
  const last = Math.min(count, first + Math.ceil(room / lineHeight) + 5);
  const offset = scale === 1 ? first * lineHeight : top - (top * scale - first * lineHeight);
  const lines = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  return (
    <div class="list" style={widths.leastWidth ? { minWidth: widths.leastWidth } : undefined}>
      <div
        class="scroll"
        role="table"
        ref={box}
        tabIndex={0}
        aria-label={props.label}
        aria-rowcount={count + 1}
        onScroll={() => setTop(box.current?.scrollTop ?? 0)}
      >
        <div role="rowgroup">
          <div class="line head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: widths.template }}>
            {props.columns.map((column, at) => (
              <span
                role="columnheader"
                key={column.key}
                aria-sort={column.sorted}
                class={column.isNumber ? "number" : ""}
                onKeyDown={(event) => {
                  const more = event.key === "ArrowRight" ? KEY_PX : event.key === "ArrowLeft" ? -KEY_PX : 0;
                  if (more === 0 || !event.shiftKey) return;
                  widen(widths, event.currentTarget, at, more);
                  event.preventDefault();
                }}
              >
                {column.title}
                <Edge column={at} widths={widths} />
              </span>
            ))}
          </div>
        </div>
        <div class="room" role="rowgroup" style={{ height: `${shown}px` }}>
          <div role="presentation" style={{ transform: `translateY(${offset}px)` }}>
            {lines.map((line) => (
              <div
                key={line}
                class={`line ${line === props.selected ? "selected" : ""} ${props.lineClass?.(line) ?? ""}`}
                role="row"
                aria-rowindex={line + 2}
                style={{ gridTemplateColumns: widths.template, height: `${lineHeight}px` }}
                onClick={() => props.onLine?.(line)}
              >
                {props.cells(line).map((cell, i) => (
                  <span role="cell" key={i} class={props.columns[i]?.isNumber ? "number" : ""}>
                    {cell}
                  </span>
                ))}
              </div>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}
