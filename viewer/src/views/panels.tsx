/** Below the timeline: what is selected, and the events in view as a table. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { countText, shareText, timeText, valueText } from "../base/units";
import type { Attribute, Place } from "../data/recording";
import type { Area } from "../engine/draw";
import { type NameTotals, rowTotals, totalsByName } from "../engine/selection";
import { categoryInk, THEMES } from "../engine/theme";
import { fitSpan } from "../engine/view";
import { List } from "./list";
import type { Model } from "./model";

const MOST_NAMES = 200;

function Swatch({ model, name }: { model: Model; name: number }) {
  const { head, names } = model.recording;
  const category = head.categories[names.categories[name] ?? -1];
  const ink = categoryInk(category, THEMES[model.theme.value]);
  return <span class="swatch" style={{ background: ink.css }} title={category?.name ?? ""} />;
}

function NameTable({ model, title, totals, of }: {
  model: Model;
  title: string;
  totals: readonly NameTotals[];
  /** The time that shares are of; 0: the times may lie in each other, so there are no shares. */
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

/** Splits an area's rows by what they hold and sums each by name. */
function groupsOf(model: Model, area: Area) {
  const { head, names } = model.recording;
  const of = (wanted: (kind: string) => boolean): NameTotals[] => {
    const rows = model.rowsOfArea(area).filter((row) => wanted(head.rows[row]?.kind ?? ""));
    const events = rows.flatMap((row) => model.eventsOf(row) ?? []);
    return totalsByName(events, area.span, names.texts.length);
  };
  const states = of((kind) => kind === "state");
  const isIdle = (one: NameTotals): boolean =>
    head.categories[names.categories[one.name] ?? -1]?.kind === "idle";
  return {
    busy: states.filter((one) => !isIdle(one)),
    idle: states.filter(isIdle),
    work: of((kind) => kind === "stream"),
    ranges: of((kind) => kind === "range" || kind === "phase" || kind === "op"),
    calls: of((kind) => kind === "api" || kind === "os"),
  };
}

/** One line that follows the pointer: running totals make it quick however much is selected. */
function Sums({ model }: { model: Model }) {
  void model.arrived.value;
  const { head } = model.recording;
  const area = model.area.value ?? model.settled.value;
  const rows = totalsOfRows(model, area);
  const count = rows.reduce((sum, row) => sum + row.count, 0);
  return (
    <p class="sums" data-testid="selection-sums">
      <b>{timeText(area.span.end - area.span.start)}</b> · {rows.length} rows · {countText(count)} events
      {rows
        .filter(({ row }) => head.rows[row]?.kind === "state")
        .map(({ row, busy_ns, share }) => (
          <span key={row} data-row={head.rows[row]?.id} data-busy-ns={busy_ns}>
            {" · "}
            {plainText(model.labelOf(row))}: <b>{shareText(share)}</b> busy ({timeText(busy_ns)})
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

function totalsOfRows(model: Model, area: Area) {
  const { head } = model.recording;
  return model.rowsOfArea(area).flatMap((row) => {
    const events = model.eventsOf(row);
    const kind = head.rows[row]?.kind;
    return events && kind !== "counter" ? [{ row, ...rowTotals(events, area.span) }] : [];
  });
}

function RowTable({ model, area }: { model: Model; area: Area }) {
  const rows = totalsOfRows(model, area).filter((row) => row.count > 0);
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
              <td class="number">{countText(row.count)}</td>
              <td class="number">{timeText(row.busy_ns)}</td>
              <td class="number">{shareText(row.share)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Selection({ model }: { model: Model }) {
  const arrived = model.arrived.value;
  const area = model.settled.value;
  const layout = model.layout.value;
  const groups = useMemo(() => groupsOf(model, area), [model, area, arrived, layout]);
  const length = area.span.end - area.span.start;
  const { head } = model.recording;
  const states = model.rowsOfArea(area).filter((row) => head.rows[row]?.kind === "state").length;
  const ofDevices = length * Math.max(1, states);
  return (
    <div class="columns">
      <NameTable model={model} title="Idle time by cause" totals={groups.idle} of={ofDevices} />
      <NameTable model={model} title="Busy time by category" totals={groups.busy} of={ofDevices} />
      <NameTable model={model} title="Device work by name" totals={groups.work} of={ofDevices} />
      <NameTable model={model} title="Ranges" totals={groups.ranges} of={0} />
      <NameTable model={model} title="Calls" totals={groups.calls} of={0} />
      <RowTable model={model} area={area} />
    </div>
  );
}

function EventTable({ model }: { model: Model }) {
  const stretches = model.stretches.value;
  const before: number[] = [];
  let count = 0;
  for (const { first, last } of stretches) {
    before.push(count);
    count += last - first;
  }
  const placeOf = (line: number): Place => {
    let at = before.length - 1;
    let low = 0;
    while (low < at) {
      const middle = (low + at + 1) >>> 1;
      if ((before[middle] ?? 0) <= line) low = middle;
      else at = middle - 1;
    }
    const stretch = stretches[at];
    return stretch ? { row: stretch.row, event: stretch.first + line - (before[at] ?? 0) } : { row: 0, event: 0 };
  };
  const start = model.recording.head.start_ns;
  const selected = model.selected.value;
  return (
    <List
      count={count}
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
        const place = placeOf(line);
        return selected && place.row === selected.row && place.event === selected.event ? "selected" : "";
      }}
      cells={(line) => {
        const place = placeOf(line);
        const span = model.spanOf(place);
        if (!span) return [];
        return [
          <button type="button" class="plain" key="n" onClick={() => model.select(place, true)}>
            {plainText(model.nameOf(place)).slice(0, 300)}
          </button>,
          plainText(model.labelOf(place.row)),
          timeText(span.start - start),
          timeText(span.end - span.start),
          model.recording.idOf(place),
        ];
      }}
      onLine={(line) => model.select(placeOf(line), true)}
    />
  );
}

function useAttributes(model: Model, place: Place): readonly Attribute[] {
  const [found, setFound] = useState<readonly Attribute[]>([]);
  const events = model.eventsOf(place.row);
  const table = model.tableOf(place);
  const row = events?.row?.[place.event];
  useEffect(() => {
    setFound([]);
    let isStale = false;
    if (table === null || row === undefined) return;
    model.recording.attributes(table, row).then(
      (attributes) => !isStale && setFound(attributes),
      () => undefined,
    );
    return () => {
      isStale = true;
    };
  }, [model, table, row]);
  return found;
}

function Details({ model, place }: { model: Model; place: Place }) {
  const attributes = useAttributes(model, place);
  const span = model.spanOf(place);
  const events = model.eventsOf(place.row);
  if (!span || !events) return null;
  const { head, names } = model.recording;
  const name = events.name[place.event];
  const category = head.categories[names.categories[name] ?? -1];
  const links = model.linksOf(place);
  const around = model.rangesAround(place);
  return (
    <div class="details">
      <h3>
        <Swatch model={model} name={name} /> {plainText(model.nameOf(place)).slice(0, 2000)}
      </h3>
      <dl>
        <dt>Duration</dt>
        <dd>{timeText(span.end - span.start)} <span class="faint">({countText(span.end - span.start)} ns)</span></dd>
        <dt>Start</dt>
        <dd>{timeText(span.start - head.start_ns)} <span class="faint">({countText(span.start)} ns)</span></dd>
        <dt>Row</dt>
        <dd>{plainText(model.labelOf(place.row))}</dd>
        {category && <><dt>Category</dt><dd>{category.name}{category.meaning && `: ${category.meaning}`}</dd></>}
        <dt>Event</dt>
        <dd>{model.recording.idOf(place)}</dd>
        {around.length > 0 && (
          <>
            <dt>In ranges</dt>
            <dd>
              {around.map((range, i) => (
                <span key={i}>
                  {i > 0 && " › "}
                  <button type="button" class="link" onClick={() => model.select(range, true)}>
                    {plainText(model.nameOf(range)).slice(0, 80)}
                  </button>
                </span>
              ))}
            </dd>
          </>
        )}
        {links.slice(0, 12).map((link, i) => {
          const other = model.spanOf(link.place);
          const wait = other && (link.isCause ? span.start - other.start : other.start - span.start);
          return (
            <>
              <dt key={`t${i}`}>{link.isCause ? link.text : "caused"}</dt>
              <dd key={`d${i}`}>
                <button type="button" class="link" onClick={() => model.select(link.place, true)}>
                  {plainText(model.nameOf(link.place)).slice(0, 120)}
                </button>
                {wait !== null && <span class="faint"> {timeText(Math.abs(wait))} {wait >= 0 === link.isCause ? "earlier" : "later"}</span>}
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
        <button type="button" onClick={() => model.show(fitSpan(span, model.limits))}>Fit (F)</button>
        <button type="button" onClick={() => { model.area.value = { span, rows: null }; }}>Statistics of this time (R)</button>
        <button type="button" onClick={() => model.light([name])}>Light all of this name</button>
      </p>
    </div>
  );
}

export function Panel({ model }: { model: Model }) {
  const place = model.selected.value;
  const tabs = [
    ["summary", model.area.value ? "Selection" : "In view"],
    ["events", "Events"],
  ] as const;
  return (
    <section class="panel" aria-label="Details">
      <div class="panel-left">
        <div class="tabs" role="tablist">
          {tabs.map(([id, title]) => (
            <button
              type="button"
              role="tab"
              key={id}
              aria-selected={model.tab.value === id}
              onClick={() => { model.tab.value = id; }}
            >
              {title}
            </button>
          ))}
        </div>
        <Sums model={model} />
        <div class="tab-body">
          {model.tab.value === "events" ? <EventTable model={model} /> : <Selection model={model} />}
        </div>
      </div>
      {place && <aside class="panel-right" aria-label="Selected event"><Details model={model} place={place} /></aside>}
    </section>
  );
}
