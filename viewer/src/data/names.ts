/** The names of events as the page shows them: short ones, made by the packer, where there are any. */

import type { Category } from "./head";
import type { Names } from "./recording";

const NO_KERNEL = /^(?:copy-|memset$)/;

/** Whether a name is of kernels or CUDA graphs. */
export function isKernelName(names: Names, categories: readonly Category[], name: number): boolean {
  const category = categories[names.categories[name] ?? -1];
  return category?.kind === "busy" && !NO_KERNEL.test(category.name);
}

/** Returns the name to show: `vectorized_elementwise<CUDAFunctor_add<float>>`. */
export function shortName(names: Names, name: number): string {
  return names.labels?.[name] ?? names.texts[name] ?? "";
}

/** Returns the names, by number, that match a pattern in short or in full. */
export function matchingNames(names: Names, pattern: RegExp): Uint8Array {
  return Uint8Array.from(names.texts, (text, name) => {
    const label = names.labels?.[name];
    return pattern.test(text) || (label != null && pattern.test(label)) ? 1 : 0;
  });
}
