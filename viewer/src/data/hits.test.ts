import { describe, expect, it } from "vitest";
import { randomRow } from "../../dev/events";
import type { Head } from "./head";
import { binnedHits, hitsAmong } from "./hits";
import { LocalAnswers } from "./local-answers";

const LIT = Uint8Array.of(1, 0, 1, 0, 0);

describe("highlighted events", () => {
  it.each([1, 7, 40, 333])("have the sums of each of %i bins, as found event by event", (bins) => {
    for (let seed = 1; seed <= 12; seed++) {
      const { events, start, duration, name } = randomRow(seed, 300);
      const whole = (start[299] as number) + (duration[299] as number);
      const span = { start: whole * 0.07 * (seed % 4), end: whole * (1 - 0.05 * (seed % 3)) };
      const binNs = (span.end - span.start) / bins;
      const expected = new Map<number, { ns: number; name: number }>();
      start.forEach((time, i) => {
        const [ns, own] = [duration[i] as number, name[i] as number];
        if (!LIT[own] || time < span.start || time >= span.end || ns >= 1.5 * binNs) return;
        const bin = Math.min(bins - 1, Math.floor((time - span.start) / binNs));
        const before = expected.get(bin);
        expected.set(bin, { ns: (before?.ns ?? 0) + ns, name: before?.name ?? own });
      });
      const found = binnedHits(hitsAmong(events, LIT), span, bins);
      expect([...found.bin as number[]]).toEqual([...expected.keys()]);
      [...expected.values()].forEach((one, k) => {
        expect(found.ns[k]).toBeCloseTo(Math.min(binNs, one.ns), 3);
        expect(found.name[k]).toBe(one.name);
      });
    }
  });

  it("are counted over rows in the order of a walk", async () => {
    const rows = [randomRow(3, 80), randomRow(4, 50), randomRow(3, 80)]; // the first and last tie
    const head = { rows: rows.map((_, at) => ({ id: `${at}`, kind: "stream" })), links: [], tables: [] };
    const answers = new LocalAnswers({
      head: head as unknown as Head,
      names: { texts: ["", "", "", "", ""], categories: [0, 0, 0, 0, 0] },
      rows: rows.map(({ events }) => ({ events })),
      rowOf: new Map(),
    });
    const highlight = { lit: LIT, rows: [0, 1, 2] };
    let from = { row: -1, event: -1, time: -1 };
    const total = rows.reduce((sum, { name }) => sum + name.filter((one) => LIT[one]).length, 0);
    for (let place = 0; place < total; place++) {
      const next = await answers.match({ ...highlight, from, direction: 1 });
      if (!next) throw new Error("the walk ended early");
      from = { row: next.row, event: next.event, time: next.start };
      expect(await answers.tally({ ...highlight, from })).toEqual({ before: place, total });
    }
    expect(await answers.match({ ...highlight, from, direction: 1 })).toBeNull();
  });
});
