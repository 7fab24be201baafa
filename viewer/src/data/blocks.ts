/** The source of packed blocks: the page itself or its server. */

import type { Server } from "./server";

export type PackedBlock = string | Uint8Array;

export interface Blocks {
  /** Resolves when the block has arrived; rejects if it is missing. */
  get(block: number): Promise<PackedBlock>;
  /** The block will not be requested again: its memory can be freed. */
  forget?(block: number): void;
}

export interface PageBlocks extends Blocks {
  /** Takes every block that the browser has parsed so far and removes the elements to free memory. */
  take(): void;
  /** No more blocks will come. */
  end(): void;
}

interface Waiting {
  resolve(packed: PackedBlock): void;
  reject(error: Error): void;
}

export function pageBlocks(page: ParentNode): PageBlocks {
  const found = new Map<number, string>();
  const waiting = new Map<number, Waiting>();
  let ended = false;
  const missing = (block: number): Error => new Error(`Block ${block} is missing: the file is truncated. Copy the file again, or create the report again.`);
  const take = (): void => {
    for (const element of page.querySelectorAll<HTMLElement>("script[data-block]")) {
      const block = Number(element.dataset["block"]);
      found.set(block, element.textContent ?? "");
      element.remove();
      const one = waiting.get(block);
      if (one) {
        waiting.delete(block);
        one.resolve(found.get(block) as string);
      }
    }
  };
  return {
    take,
    end() {
      take();
      ended = true;
      for (const [block, one] of waiting) one.reject(missing(block));
      waiting.clear();
    },
    forget: (block) => found.delete(block),
    get(block) {
      const own = found.get(block);
      if (own !== undefined) return Promise.resolve(own);
      if (ended) return Promise.reject(missing(block));
      return new Promise((resolve, reject) => waiting.set(block, { resolve, reject }));
    },
  };
}

export function serverBlocks(server: Server): Blocks {
  return {
    get: (block) =>
      server.request(`blocks/${block}`, { cache: "force-cache" }, async (answer) => new Uint8Array(await answer.arrayBuffer())),
  };
}
