/** Answers from the server of a tiled recording. */

import type { Span } from "../base/span";
import type { Answers, Found, Highlight, Linked, Position, RowHits, RowSums, Tally, Walk } from "./answers";
import type { RowMeans } from "./counter-means";
import type { Events } from "./events";
import type { NameTotals } from "./selection";
import { decodeCut, type TileBase } from "./tile";
import type { TileSource } from "./tile-source";

export class RemoteAnswers implements Answers {
  /** `base` is only known after the names have arrived. */
  constructor(
    private readonly source: TileSource,
    private readonly base: () => TileBase,
  ) {}

  event(row: number, event: number): Promise<Found | null> {
    return this.ask("event", { row, event });
  }

  stretch(row: number, first: number, last: number): Promise<readonly Found[]> {
    return this.ask("stretch", { row, first, last });
  }

  find(id: string): Promise<Found | null> {
    return this.ask("find", { id });
  }

  at(row: number, time: number, reach: number): Promise<Found | null> {
    return this.ask("at", { row, time, reach });
  }

  latest(rows: readonly number[], time: number): Promise<readonly (Found | null)[]> {
    return this.ask("latest", { rows, time });
  }

  links({ row, event }: Found): Promise<readonly Linked[]> {
    return this.ask("links", { row, event });
  }

  match({ lit, ...walk }: Walk): Promise<Found | null> {
    return this.ask("match", { ...walk, lit: bitsText(lit) });
  }

  tally({ lit, ...position }: Position): Promise<Tally> {
    return this.ask("tally", { ...position, lit: bitsText(lit) });
  }

  hits({ lit, rows }: Highlight, { start, end }: Span, bins: number): Promise<readonly RowHits[]> {
    return this.ask("hits", { lit: bitsText(lit), rows, start, end, bins });
  }

  longest(rows: readonly number[], { start, end }: Span, lit: Uint8Array): Promise<Found | null> {
    return this.ask("longest", { rows, start, end, lit: bitsText(lit) });
  }

  sums(rows: readonly number[], { start, end }: Span): Promise<readonly RowSums[]> {
    return this.ask("sums", { rows, start, end });
  }

  names(rows: readonly number[], { start, end }: Span): Promise<readonly NameTotals[]> {
    return this.ask("names", { rows, start, end });
  }

  means(rows: readonly number[], { start, end }: Span): Promise<readonly RowMeans[]> {
    return this.ask("means", { rows, start, end });
  }

  async events(rows: readonly number[], { start, end }: Span, most: number): Promise<readonly Events[] | null> {
    const bytes = await this.source.events({ rows, start, end, most });
    return bytes.length ? decodeCut(bytes, this.base()) : null;
  }

  private async ask<T>(name: string, question: object): Promise<T> {
    return (await this.source.ask(name, question)) as T;
  }
}

/** Returns one bit per name, lowest first, in base64. */
export function bitsText(lit: Uint8Array): string {
  const bytes = new Uint8Array(Math.ceil(lit.length / 8));
  lit.forEach((one, name) => {
    if (one) bytes[name >> 3] |= 1 << (name & 7);
  });
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters);
}
