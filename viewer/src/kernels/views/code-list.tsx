/** A virtual list of code lines with a heat column. Only the lines in view are elements, so functions may be long. */

import { useEffect, useRef, useState } from "preact/hooks";

export interface CodeLine {
  /** What names the line: its number, or an offset. */
  readonly number: string;
  readonly text: string;
  readonly isComment?: boolean;
  readonly value: number | null;
  readonly valueText: string;
}

export interface CodeListProps {
  readonly label: string;
  readonly id: string;
  readonly heading: string;
  readonly metric: string;
  readonly count: number;
  readonly line: (at: number) => CodeLine;
  /** The value with the deepest color. */
  readonly most: number;
  /** The line that is chosen here or that follows from what is chosen beside; -1 without one. */
  readonly at: number;
  /** The line in view at first, while none is chosen; -1 for the first. */
  readonly start: number;
  readonly isLit: (at: number) => boolean;
  readonly isFound: (at: number) => boolean;
  readonly onChoose: (at: number) => void;
}

export const LINE_PX = 19;
const MARGIN_LINES = 12;
const PAGE_LINES = 20;

/** Returns the line that a key leads to, or null for other keys. */
export function lineOfKey(key: string, at: number, count: number): number | null {
  const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_LINES, PageUp: -PAGE_LINES, Home: -count, End: count };
  const step = steps[key];
  if (step === undefined || count === 0) return null;
  return Math.max(0, Math.min(count - 1, Math.max(at, step > 0 && at < 0 ? -1 : 0) + step));
}

/** Returns the opacity of a value's color; small ones stay visible. */
export function heatOf(value: number | null, most: number): number {
  if (!value || most <= 0) return 0;
  return 0.1 + 0.75 * Math.sqrt(Math.min(1, value / most));
}

export function CodeList(props: CodeListProps) {
  const box = useRef<HTMLDivElement>(null);
  const isNew = useRef(true);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(400);
  const { count, at } = props;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setRoom(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    const wanted = at < 0 && isNew.current ? props.start : at;
    isNew.current = false;
    if (!element || wanted < 0) return;
    const y = wanted * LINE_PX;
    const isVisible = y >= element.scrollTop && y + 2 * LINE_PX <= element.scrollTop + element.clientHeight;
    if (!isVisible) element.scrollTop = y - element.clientHeight / 3;
  }, [at, count]);
  const first = Math.max(0, Math.floor(top / LINE_PX) - MARGIN_LINES);
  const last = Math.min(count, Math.ceil((top + room) / LINE_PX) + MARGIN_LINES);
  const lines = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = lineOfKey(event.key, at, count);
    if (next === null) return;
    event.preventDefault();
    props.onChoose(next);
  };
  return (
    <div
      class="code"
      id={props.id}
      ref={box}
      role="grid"
      tabIndex={0}
      aria-label={props.label}
      aria-rowcount={count + 1}
      aria-activedescendant={at >= first && at < last ? `${props.id}-${at}` : undefined}
      onScroll={() => setTop(box.current?.scrollTop ?? 0)}
      onKeyDown={onKeyDown}
    >
      <div role="rowgroup" class="code-head">
        <div role="row" aria-rowindex={1} class="code-line">
          <span role="columnheader" class="code-number">{props.heading}</span>
          <span role="columnheader" class="code-value">{props.metric}</span>
          <span role="columnheader" class="code-text">Code</span>
        </div>
      </div>
      <div role="rowgroup" style={{ height: `${count * LINE_PX}px` }}>
        <div role="presentation" style={{ transform: `translateY(${first * LINE_PX}px)` }}>
          {lines.map((line) => <LineView key={line} props={props} at={line} />)}
        </div>
      </div>
    </div>
  );
}

function LineView({ props, at }: { props: CodeListProps; at: number }) {
  const line = props.line(at);
  const classes = ["code-line", at === props.at && "chosen", props.isLit(at) && "lit", props.isFound(at) && "found"];
  return (
    <div role="row" id={`${props.id}-${at}`} aria-rowindex={at + 2} aria-selected={at === props.at} class={classes.filter(Boolean).join(" ")} data-at={at} onClick={() => props.onChoose(at)}>
      <span role="gridcell" class="code-number">{line.number}</span>
      <span role="gridcell" class="code-value" data-value={line.value ?? undefined}>
        <span class="heat" style={{ opacity: heatOf(line.value, props.most).toFixed(3) }} aria-hidden="true" />
        <span class="heat-text">{line.valueText}</span>
      </span>
      <span role="gridcell" class={`code-text${line.isComment ? " faint" : ""}`}>{line.text}</span>
    </div>
  );
}
