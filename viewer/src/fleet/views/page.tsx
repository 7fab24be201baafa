/** The maps of a fleet: every rank and step, and who waits for whom. */

import { useState } from "preact/hooks";
import { countText, plural, timeText } from "../../base/units";
import { fromMedian, limitOf, type Values } from "../plots/cells";
import { MOST_ROWS } from "../plots/layout";
import type { Data } from "../data/document";
import { Legend, Measures } from "./legend";
import { HeatMap } from "./map";

const MEASURES = [
  { id: "own", name: "time by itself: the step less its exposed waits" },
  { id: "exposed", name: "exposed wait for other ranks" },
  { id: "step", name: "length of the step" },
] as const;
type Measure = (typeof MEASURES)[number]["id"];

interface Shown {
  readonly data: Data;
  readonly theme: "light" | "dark";
  readonly room: number;
}

export function Page(shown: Shown) {
  const { head, exposed, between } = shown.data;
  const hasWaits = exposed.some((value) => value > 0);
  return (
    <>
      {head.ranks.length > 1 && <Grid {...shown} hasWaits={hasWaits} />}
      {hasWaits && between.length > 1 && <Between {...shown} />}
    </>
  );
}

function Grid({ data, theme, room, hasWaits }: Shown & { readonly hasWaits: boolean }) {
  const { head, step, exposed, wait, caused } = data;
  const [measure, setMeasure] = useState<Measure>(hasWaits ? "own" : "step");
  const columns = head.steps.length;
  const own = step.map((length, place) => length - (exposed[place] as number));
  const values: Values = { rows: head.ranks.length, columns, at: { own, exposed, step }[measure] };
  const differences = fromMedian(values);
  const limit = limitOf(differences, head.least_ns);
  const rowName = (row: number): string => {
    const rank = head.ranks[row];
    return rank?.host ? `${rank.name}, ${rank.host}` : (rank?.name ?? "");
  };
  const text = (values: Float64Array, place: number): string => timeText(Math.round(values[place] as number));
  const say = (place: number): readonly string[] => {
    const apart = differences.at[place] as number;
    const than = `${timeText(Math.round(Math.abs(apart)))} ${apart < 0 ? "less" : "more"} than the median of ranks`;
    return [
      `${rowName(Math.floor(place / columns))}, ${head.steps[place % columns]}: ${text(values.at, place)}, ${than}`,
      `Step ${text(step, place)}, by itself ${text(own, place)}, waits ${text(wait, place)}, exposed ${text(exposed, place)}; all others wait ${text(caused, place)} for it`,
    ];
  };
  const perRow = Math.ceil(head.ranks.length / MOST_ROWS);
  return (
    <section id="grid">
      <h2>Ranks and steps</h2>
      <Measures
        measures={MEASURES.filter(({ id }) => hasWaits || id === "step")}
        chosen={measure}
        choose={setMeasure}
        than="against the median of all ranks in the same step"
      />
      <Legend theme={theme} low={`${timeText(limit)} less`} high={`${timeText(limit)} more`} isOneSided={false} />
      <HeatMap
        id="ranks"
        label={`Map of ${plural(head.ranks.length, "rank")} and ${plural(columns, "column")}.`}
        values={differences}
        limit={limit}
        theme={theme}
        room={room}
        rowName={rowName}
        columnName={(column) => head.steps[column] ?? ""}
        marked={new Map(head.ranks.flatMap((rank, row) => (rank.late ? [[row, rowName(row)] as const] : [])))}
        say={say}
      />
      <p class="wl-facts">
        A row is {perRow > 1 ? `${perRow} ranks of ${countText(head.ranks.length)}, shown by the one farthest from the median` : "a rank"}, a column is a step.
        {head.ranks.some((rank) => rank.late) && " \u25c0 marks ranks that others wait for."} Blank: no such step on that rank.
      </p>
    </section>
  );
}

function Between({ data, theme, room }: Shown) {
  const { head, between } = data;
  const names = head.blocks_of_ranks;
  const count = names.length;
  const limit = between.reduce((most, value) => Math.max(most, value), 0) || 1;
  const isOfRanks = count === head.ranks.length;
  const each = isOfRanks ? "" : "a rank of ";
  const say = (place: number): readonly string[] => {
    const time = timeText(Math.round(between[place] as number));
    return [`${each}${names[place % count]} waits ${time} per step where ${each}${names[Math.floor(place / count)]} arrives last`];
  };
  return (
    <section id="between">
      <h2>Who waits for whom</h2>
      <Legend theme={theme} low="none" high={`${timeText(limit)} per step`} isOneSided={true} />
      <HeatMap
        id="waits"
        label={`Map of waits between ${count} ${isOfRanks ? "ranks" : "groups of ranks"}.`}
        values={{ rows: count, columns: count, at: between }}
        limit={limit}
        theme={theme}
        room={room}
        rowName={(row) => names[row] ?? ""}
        columnName={(column) => names[column] ?? ""}
        marked={new Map()}
        say={say}
      />
      <p class="wl-facts">
        Row: {isOfRanks ? "the rank" : "the ranks"} that arrived last in a collective. Column: who waited. Exposed waits, mean per step{isOfRanks ? "" : " and rank"}.
        {!isOfRanks && ` ${countText(head.ranks.length)} ranks are in ${count} groups: machines, or neighbors where these are too many. Waits within a group are on the diagonal.`}
      </p>
    </section>
  );
}
