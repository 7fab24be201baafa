/** The tree of the stacks of samples. */

import { decodeColumn } from "./columns";
import type { StacksSpec } from "./head";

/** Callers come before what they call. */
export interface Stacks {
  /** The caller's stack; -1 without one. */
  readonly parent: Int32Array;
  /** The name of the innermost frame. */
  readonly name: ArrayLike<number>;
}

export function decodeStacks(bytes: Uint8Array, { offset, count, columns }: StacksSpec): Stacks {
  const [caller, name] = columns;
  if (!caller || !name) throw new Error("The stacks of samples are damaged. Create the report again.");
  const distance = decodeColumn(bytes, offset, count, caller);
  return {
    parent: Int32Array.from(distance, (above, at) => (above ? at - above : -1)),
    name: decodeColumn(bytes, offset + count * caller.planes, count, name),
  };
}
