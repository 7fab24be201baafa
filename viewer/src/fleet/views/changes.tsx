/** The map of two jobs: how each rank changed, by machine. */

import { useState } from "preact/hooks";
import { countText, plural, shareText, timeText } from "../../base/units";
import { type Compared, type Time, TIMES } from "../data/compared";
import { limitOf, type Values } from "../plots/cells";
import { differences, machineOf, type Placed, placesOf } from "../plots/places";
import { Legend, Measures } from "./legend";
import { HeatMap } from "./map";

const MEASURES: readonly { readonly id: Time; readonly name: string }[] = [
  { id: "own", name: "time by itself: the step less its exposed waits" },
  { id: "exposed_wait", name: "exposed wait for other ranks" },
  { id: "step", name: "length of the step" },
  { id: "caused", name: "how long all others wait for it" },
];
const WORDS: Readonly<Record<Time, string>> = {
  own: "by itself",
  step: "step",
  exposed_wait: "exposed wait",
  wait: "waits",
  caused: "all others wait for it",
};

interface Shown {
  readonly data: Compared;
  readonly theme: "light" | "dark";
  readonly room: number;
}

export function Changes({ data, theme, room }: Shown) {
  const { head, before, after } = data;
  const placed = placesOf(head.ranks);
  const known = (time: Time): boolean => differences(placed, before[time], after[time]).some((value) => !Number.isNaN(value));
  const hasWaits = known("own");
  const [measure, setMeasure] = useState<Time>(hasWaits ? "own" : "step");
  if (head.ranks.length < 2 || !known("step")) return null;
  const values: Values = { rows: placed.rows.length, columns: placed.columns, at: differences(placed, before[measure], after[measure]) };
  const limit = limitOf(values, head.least_ns);
  const both = head.ranks.filter(({ change }) => change === "both");
  const beyond = both.filter(({ is_significant }) => is_significant);
  return (
    <section id="changes">
      <h2>How each rank changed</h2>
      <Measures measures={MEASURES.filter(({ id }) => hasWaits || id === "step")} chosen={measure} choose={setMeasure} than={`${head.unit}, after less before`} />
      <Legend theme={theme} low={`${timeText(limit)} less`} high={`${timeText(limit)} more`} isOneSided={false} />
      <HeatMap
        id="ranks"
        label={`Map of ${plural(head.ranks.length, "rank")} on ${plural(placed.rows.length, "row")}.`}
        values={values}
        limit={limit}
        theme={theme}
        room={room}
        rowName={(row) => placed.rows[row] ?? ""}
        columnName={(column) => String(column)}
        marked={marksOf(data, placed)}
        say={(place) => said(data, placed.rank[place] as number, measure)}
        farthest="the largest difference"
        absent={(place) => absent(data, placed.rank[place] ?? -1)}
      />
      <p class="wl-facts">
        {placed.hasMachines ? "A row is a machine, a cell one of its ranks, by number." : "A cell is a rank, by number; machines are not known."}
        {` By themselves, ${countText(beyond.length)} of ${plural(both.length, "rank")} on both sides differ beyond chance.`}
        {head.ranks.some((rank) => rank.is_marked) &&
          ` \u25c0 marks ranks that changed differently from most: by more than the tolerance (${shareText(head.tolerance)} of the step) apart from the median.`}{" "}
        Blank: on one side only, or no rank.
      </p>
    </section>
  );
}

/** Returns what is written beside the rows of marked ranks. */
function marksOf({ head, before, after }: Compared, { rank, columns }: Placed): ReadonlyMap<number, string> {
  const rows = new Map<number, number[]>();
  rank.forEach((place, at) => {
    const row = Math.floor(at / columns);
    if (head.ranks[place]?.is_marked) rows.set(row, [...(rows.get(row) ?? []), place]);
  });
  const number = (place: number): string => (head.ranks[place]?.name ?? "").replace(/^rank /, "");
  const text = (own: readonly number[]): string =>
    own.length > 1 ? own.map(number).join(", ") : own.map((place) => `${number(place)}: ${signed((after.own[place] as number) - (before.own[place] as number))}`).join();
  return new Map([...rows].map(([row, own]) => [row, text(own)]));
}

export function signed(ns: number): string {
  return `${ns < 0 ? "-" : "+"}${timeText(Math.round(Math.abs(ns)))}`;
}

function said({ head, before, after }: Compared, place: number, measure: Time): readonly string[] {
  const rank = head.ranks[place];
  if (!rank) return [];
  const both = (time: Time): string => `${WORDS[time]} ${timeText(before[time][place] as number)} to ${timeText(after[time][place] as number)}`;
  const machine = machineOf(rank);
  const delta = signed((after[measure][place] as number) - (before[measure][place] as number));
  const doubt = measure === "own" && rank.may_be_chance ? ", may be chance" : "";
  const known = TIMES.filter((time) => time !== measure && !Number.isNaN(before[time][place]) && !Number.isNaN(after[time][place]));
  return [`${rank.name}${machine && `, ${machine}`}: ${both(measure)}, ${delta}${doubt}`, known.map(both).join("; ")];
}

function absent({ head }: Compared, place: number): string {
  const rank = head.ranks[place];
  if (!rank) return "No rank";
  const machine = machineOf(rank);
  return `${rank.name}${machine && `, ${machine}`}: ${{ new: "only after", gone: "only before", both: "not known on both sides" }[rank.change]}`;
}
