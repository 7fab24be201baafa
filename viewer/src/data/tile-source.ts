/** Where tiles and answers come from: the server that sent the page. */

export interface TileSource {
  /** Returns a tile of some rows, ascending. */
  tile(level: number, index: number, rows: readonly number[], signal: AbortSignal): Promise<Uint8Array>;
  /** Returns the answer to a question, as it was parsed. */
  ask(name: string, question: object): Promise<unknown>;
  /** Returns all events of rows that touch a span; empty where they are too many. */
  events(question: object): Promise<Uint8Array>;
  /** Returns what the server says of itself. */
  state(): Promise<unknown>;
}

/** Writes ascending numbers as the server reads them: 1,4-6. */
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
    throw new Error("The server does not answer: is warpline view still running?");
  }
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
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
