/** Collects the events for the flame graph of an area. */

import type { Span } from "../base/span";
import { endOf, type Events } from "../data/events";
import type { RowKind, RowSpec } from "../data/head";
import type { Area } from "../engine/draw";
import { flameOfArea, type Launched, type ThreadEvents, UNKNOWN } from "./area-flame";
import type { Flame } from "./flame";
import type { Model } from "./model";

/** A graph of more events takes too long to build interactively. */
export const MOST_EVENTS = 3_000_000;

const LAUNCH = "launch";
/** Rows about all streams of a GPU. */
const WHOLE: ReadonlySet<RowKind> = new Set(["state", "step", "phase"]);
const AROUND = ["python_frame", "range", "op", "api_call"];

interface Chosen {
  readonly streams: readonly number[];
  /** Rows of CPU threads by thread, enclosing rows first. */
  readonly threads: readonly { readonly label: string; readonly rows: readonly number[] }[];
}

/** Returns the flame graph of an area, or null if the area has too many events. */
export async function areaFlame(model: Model, area: Area, isMerged: boolean): Promise<Flame | null> {
  const { answers, names } = model.recording;
  const { streams, threads } = chosenRows(model, area);
  const work = await answers.events(streams, area.span, MOST_EVENTS);
  if (!work) return null;
  const span = await launchSpan(model, work, area.span);
  const host = await answers.events(threads.flatMap((one) => one.rows), span, MOST_EVENTS);
  if (!host) return null;
  let at = 0;
  const lanes = threads.map(({ label, rows }) => ({ label, rows: host.slice(at, (at += rows.length)) }));
  const calls = callsByRow(model, threads, lanes);
  const launched = work.flatMap((events) => launchedBy(events, calls, area.span));
  return flameOfArea(lanes, launched, area.span, (name) => names.texts[name] ?? "", isMerged);
}

/**
 * Returns the rows of an area: whole threads and, for rows about a whole GPU, all its streams. An area without
 * threads has those of the processes of its streams.
 */
function chosenRows(model: Model, area: Area): Chosen {
  const { rows } = model.recording.head;
  const isIn = (place: number): boolean => area.rows === null || area.rows.has(place);
  const inArea = rows.filter((_, place) => isIn(place));
  const ofRow = (place: number, key: "device" | "process"): number | null =>
    rows[place]?.[key] ?? rows[model.tree.parent[place] ?? -1]?.[key] ?? null;
  const devices = new Set(rows.flatMap((row, place) => (WHOLE.has(row.kind) && isIn(place) ? [ofRow(place, "device")] : [])));
  const streams = rows.flatMap((row, place) =>
    row.kind === "stream" && (isIn(place) || devices.has(row.device ?? null)) ? [place] : [],
  );
  const isHost = (row: RowSpec): boolean => rankOf(model, row) >= 0 && row.thread != null;
  const own = new Set(inArea.filter(isHost).map((row) => row.thread));
  const byThread = new Map<number, number[]>();
  const users = new Set(streams.map((place) => ofRow(place, "process")));
  const isChosen = (row: RowSpec, place: number): boolean =>
    area.rows === null || (own.size > 0 ? own.has(row.thread) : users.has(ofRow(place, "process")));
  rows.forEach((row, place) => {
    if (!isHost(row) || !isChosen(row, place)) return;
    const list = byThread.get(row.thread as number) ?? [];
    list.push(place);
    byThread.set(row.thread as number, list);
  });
  const threads = [...byThread.values()].map((list) => ({
    label: model.labelApart(model.tree.parent[list[0] ?? 0] ?? -1),
    rows: list.sort((a, b) => rankOf(model, rows[a]) - rankOf(model, rows[b]) || a - b),
  }));
  return { streams, threads };
}

function rankOf(model: Model, row: RowSpec | undefined): number {
  return AROUND.indexOf(model.recording.head.tables[row?.table ?? -1] ?? "");
}

/** Extends a span to the launches of its GPU work. A stream runs in launch order. */
async function launchSpan(model: Model, work: readonly Events[], span: Span): Promise<Span> {
  const { answers, head } = model.recording;
  const link = head.links.find((one) => one.name === LAUNCH);
  if (!link) return span;
  const ends = work.flatMap((events) => {
    const rows = [...(events.links.get(LAUNCH) ?? [])].filter((row) => row >= 0);
    return rows.length ? [rows[0] as number, rows[rows.length - 1] as number] : [];
  });
  const found = await Promise.all(ends.map((row) => answers.find(`${link.table}:${row}`)));
  const calls = found.flatMap((one) => one ?? []);
  return {
    start: Math.min(span.start, ...calls.map((one) => one.start)),
    end: Math.max(span.end, ...calls.map((one) => one.end)),
  };
}

/** The thread and the start of each call, by its row in the table. */
interface Calls {
  readonly thread: Int32Array;
  readonly time: Float64Array;
}

function callsByRow(model: Model, threads: Chosen["threads"], lanes: readonly ThreadEvents[]): Calls {
  const { head } = model.recording;
  const table = head.tables.indexOf(head.links.find((one) => one.name === LAUNCH)?.table ?? "");
  const found = lanes.flatMap(({ rows }, thread) =>
    rows.flatMap((events, lane) => {
      const isOfCalls = head.rows[threads[thread]?.rows[lane] ?? -1]?.table === table;
      return isOfCalls && events.row ? [{ thread, events, row: events.row }] : [];
    }),
  );
  const most = found.reduce((last, { row }) => row.reduce((a, b) => Math.max(a, b), last), -1);
  const calls = { thread: new Int32Array(most + 1).fill(UNKNOWN), time: new Float64Array(most + 1) };
  for (const { thread, events, row } of found) {
    for (let i = 0; i < events.count; i++) {
      calls.thread[row[i]] = thread;
      calls.time[row[i]] = events.start[i];
    }
  }
  return calls;
}

function launchedBy(events: Events, calls: Calls, area: Span): Launched[] {
  const ends = events.links.get(LAUNCH);
  return Array.from({ length: events.count }, (_, i) => {
    const call = ends?.[i] ?? -1;
    const ns = Math.min(endOf(events, i), area.end) - Math.max(events.start[i], area.start);
    return { thread: calls.thread[call] ?? UNKNOWN, time: calls.time[call] ?? 0, name: events.name[i], ns };
  });
}
