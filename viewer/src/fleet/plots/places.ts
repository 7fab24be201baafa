/** Where the ranks of two jobs are on a map: a row per machine, or several neighbors where machines are unknown. */

const WIDE = 32; // ranks in a row without machines

export interface Placed {
  /** Names of the rows. */
  readonly rows: readonly string[];
  readonly columns: number;
  readonly hasMachines: boolean;
  /** By row, then column: the place of a rank in the list; -1 for none. */
  readonly rank: Int32Array;
}

interface Rank {
  readonly name: string;
  readonly hosts: readonly [string | null, string | null];
}

/** Returns the places of ranks, in the order of their list. */
export function placesOf(ranks: readonly Rank[]): Placed {
  const hasMachines = ranks.every(({ hosts }) => hosts.some((host) => host !== null));
  const rows = hasMachines ? byMachine(ranks) : inOrder(ranks);
  const columns = Math.max(...[...rows.values()].map((own) => own.length), 0);
  const rank = new Int32Array(rows.size * columns).fill(-1);
  [...rows.values()].forEach((own, row) => rank.set(own, row * columns));
  return { rows: [...rows.keys()], columns, hasMachines, rank };
}

/** Returns the machine of a rank, both if it has moved: "n0 to n1". */
export function machineOf({ hosts }: Rank): string {
  return [...new Set(hosts.filter((host) => host !== null))].join(" to ");
}

function byMachine(ranks: readonly Rank[]): Map<string, number[]> {
  const rows = new Map<string, number[]>();
  ranks.forEach((rank, place) => {
    const name = machineOf(rank);
    const own = rows.get(name);
    if (own) own.push(place);
    else rows.set(name, [place]);
  });
  return rows;
}

function inOrder(ranks: readonly Rank[]): Map<string, number[]> {
  const rows = new Map<string, number[]>();
  for (let first = 0; first < ranks.length; first += WIDE) {
    const own = ranks.slice(first, first + WIDE);
    const [low, high] = [own[0]?.name ?? "", own[own.length - 1]?.name ?? ""];
    const name = low === high ? low : `${low} to ${high.replace(/^rank /, "")}`;
    rows.set(rows.has(name) ? `${name} (${first})` : name, own.map((_, place) => first + place));
  }
  return rows;
}

/** Returns the difference of each place on the map; NaN without a rank, and where a side lacks it. */
export function differences({ rank }: Placed, before: Float64Array, after: Float64Array): Float64Array {
  return Float64Array.from(rank, (place) => (place < 0 ? Number.NaN : (after[place] as number) - (before[place] as number)));
}
