/** A virtual list: it renders only the visible lines. */

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
  const whole = count * lineHeight;
  const shown = Math.min(whole, MOST_PX);
  const scale = shown > room ? (whole - room) / (shown - room) : 1;
  const first = Math.max(0, Math.floor((top * scale) / lineHeight) - 2);
  const last = Math.min(count, first + Math.ceil(room / lineHeight) + 5);
  const offset = scale === 1 ? first * lineHeight : top - (top * scale - first * lineHeight);
  const lines = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  return (
    <div class="list" style={props.leastWidth ? { minWidth: `${props.leastWidth}em` } : undefined}>
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
          <div class="line head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: props.template }}>
            {props.columns.map((column) => (
              <span role="columnheader" key={column.key} aria-sort={column.sorted} class={column.isNumber ? "number" : ""}>
                {column.title}
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
                style={{ gridTemplateColumns: props.template, height: `${lineHeight}px` }}
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
