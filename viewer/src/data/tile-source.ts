/** The source of tiles and answers: the server of the page. */

export interface TileSource {
  /** Returns a tile of some rows, which are ascending. */
  tile(level: number, index: number, rows: readonly number[], signal: AbortSignal): Promise<Uint8Array>;
  /** Returns the parsed answer to a query. */
  ask(name: string, question: object): Promise<unknown>;
  /** Returns all events of rows that overlap a span; empty if there are too many. */
  events(question: object): Promise<Uint8Array>;
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

async function answered(request: Promise<Response>): Promise<Response> {
  let answer: Response;
  try {
    answer = await request;
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Error("No response from the server. Check that warpline view is still running.");
  }
  if (!answer.ok) throw new Error(`The server returned status ${answer.status}.`);
  return answer;
}

export function serverTiles(): TileSource {
  const post = (name: string, question: object): Promise<Response> =>
    answered(fetch(`ask/${name}`, { method: "POST", body: JSON.stringify(question) }));
  return {
    async tile(level, index, rows, signal) {
      const path = `tiles/${level}/${index}?rows=${rangesText(rows)}`;
      return new Uint8Array(await (await answered(fetch(path, { signal }))).arrayBuffer());
    },
    async ask(name, question) {
      return (await post(name, question)).json();
    },
    async events(question) {
      return new Uint8Array(await (await post("events", question)).arrayBuffer());
    },
    async state() {
      return (await answered(fetch("state"))).json();
    },
  };
}
