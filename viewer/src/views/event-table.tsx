/** The table of events: sorted, filtered, with the spread of their durations. */

import { useMemo, useState } from "preact/hooks";
import { plainText } from "../base/text";
import { countText, timeText } from "../base/units";
import type { Answers } from "../data/answers";
import type { RowKind } from "../data/head";
import { matchingNames, shortName } from "../data/names";
import type { Area } from "../engine/draw";
import { useAnswer, useIds, useLines } from "./answer";
import {
  countOfRows,
  type EventColumn,
  type EventLine,
  EventSet,
  filtered,
  readFilter,
  sortedPlaces,
  type Spread,
  spreadOfPlaces,
} from "./event-lines";
import { List, type ListColumn } from "./list";
import type { Model } from "./model";

/** A server sends at most this many events at a time. */
const MOST_OF_SERVER = 400_000;
const MOST_SORTED = 1_000_000;

/** Returns the events of rows that overlap the time range of an area; null if there are too many. */
export async function eventSet(model: Model, area: Area, rows: readonly number[]): Promise<EventSet | null> {
  const { answers, head } = model.recording;
  const most = head.tiles ? MOST_OF_SERVER : Number.POSITIVE_INFINITY;
  const sums = (await answers.sums(rows, area.span)).filter(({ first, last }) => last > first);
  if (sums.reduce((count, { first, last }) => count + last - first, 0) > most) return null;
  const events = await answers.events(sums.map((one) => one.row), area.span, most);
  return events && EventSet.of(sums, events);
}

/** Rows whose events are derived from those of others, which count already. */
export const DERIVED: ReadonlySet<RowKind> = new Set(["state", "step", "phase", "limit"]);

function spreadText({ count, min, median, max }: Spread, derived: number): string {
  const all = derived > 0 ? `${countText(count - derived)} recorded and ${countText(derived)} derived` : countText(count);
  const events = `${all} ${count === 1 ? "event" : "events"}`;
  return `${events} · min ${timeText(min)} · median ${timeText(median)} · max ${timeText(max)}`;
}

interface Order {
  readonly column: EventColumn;
  readonly isFalling: boolean;
}

/** Returns the rank of each name by its text, or by its category and then its text. */
function ranksOf(model: Model, column: EventColumn): Uint32Array {
  const { names, head } = model.recording;
  const texts = names.texts.map((_, name) => {
    const own = shortName(names, name);
    return column === "category" ? `${head.categories[names.categories[name] ?? -1]?.name ?? ""}\n${own}` : own;
  });
  const order = texts.map((_, name) => name).sort((a, b) => ((texts[a] as string) < (texts[b] as string) ? -1 : 1));
  const ranks = new Uint32Array(texts.length);
  order.forEach((name, rank) => {
    ranks[name] = rank;
  });
  return ranks;
}

function chosenPlaces(model: Model, set: EventSet, typed: string): Uint32Array {
  const filter = readFilter(typed);
  const { pattern } = filter;
  if (!pattern) return filtered(set, filter, () => true, () => false);
  const { names, head } = model.recording;
  const lit = matchingNames(names, pattern);
  names.categories.forEach((category, name) => {
    if (pattern.test(head.categories[category]?.name ?? "")) lit[name] = 1;
  });
  const rows = new Set(set.stretches.map((one) => one.row).filter((row) => pattern.test(model.labelOf(row))));
  return filtered(set, filter, (name) => lit[name] === 1, (row) => rows.has(row));
}

const COLUMNS: readonly (readonly [EventColumn, string, boolean])[] = [
  ["name", "Name", false],
  ["category", "Category", false],
  ["row", "Row", false],
  ["start", "Start", true], // on the clock of the page
  ["time", "Duration", true],
];

/** Returns the lines of the table in display order. */
function useEventLines(answers: Answers, set: EventSet | null, places: Uint32Array | null, stretches: Model["stretches"]) {
  const plain = useLines(answers, stretches.value);
  if (!set || !places) {
    return {
      count: plain.count,
      at: (line: number): EventLine | null => {
        const event = plain.at(line);
        return event && { ...event, length: event.end - event.start };
      },
    };
  }
  return { count: places.length, at: (line: number): EventLine | null => set.at(places[line] ?? -1) };
}

export function EventTable({ model }: { model: Model }) {
  const [order, setOrder] = useState<Order | null>(null);
  const [typed, setTyped] = useState("");
  const { answers, head, names } = model.recording;
  const stretches = model.stretches.value;
  const area = model.settled.value;
  const { value: set } = useAnswer<EventSet | null>(
    null,
    () => (model.isComplete.peek() ? eventSet(model, area, stretches.map((one) => one.row)) : Promise.resolve(null)),
    [model, stretches],
  );
  const chosen = useMemo(() => set && chosenPlaces(model, set, typed), [model, set, typed]);
  const canSort = chosen !== null && chosen.length <= MOST_SORTED;
  const places = useMemo(() => {
    if (!set || !chosen || !order || !canSort) return chosen;
    const ranks = ranksOf(model, order.column);
    return sortedPlaces(set, chosen, order.column, order.isFalling, (name) => ranks[name] ?? 0);
  }, [model, set, chosen, order, canSort]);
  const spread = useMemo(() => (set && chosen ? spreadOfPlaces(set, chosen) : null), [set, chosen]);
  const derived = useMemo(() => {
    const isDerived = (row: number): boolean => DERIVED.has(head.rows[row]?.kind ?? "group");
    return set && chosen ? countOfRows(set, chosen, isDerived) : 0;
  }, [head, set, chosen]);
  const lines = useEventLines(answers, set, places, model.stretches);
  const idOf = useIds(answers);
  const selected = model.selected.value;
  const open = (line: EventLine): void => {
    void answers.event(line.row, line.event).then((event) => model.select(event, true));
  };
  const sort = (column: EventColumn, isNumber: boolean): void => {
    setOrder({ column, isFalling: order?.column === column ? !order.isFalling : isNumber && column !== "start" });
  };
  const columns: ListColumn[] = COLUMNS.map(([column, title, isNumber]) => {
    const isSorted = canSort && order?.column === column;
    const from = column === "start" ? `, from ${model.clock.value.name}` : "";
    const mark = isSorted ? (order.isFalling ? " ▾" : " ▴") : "";
    return {
      key: title,
      isNumber,
      sorted: isSorted ? (order.isFalling ? "descending" : "ascending") : undefined,
      title: (
        <button type="button" class="plain" disabled={!canSort} onClick={() => sort(column, isNumber)}>
          {title}
          {from}
          {mark}
        </button>
      ),
    };
  });
  columns.push({ key: "Event", title: "Event", isNumber: false });
  return (
    <>
      <p class="result-bar">
        <input
          type="search"
          placeholder="Filter: text, /regex/, >10us, <1ms"
          title="Text or /regex/ in the name, category, or row; >10us and <1ms limit the duration"
          aria-label="Filter events"
          value={typed}
          disabled={!set}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <span class="faint" role="status" title="Durations of whole events, including those that extend beyond the time range">
          {set
            ? `${spread ? spreadText(spread, derived) : "No events."}${head.thinned ? " · of the events in this file" : ""}`
            : `Select a time range of at most ${countText(MOST_OF_SERVER)} events to filter and sort.`}
          {set && !canSort && ` Sorting needs at most ${countText(MOST_SORTED)} events.`}
        </span>
      </p>
      <List
        count={lines.count}
        lineHeight={22}
        label="Events in view"
        template="minmax(10em, 3fr) minmax(6em, 1fr) minmax(8em, 1.5fr) 15em 7em 9em"
        columns={columns}
        lineClass={(line) => {
          const event = lines.at(line);
          return selected && event?.row === selected.row && event.event === selected.event ? "selected" : "";
        }}
        cells={(line) => {
          const event = lines.at(line);
          if (!event) return [<span class="pending" key="n">…</span>];
          return [
            <button
              type="button"
              class="plain"
              key="n"
              title={plainText(model.fullNameOf(event)).slice(0, 1000)}
              onClick={() => open(event)}
            >
              {plainText(model.nameOf(event)).slice(0, 300)}
            </button>,
            head.categories[names.categories[event.name] ?? -1]?.name ?? "",
            plainText(model.labelOf(event.row)),
            model.momentText(event.start),
            timeText(event.length),
            idOf(event.row, event.event),
          ];
        }}
        onLine={(line) => {
          const event = lines.at(line);
          if (event) open(event);
        }}
      />
    </>
  );
}
