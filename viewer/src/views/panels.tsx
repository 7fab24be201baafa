/** The panel below the timeline: statistics, the table of events, details of the selected event. */

import { useRef, useState } from "preact/hooks";
import { plainText, searchPattern } from "../base/text";
import { boundsText, clockText, countText, plural, shareText, timeText, valueText } from "../base/units";
import { busyOf, countOf, type Found } from "../data/answers";
import type { Attribute } from "../data/recording";
import type { NameTotals } from "../data/selection";
import type { Area } from "../engine/draw";
import { fitSpan, isSameSpan } from "../engine/view";
import { useAnswer } from "./answer";
import { areaFlame, MOST_EVENTS } from "./area-source";
import { type Spread, spreadsByName } from "./event-lines";
import { DERIVED, EventTable, eventSet } from "./event-table";
import { type Flame, rootOf } from "./flame";
import { FlameGraph } from "./flame-graph";
import { type GroupMeans, groupMeans, MeansTable } from "./means";
import type { Model, Tab } from "./model";
import { fewestText, NamesList, type Part, type Whole } from "./names-list";
import { sampleFlame, sampleKinds } from "./sample-flame";
import { Swatch } from "./swatch";

const MOST_NAMES = 200;

function NameTable({ model, title, totals, whole }: {
  model: Model;
  title: string;
  totals: readonly NameTotals[];
  /** What the shares are of; absent: no shares, because the events may nest. */
  whole?: Whole;
}) {
  const of = whole?.ns ?? 0;
  if (!totals.length) return null;
  return (
    <div class="names">
      <h3>{title}</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">Count</th>
            <th scope="col" class="number">Time</th>
            {whole && <th scope="col" class="number" title={whole.doc}>{whole.title}</th>}
          </tr>
        </thead>
        <tbody>
          {totals.slice(0, MOST_NAMES).map((one) => ({ ...one, most: one.most_ns ?? one.ns })).map(({ most, name, ns, ...one }) => (
            <tr key={name}>
              <td>
                <button
                  type="button"
                  class="plain"
                  title={plainText(model.fullNameOf({ name })).slice(0, 1000)}
                  onClick={() => model.light([name])}
                >
                  <Swatch model={model} name={name} /> {plainText(model.nameOf({ name })).slice(0, 300)}
                </button>
              </td>
              <td class="number">{fewestText(one)}</td>
              <td class="number">{boundsText(ns, most, timeText)}</td>
              {whole && <td class="number">{boundsText(ns / of, most / of, shareText)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {totals.length > MOST_NAMES && <p class="faint">and {countText(totals.length - MOST_NAMES)} more</p>}
    </div>
  );
}

/** Returns what shares are of: the length of an area, times the number of GPUs. */
function wholeOf(model: Model, { span }: Area, devices = 1): Whole {
  const isArea = model.area.value !== null;
  const length = span.end - span.start;
  const [ns, times] = [length * Math.max(1, devices), devices > 1 ? `${devices} x ` : ""];
  return {
    ns,
    title: devices > 1 ? `Of ${devices} GPUs` : isArea ? "Of area" : "Of view",
    doc: `Share of ${times}${timeText(length)}: the ${isArea ? "selected area" : "current view"}${devices > 1 ? ` of ${devices} GPUs` : ""}`,
  };
}

interface Groups {
  readonly area: Area;
  /** The number of rows with busy and idle time: one per GPU. */
  readonly devices: number;
  readonly busy: readonly NameTotals[];
  readonly idle: readonly NameTotals[];
  readonly work: readonly NameTotals[];
  readonly ranges: readonly NameTotals[];
  readonly phases: readonly NameTotals[];
  readonly calls: readonly NameTotals[];
  readonly host: readonly NameTotals[];
  /** Of sampled values. */
  readonly means: readonly GroupMeans[];
}

/** Groups an area's rows by kind and sums each group by name. */
async function groupsOf(model: Model, area: Area): Promise<Groups> {
  const { head, names, answers } = model.recording;
  const shown = model.rowsOfArea(area);
  const rowsOf = (wanted: (kind: string) => boolean): number[] =>
    shown.filter((row) => wanted(head.rows[row]?.kind ?? ""));
  const of = (wanted: (kind: string) => boolean): Promise<readonly NameTotals[]> =>
    answers.names(rowsOf(wanted), area.span);
  const [means, states, work, ranges, phases, calls] = await Promise.all([
    groupMeans(model, area),
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
  const devices = rowsOf((kind) => kind === "state").length;
  return { area, devices, busy, idle, work, ranges, phases, calls, host, means };
}

/** Returns the group of a state row, whose label names the GPU. */
function deviceOf(model: Model, row: number): number {
  const above = model.tree.parent[row] ?? -1;
  return above >= 0 ? above : row;
}

/** Stands for a number that is not known, or not yet; the tooltip has the reason. */
export function Pending({ model }: { model: Model }) {
  return <span class="pending" title={whyPending(model)}>…</span>;
}

function whyPending(model: Model): string {
  if (model.isServerGone.value) return STOPPED;
  return model.isComplete.value ? "Being computed." : "The events are still being read.";
}

const STOPPED = "Not known: the server has stopped.";
const OMITTED = "Some short events were omitted from the file: the number lies between these bounds.";

/** The line of totals that follows the pointer. Running totals keep it fast for any selection. */
function Sums({ model }: { model: Model }) {
  const { head } = model.recording;
  const area = model.area.value;
  const span = area?.span ?? model.view.value;
  const length = span.end - span.start;
  const { rows } = model.sums.value;
  const isPending = model.isSumming.value;
  const recorded = rows.filter(({ row }) => !DERIVED.has(head.rows[row]?.kind ?? "group"));
  const sum = (side: "low" | "high"): number => recorded.reduce((all, row) => all + countOf(row)[side], 0);
  const what = area ? "selection" : "view";
  return (
    <p class="sums" data-testid="selection-sums" aria-busy={isPending}>
      {area ? "Selection" : "View"} <b>{timeText(length)}</b> ·{" "}
      {isPending ? <Pending model={model} /> : <>{plural(rows.length, "row")} · {countBounds(sum("low"), sum("high"), "event")}</>}
      {rows
        .filter(({ row }) => head.rows[row]?.kind === "state")
        .map((one) => {
          const device = plainText(model.labelOf(deviceOf(model, one.row)));
          const busy = busyOf(one);
          if (isPending) return <span key={one.row}> · {device}: <Pending model={model} /> busy</span>;
          return (
            <span
              key={one.row}
              data-row={head.rows[one.row]?.id}
              data-busy-ns={busy.low === busy.high ? busy.low : undefined}
              title={busy.low === busy.high ? undefined : OMITTED}
            >
              {" · "}
              {device}: <b>{boundsText(busy.low / length, busy.high / length, shareText)}</b> of the {what} busy (
              {boundsText(busy.low, busy.high, timeText)})
            </span>
          );
        })}
      {area && (
        <>
          <button type="button" onClick={() => model.show(area.span)}>Zoom</button>
          <button type="button" onClick={() => { model.area.value = null; }}>Clear</button>
        </>
      )}
    </p>
  );
}

function countBounds(low: number, high: number, noun: string): string {
  return low === high ? plural(low, noun) : `${boundsText(low, high, countText)} ${noun}s`;
}

/** Says why the numbers of a tab are missing or lower bounds; nothing if they are complete. */
function Caveat({ model }: { model: Model }) {
  if (model.isServerGone.value) return model.isSumming.value ? <p class="empty">{STOPPED}</p> : null;
  const isCut = model.sums.value.rows.some((row) => countOf(row).high > row.last - row.first);
  if (!isCut) return null;
  return <p class="empty">Some short events of this time range were omitted from the file. ≥ marks numbers of the remaining events only.</p>;
}

function RowTable({ model }: { model: Model }) {
  const { rows: all, area } = model.sums.value;
  const rows = all.filter((row) => countOf(row).high > 0);
  const whole = wholeOf(model, area);
  return (
    <div class="names">
      <h3>Rows</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">Row</th>
            <th scope="col" class="number">Events</th>
            <th scope="col" class="number">Time</th>
            <th scope="col" class="number" title={whole.doc}>{whole.title}</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_NAMES).map((row) => {
            const [count, busy] = [countOf(row), busyOf(row)];
            return (
              <tr key={row.row}>
                <td>{plainText(model.labelOf(row.row))}</td>
                <td class="number">{boundsText(count.low, count.high, countText)}</td>
                <td class="number">{boundsText(busy.low, busy.high, timeText)}</td>
                <td class="number">{boundsText(busy.low / whole.ns, busy.high / whole.ns, shareText)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const NO_SPREADS: ReadonlyMap<number, Spread> = new Map();
const KINDS_OF_TAB: Partial<Record<Tab, readonly string[]>> = {
  kernels: ["stream"],
  ranges: ["range", "op", "api", "os"],
  idle: ["state"],
};

/** Returns the spread of the durations by name for the tabs with lists of names; empty if there are too many events. */
async function spreadsOf(model: Model, area: Area, tab: Tab): Promise<ReadonlyMap<number, Spread>> {
  const kinds = KINDS_OF_TAB[tab];
  // Of the events left in a thinned file, the median would be wrong.
  if (!kinds || model.recording.head.thinned || !model.isComplete.peek()) return NO_SPREADS;
  const { head, names } = model.recording;
  const rows = model.rowsOfArea(area).filter((row) => kinds.includes(head.rows[row]?.kind ?? ""));
  const set = await eventSet(model, area, rows);
  return set ? spreadsByName(set, names.texts.length) : NO_SPREADS;
}

const NO_PARTS: readonly Part[] = [];
const MOST_PARTS = 8;

/** Returns the totals of each rank, GPU, or process for the tabs with lists of names, if there are a few of them. */
async function partsOf(model: Model, area: Area, tab: Tab): Promise<readonly Part[]> {
  const kinds = KINDS_OF_TAB[tab];
  if (!kinds || !model.isComplete.peek()) return NO_PARTS;
  const { head, answers } = model.recording;
  const rowsOf = new Map<number, number[]>();
  for (const row of model.rowsOfArea(area)) {
    if (!kinds.includes(head.rows[row]?.kind ?? "")) continue;
    const top = model.topOf(row);
    rowsOf.set(top, [...(rowsOf.get(top) ?? []), row]);
  }
  if (rowsOf.size < 2 || rowsOf.size > MOST_PARTS) return NO_PARTS;
  const short = (top: number): string => plainText(head.rows[top]?.label ?? "").split(" · ")[0] ?? "";
  return Promise.all(
    [...rowsOf].map(async ([top, rows]) => {
      const totals = await answers.names(rows, area.span);
      return { label: short(top), totals: new Map(totals.map((one) => [one.name, one])) };
    }),
  );
}

/** The tabs with sums by name. Numbers of an earlier view are hidden until those of this one arrive. */
function Selection({ model, tab }: { model: Model; tab: Tab }) {
  const arrived = model.arrived.value;
  const area = model.settled.value;
  const layout = model.rowsShown.value;
  // Sums over a part of the events would be wrong, and would slow down the loading of the rest.
  const ask = (): Promise<Groups | null> =>
    model.isComplete.peek() ? groupsOf(model, area) : Promise.resolve(null);
  const { value: groups, isPending } = useAnswer<Groups | null>(null, ask, [model, area, arrived, layout]);
  const { value: spreads, isPending: isSpreading } = useAnswer(NO_SPREADS, () => spreadsOf(model, area, tab), [model, area, arrived, layout, tab]);
  const { value: parts, isPending: isParting } = useAnswer(NO_PARTS, () => partsOf(model, area, tab), [model, area, arrived, layout, tab]);
  if (!groups || (isPending && model.isServerGone.value)) return <p class="empty">{whyPending(model)}</p>;
  const whole = wholeOf(model, groups.area, groups.devices);
  const now = model.area.value?.span ?? model.view.value;
  const isOld = isPending || isSpreading || isParting || model.isSumming.value || !isSameSpan(groups.area.span, now);
  return (
    <div class={isOld ? "tab-inside pending" : "tab-inside"} aria-busy={isOld}>
      <Caveat model={model} />
      {tab === "kernels" && <NamesList model={model} title="GPU operations by name" totals={groups.work} whole={whole} spreads={spreads} parts={parts} />}
      {tab === "ranges" && <NamesList model={model} title="Ranges, operators, and calls" totals={groups.host} spreads={spreads} parts={parts} />}
      {tab === "idle" && <NamesList model={model} title="Idle time by cause" totals={groups.idle} whole={whole} spreads={spreads} parts={parts} />}
      {tab === "summary" && (
        <div class="columns">
          <NameTable model={model} title="Idle time by cause" totals={groups.idle} whole={whole} />
          <NameTable model={model} title="Busy time by category" totals={groups.busy} whole={whole} />
          <NameTable model={model} title="GPU operations by name" totals={groups.work} whole={whole} />
          <NameTable model={model} title="Ranges" totals={groups.ranges} />
          <NameTable model={model} title="Ranges on the GPU" totals={groups.phases} />
          <NameTable model={model} title="API and OS calls" totals={groups.calls} />
          {groups.means.map((one) => <MeansTable key={one.group} model={model} {...one} />)}
          <RowTable model={model} />
        </div>
      )}
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
  const [samples, setSamples] = useState("");
  const kinds = sampleKinds(model);
  const ask = (): Promise<Flame | null> => {
    if (!model.isComplete.peek()) return Promise.resolve(NO_FLAME);
    return samples ? sampleFlame(model, area, samples) : areaFlame(model, area, isMerged);
  };
  const { value: flame, isPending } = useAnswer<Flame | null>(NO_FLAME, ask, [model, area, arrived, isMerged, samples]);
  const source = kinds.length > 0 && (
    <label>
      Of{" "}
      <select id="flame-of" value={samples} onChange={(event) => setSamples(event.currentTarget.value)}>
        <option value="">Ranges and launches</option>
        {kinds.map(({ key, label }) => <option key={key} value={key}>{label}</option>)}
      </select>
    </label>
  );
  if (isPending && (model.isServerGone.value || flame === NO_FLAME)) return <p class="empty">{whyPending(model)}</p>;
  if (!flame) return <p class="empty">More than {countText(MOST_EVENTS)} events in this time range. Select a shorter one.</p>;
  if (!flame.root.children.length) {
    return <p class="empty">{source} No {samples ? "samples" : "ranges, operators, or API calls"} in this time range.</p>;
  }
  const isOld = isPending || !isSameSpan(area.span, model.area.value?.span ?? model.view.value);
  return (
    <div class={isOld ? "tab-inside pending" : "tab-inside"} aria-busy={isOld}>
      <FlameGraph model={model} flame={flame} title="Selected time range" pattern={searchPattern(model.query.value)}>
        {source}
        {!samples && (
          <label>
            <input type="checkbox" checked={isMerged} onChange={(event) => setMerged(event.currentTarget.checked)} />{" "}
            Merge numbered names (step_*)
          </label>
        )}
      </FlameGraph>
    </div>
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

/** Returns the attributes of an event; null if they have not arrived. */
function useAttributes(model: Model, { table, tableRow }: Found): readonly Attribute[] | null {
  const ask = (): Promise<readonly Attribute[]> =>
    table === null || tableRow === null ? Promise.resolve(NO_ATTRIBUTES) : model.recording.attributes(table, tableRow);
  const { value, isPending } = useAnswer(NO_ATTRIBUTES, ask, [model, table, tableRow, model.arrived.value]);
  return isPending ? null : value;
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
  const links = model.linksOfSelected();
  const clock = model.clock.value;
  const around = model.around.isPending.value ? [] : model.around.value;
  const step = model.stepOfSelected.isPending.value ? null : model.stepOfSelected.value;
  const forward = model.forwardPath.isPending.value ? [] : model.forwardPath.value;
  return (
    <div class="details">
      <h3>
        <Swatch model={model} name={name} /> {plainText(model.nameOf(event)).slice(0, 2000)}
      </h3>
      <dl>
        {model.fullNameOf(event) !== model.nameOf(event) && (
          <><dt>Full name</dt><dd class="full-name">{plainText(model.fullNameOf(event)).slice(0, 2000)}</dd></>
        )}
        <dt>Duration</dt>
        <dd>{timeText(end - start)} <span class="faint">({countText(end - start)} ns)</span></dd>
        <dt>Start</dt>
        <dd>{clockText(start - clock.origin)} <span class="faint">from {clock.name}{clock.device && ` on ${clock.device}`}</span></dd>
        <dt>Row</dt>
        <dd>{plainText(model.labelOf(event.row))}</dd>
        {category && <><dt>Category</dt><dd>{category.name}{category.meaning && `: ${category.meaning}`}</dd></>}
        <dt>Event</dt>
        <dd>{event.id}</dd>
        <Path model={model} title="Step" path={step && step.id !== event.id ? [step] : []} />
        <Path model={model} title="Backward of" path={forward} />
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
        {model.isServerGone.value && (attributes === null || model.linked.isPending.value) && (
          <><dt>More</dt><dd><Pending model={model} /></dd></>
        )}
        {(attributes ?? NO_ATTRIBUTES).filter((one) => one.value !== null).map((one) => (
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
          {tab === "events" && (model.isServerGone.value && model.stretches.isPending.value ? <p class="empty">{STOPPED}</p> : <EventTable model={model} />)}
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
