/** The panel below the timeline: statistics, the table of events, details of the selected event. */

import { useEffect, useRef, useState } from "preact/hooks";
import { plainText, searchPattern } from "../base/text";
import { countText, shareText, timeText, valueText } from "../base/units";
import type { Found } from "../data/answers";
import type { RowKind } from "../data/head";
import type { Attribute } from "../data/recording";
import type { NameTotals } from "../data/selection";
import type { Area } from "../engine/draw";
import { fitSpan } from "../engine/view";
import { useAnswer, useLines } from "./answer";
import { areaFlame, MOST_EVENTS } from "./area-source";
import { type Flame, rootOf } from "./flame";
import { FlameGraph } from "./flame-graph";
import { List } from "./list";
import type { Model, Tab } from "./model";
import { NamesList } from "./names-list";
import { Swatch } from "./swatch";

const MOST_NAMES = 200;

function NameTable({ model, title, totals, of }: {
  model: Model;
  title: string;
  totals: readonly NameTotals[];
  /** The total for the shares; 0: no shares, because the events may nest. */
  of: number;
}) {
  if (!totals.length) return null;
  const { texts } = model.recording.names;
  return (
    <div class="names">
      <h3>{title}</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">Count</th>
            <th scope="col" class="number">Time</th>
            {of > 0 && <th scope="col" class="number">Share</th>}
          </tr>
        </thead>
        <tbody>
          {totals.slice(0, MOST_NAMES).map(({ name, count, ns }) => (
            <tr key={name}>
              <td>
                <button type="button" class="plain" onClick={() => model.light([name])}>
                  <Swatch model={model} name={name} /> {plainText(texts[name] ?? "").slice(0, 300)}
                </button>
              </td>
              <td class="number">{countText(count)}</td>
              <td class="number">{timeText(ns)}</td>
              {of > 0 && <td class="number">{shareText(ns / of)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {totals.length > MOST_NAMES && <p class="faint">and {totals.length - MOST_NAMES} more</p>}
    </div>
  );
}

interface Groups {
  readonly busy: readonly NameTotals[];
  readonly idle: readonly NameTotals[];
  readonly work: readonly NameTotals[];
  readonly ranges: readonly NameTotals[];
  readonly phases: readonly NameTotals[];
  readonly calls: readonly NameTotals[];
  readonly host: readonly NameTotals[];
}

const NO_GROUPS: Groups = { busy: [], idle: [], work: [], ranges: [], phases: [], calls: [], host: [] };

/** Groups an area's rows by kind and sums each group by name. */
async function groupsOf(model: Model, area: Area): Promise<Groups> {
  const { head, names, answers } = model.recording;
  const of = (wanted: (kind: string) => boolean): Promise<readonly NameTotals[]> => {
    const rows = model.rowsOfArea(area).filter((row) => wanted(head.rows[row]?.kind ?? ""));
    return answers.names(rows, area.span);
  };
  const [states, work, ranges, phases, calls] = await Promise.all([
    of((kind) => kind === "state"),
    of((kind) => kind === "stream"),
    of((kind) => kind === "range" || kind === "op"),
    of((kind) => kind === "phase"), // the same ranges on the GPU
    of((kind) => kind === "api" || kind === "os"),
  ]);
  const isIdle = (one: NameTotals): boolean =>
    head.categories[names.categories[one.name] ?? -1]?.kind === "idle";
  const [busy, idle] = [states.filter((one) => !isIdle(one)), states.filter(isIdle)];
  const host = [...ranges, ...calls].sort((a, b) => b.ns - a.ns);
  return { busy, idle, work, ranges, phases, calls, host };
}

/** Returns the group of a state row, whose label names the GPU. */
function deviceOf(model: Model, row: number): number {
  const above = model.tree.parent[row] ?? -1;
  return above >= 0 ? above : row;
}

/** Rows whose events are derived from those of others, which count already. */
const DERIVED: ReadonlySet<RowKind> = new Set(["state", "step", "phase"]);

/** The line of totals that follows the pointer. Running totals keep it fast for any selection. */
function Sums({ model }: { model: Model }) {
  const { head } = model.recording;
  const area = model.area.value ?? model.settled.value;
  const length = area.span.end - area.span.start;
  const rows = model.sums.value;
  const recorded = rows.filter(({ row }) => !DERIVED.has(head.rows[row]?.kind ?? "group"));
  const count = recorded.reduce((sum, { first, last }) => sum + last - first, 0);
  return (
    <p class="sums" data-testid="selection-sums">
      <b>{timeText(length)}</b> · {rows.length} {rows.length === 1 ? "row" : "rows"} · {countText(count)} {count === 1 ? "event" : "events"}
      {rows
        .filter(({ row }) => head.rows[row]?.kind === "state")
        .map(({ row, busy_ns }) => (
          <span key={row} data-row={head.rows[row]?.id} data-busy-ns={busy_ns}>
            {" · "}
            {plainText(model.labelOf(deviceOf(model, row)))}: <b>{shareText(length > 0 ? busy_ns / length : 0)}</b> busy ({timeText(busy_ns)})
          </span>
        ))}
      {model.area.value && (
        <>
          <button type="button" onClick={() => model.show(area.span)}>Zoom</button>
          <button type="button" onClick={() => { model.area.value = null; }}>Clear</button>
        </>
      )}
    </p>
  );
}

function RowTable({ model, area }: { model: Model; area: Area }) {
  const rows = model.sums.value.filter(({ first, last }) => last > first);
  const length = area.span.end - area.span.start;
  return (
    <div class="names">
      <h3>Rows</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">Row</th>
            <th scope="col" class="number">Events</th>
            <th scope="col" class="number">Time</th>
            <th scope="col" class="number">Share</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_NAMES).map((row) => (
            <tr key={row.row}>
              <td>{plainText(model.labelOf(row.row))}</td>
              <td class="number">{countText(row.last - row.first)}</td>
              <td class="number">{timeText(row.busy_ns)}</td>
              <td class="number">{shareText(length > 0 ? row.busy_ns / length : 0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The tabs with sums by name. */
function Selection({ model, tab }: { model: Model; tab: Tab }) {
  const arrived = model.arrived.value;
  const area = model.settled.value;
  const layout = model.layout.value;
  // Sums over a part of the events would be wrong, and would slow down the loading of the rest.
  const ask = (): Promise<Groups> =>
    model.isComplete.peek() ? groupsOf(model, area) : Promise.resolve(NO_GROUPS);
  const groups = useAnswer(NO_GROUPS, ask, [model, area, arrived, layout]);
  const length = area.span.end - area.span.start;
  const { head } = model.recording;
  const states = model.rowsOfArea(area).filter((row) => head.rows[row]?.kind === "state").length;
  const ofDevices = length * Math.max(1, states);
  if (tab === "kernels") return <NamesList model={model} title="GPU operations by name" totals={groups.work} of={ofDevices} />;
  if (tab === "ranges") return <NamesList model={model} title="Ranges, operators, and calls" totals={groups.host} of={0} />;
  if (tab === "idle") return <NamesList model={model} title="Idle time by cause" totals={groups.idle} of={ofDevices} />;
  return (
    <div class="columns">
      <NameTable model={model} title="Idle time by cause" totals={groups.idle} of={ofDevices} />
      <NameTable model={model} title="Busy time by category" totals={groups.busy} of={ofDevices} />
      <NameTable model={model} title="GPU operations by name" totals={groups.work} of={ofDevices} />
      <NameTable model={model} title="Ranges" totals={groups.ranges} of={0} />
      <NameTable model={model} title="Ranges on the GPU" totals={groups.phases} of={0} />
      <NameTable model={model} title="API and OS calls" totals={groups.calls} of={0} />
      <RowTable model={model} area={area} />
    </div>
  );
}

const NO_FLAME: Flame = { weights: ["CPU time", "GPU time"], root: rootOf([]) };

function AreaFlame({ model }: { model: Model }) {
  const arrived = model.arrived.value;
  const still = useRef(model.settled.peek());
  if (!model.isDragging.value) still.current = model.settled.value; // too slow to follow a drag
  const area = still.current;
  const [isMerged, setMerged] = useState(true);
  const ask = (): Promise<Flame | null> =>
    model.isComplete.peek() ? areaFlame(model, area, isMerged) : Promise.resolve(NO_FLAME);
  const flame = useAnswer<Flame | null>(NO_FLAME, ask, [model, area, arrived, isMerged]);
  if (!flame) return <p class="empty">More than {countText(MOST_EVENTS)} events in this time range. Select a shorter one.</p>;
  if (!flame.root.children.length) return <p class="empty">No ranges, operators, or API calls in this time range.</p>;
  return (
    <FlameGraph model={model} flame={flame} title="Selected time range" pattern={searchPattern(model.query.value)}>
      <label>
        <input type="checkbox" checked={isMerged} onChange={(event) => setMerged(event.currentTarget.checked)} />{" "}
        Merge numbered names (step_*)
      </label>
    </FlameGraph>
  );
}

function EventTable({ model }: { model: Model }) {
  const lines = useLines(model.recording.answers, model.stretches.value);
  const start = model.recording.head.start_ns;
  const selected = model.selected.value;
  return (
    <List
      count={lines.count}
      lineHeight={22}
      label="Events in view"
      template="minmax(10em, 3fr) minmax(8em, 1fr) 9em 8em 9em"
      columns={[
        { key: "name", title: "Name", isNumber: false },
        { key: "row", title: "Row", isNumber: false },
        { key: "start", title: "Start", isNumber: true },
        { key: "time", title: "Duration", isNumber: true },
        { key: "id", title: "Event", isNumber: false },
      ]}
      lineClass={(line) => {
        const event = lines.at(line);
        return selected && event?.row === selected.row && event.event === selected.event ? "selected" : "";
      }}
      cells={(line) => {
        const event = lines.at(line);
        if (!event) return [];
        return [
          <button type="button" class="plain" key="n" onClick={() => model.select(event, true)}>
            {plainText(model.nameOf(event)).slice(0, 300)}
          </button>,
          plainText(model.labelOf(event.row)),
          timeText(event.start - start),
          timeText(event.end - event.start),
          event.id,
        ];
      }}
      onLine={(line) => {
        const event = lines.at(line);
        if (event) model.select(event, true);
      }}
    />
  );
}

const NO_ATTRIBUTES: readonly Attribute[] = [];

/** How a link reads from its cause. */
const EFFECTS: Readonly<Record<string, string>> = {
  launch: "launched",
  blame: "delayed",
  forward: "backward",
  forward_op: "backward",
};

function useAttributes(model: Model, { table, tableRow }: Found): readonly Attribute[] {
  const [found, setFound] = useState(NO_ATTRIBUTES);
  useEffect(() => {
    setFound(NO_ATTRIBUTES);
    let isStale = false;
    if (table === null || tableRow === null) return;
    model.recording.attributes(table, tableRow).then(
      (attributes) => !isStale && setFound(attributes),
      () => undefined,
    );
    return () => {
      isStale = true;
    };
  }, [model, table, tableRow]);
  return found;
}

/** Nested events, outermost first, each a link. */
function Path({ model, title, path }: { model: Model; title: string; path: readonly Found[] }) {
  if (!path.length) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>
        {path.map((event, i) => (
          <span key={i}>
            {i > 0 && " › "}
            <button type="button" class="link" onClick={() => model.select(event, true)}>
              {plainText(model.nameOf(event)).slice(0, 80)}
            </button>
          </span>
        ))}
      </dd>
    </>
  );
}

function Details({ model, event }: { model: Model; event: Found }) {
  const attributes = useAttributes(model, event);
  const { head, names } = model.recording;
  const { name, start, end } = event;
  const category = head.categories[names.categories[name] ?? -1];
  const links = model.linked.value;
  const around = model.around.value;
  const step = model.stepOfSelected.value;
  return (
    <div class="details">
      <h3>
        <Swatch model={model} name={name} /> {plainText(model.nameOf(event)).slice(0, 2000)}
      </h3>
      <dl>
        <dt>Duration</dt>
        <dd>{timeText(end - start)} <span class="faint">({countText(end - start)} ns)</span></dd>
        <dt>Start</dt>
        <dd>{timeText(start - head.start_ns)} <span class="faint">({countText(start)} ns)</span></dd>
        <dt>Row</dt>
        <dd>{plainText(model.labelOf(event.row))}</dd>
        {category && <><dt>Category</dt><dd>{category.name}{category.meaning && `: ${category.meaning}`}</dd></>}
        <dt>Event</dt>
        <dd>{event.id}</dd>
        <Path model={model} title="Step" path={step ? [step] : []} />
        <Path model={model} title="Backward of" path={model.forwardPath.value} />
        <Path model={model} title="Enclosing ranges" path={around} />
        {links.slice(0, 12).map((link, i) => {
          const wait = link.isCause ? start - link.event.start : link.event.start - start;
          return (
            <>
              <dt key={`t${i}`}>{link.isCause ? link.text : (EFFECTS[link.link] ?? "caused")}</dt>
              <dd key={`d${i}`}>
                <button type="button" class="link" onClick={() => model.select(link.event, true)}>
                  {plainText(model.nameOf(link.event)).slice(0, 120)}
                </button>
                <span class="faint"> {timeText(Math.abs(wait))} {wait >= 0 === link.isCause ? "earlier" : "later"}</span>
              </dd>
            </>
          );
        })}
        {attributes.filter((one) => one.value !== null).map((one) => (
          <>
            <dt key={one.name} title={one.doc}>{one.name}</dt>
            <dd key={`${one.name} value`}>{plainText(valueText(one.value, one.unit)).slice(0, 500)}</dd>
          </>
        ))}
      </dl>
      <p>
        <button type="button" onClick={() => model.show(fitSpan(event, model.limits))}>Zoom to event (F)</button>
        <button type="button" onClick={() => { model.area.value = { span: { start, end }, rows: null }; }}>Select its time range (R)</button>
        <button type="button" onClick={() => model.light([name])}>Highlight all with this name</button>
      </p>
    </div>
  );
}

const TABS: readonly (readonly [Tab, string])[] = [
  ["summary", "Summary"],
  ["events", "Events"],
  ["kernels", "GPU operations"],
  ["ranges", "Ranges and calls"],
  ["idle", "Idle causes"],
  ["flame", "Flame graph"],
];

function Tabs({ model }: { model: Model }) {
  const now = TABS.findIndex(([id]) => id === model.tab.value);
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    const next = TABS[(now + by + TABS.length) % TABS.length];
    if (next) model.tab.value = next[0];
    document.getElementById(`warpline-tab-${next?.[0]}`)?.focus();
    event.preventDefault();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Statistics" onKeyDown={onKeyDown}>
      {TABS.map(([id, title]) => (
        <button
          type="button"
          role="tab"
          key={id}
          id={`warpline-tab-${id}`}
          aria-selected={model.tab.value === id}
          aria-controls="warpline-tab-body"
          tabIndex={model.tab.value === id ? 0 : -1}
          onClick={() => { model.tab.value = id; }}
        >
          {title}
        </button>
      ))}
      <span class="faint">{model.area.value ? "Selected area" : "Current view. Drag to select an area."}</span>
    </div>
  );
}

export function Panel({ model }: { model: Model }) {
  const event = model.selected.value;
  const tab = model.tab.value;
  return (
    <section class="panel" aria-label="Details" style={{ flexBasis: `${model.panelPart.value * 100}%` }}>
      <div class="panel-left">
        <Tabs model={model} />
        <Sums model={model} />
        <div class="tab-body" id="warpline-tab-body" role="tabpanel" aria-labelledby={`warpline-tab-${tab}`}>
          {tab === "events" && <EventTable model={model} />}
          {tab === "flame" && <AreaFlame model={model} />}
          {tab !== "events" && tab !== "flame" && <Selection model={model} tab={tab} />}
        </div>
      </div>
      {event && <aside class="panel-right" aria-label="Selected event"><Details model={model} event={event} /></aside>}
    </section>
  );
}

const LEAST_PART = 0.12;
const MOST_PART = 0.8;

/** The bar between timeline and statistics. Mouse and arrow keys move it. */
export function Divider({ model }: { model: Model }) {
  const move = (part: number): void => {
    model.panelPart.value = Math.max(LEAST_PART, Math.min(MOST_PART, part));
  };
  return (
    <div
      class="divider"
      role="separator"
      aria-orientation="horizontal"
      aria-label="Height of the statistics"
      aria-valuemin={Math.round(LEAST_PART * 100)}
      aria-valuemax={Math.round(MOST_PART * 100)}
      aria-valuenow={Math.round(model.panelPart.value * 100)}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => {
        const box = event.currentTarget.parentElement?.getBoundingClientRect();
        if (!box || !event.currentTarget.hasPointerCapture(event.pointerId)) return;
        move((box.bottom - event.clientY) / box.height);
      }}
      onKeyDown={(event) => {
        const by = event.key === "ArrowUp" ? 0.05 : event.key === "ArrowDown" ? -0.05 : 0;
        if (by === 0) return;
        move(model.panelPart.value + by);
        event.preventDefault();
      }}
    />
  );
}
