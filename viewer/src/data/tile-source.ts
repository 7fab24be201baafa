/** The source of tiles and answers: the server of the page. */

import type { Server } from "./server";

export interface TileSource {
  /** Returns a tile of some rows, which are ascending. */
  tile(level: number, index: number, rows: readonly number[], signal: AbortSignal): Promise<Uint8Array>;
  /** Returns the parsed answer to a query. */
  ask(name: string, question: object): Promise<unknown>;
  /** Returns all events of rows that overlap a span; empty if there are too many. */
  events(question: object): Promise<Uint8Array>;
  /** Returns the text of the page as it is now: more of it may be known than when it was loaded. */
  page(): Promise<string>;
  /** Returns the state of the server. */
  state(): Promise<unknown>;
}

/** Formats ascending numbers for the server: 1,4-6. */
export function rangesText(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < numbers.length; ) {
    let j = i;
    while (j + 1 < numbers.length && numbers[j + 1] === (numbers[j] as number) + 1) j++;
    parts.push(i === j ? `${numbers[i]}` : `${numbers[i]}-${numbers[j]}`);
    i = j + 1;
  }
  return parts.join(",");
}

export function serverTiles(server: Server): TileSource {
  const bytes = async (answer: Response): Promise<Uint8Array> => new Uint8Array(await answer.arrayBuffer());
  const json = (answer: Response): Promise<unknown> => answer.json();
  const post = (question: object): RequestInit => ({ method: "POST", body: JSON.stringify(question) });
  return {
    tile: (level, index, rows, signal) =>
      server.request(`tiles/${level}/${index}?rows=${rangesText(rows)}`, { signal }, bytes),
    ask: (name, question) => server.request(`ask/${name}`, post(question), json),
    events: (question) => server.request("ask/events", post(question), bytes),
    page: () => server.request("./", { cache: "no-store" }, (answer) => answer.text()),
    state: () => server.request("state", {}, json),
  };
}
