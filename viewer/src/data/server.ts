/** The server of the page: its requests, and whether it still answers. */

/** The error of a request that has no answer because the server has stopped. */
export class StoppedError extends Error {
  constructor() {
    super("The server has stopped.");
  }
}

type Fetch = (path: string, init?: RequestInit) => Promise<Response>;

export class Server {
  /** Called when the server has stopped, and when it answers again. */
  onChange: (isGone: boolean) => void = () => undefined;
  private isGone = false;
  private probing: Promise<boolean> | null = null;

  constructor(private readonly fetch: Fetch = (path, init) => window.fetch(path, init)) {}

  /**
   * Returns what `read` makes of the response. Rejects with an AbortError if the request was aborted, otherwise with
   * a StoppedError or with the status. While the server is gone, nothing is sent: `probe` notices its return.
   */
  async request<T>(path: string, init: RequestInit, read: (answer: Response) => Promise<T>): Promise<T> {
    if (this.isGone) throw new StoppedError();
    let status = 0;
    try {
      const answer = await this.fetch(path, init);
      if (answer.ok) return await read(answer);
      ({ status } = answer);
    } catch (error) {
      if (init.signal?.aborted || (error as Error).name === "AbortError") throw error;
    }
    // A browser gives the same error for a closing page and a broken connection, so ask once more.
    if (!(await this.probe())) throw new StoppedError();
    throw new Error(status ? `The server returned status ${status}.` : "The connection to the server was interrupted.");
  }

  /** Returns whether the server still serves this page. */
  probe(): Promise<boolean> {
    this.probing ??= this.fetch("./", { method: "HEAD", cache: "no-store" })
      .then(({ ok }) => ok, () => false)
      .then((isHere) => {
        this.probing = null;
        if (this.isGone === isHere) {
          this.isGone = !isHere;
          this.onChange(this.isGone);
        }
        return isHere;
      });
    return this.probing;
  }
}
