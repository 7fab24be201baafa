/** The fragment of the page's URL: `#of=gpu&python&inverted&search=decode`. */

export interface Address {
  readonly of: string | null;
  readonly isPython: boolean | null;
  readonly byThread: boolean;
  readonly byLine: boolean;
  readonly isInverted: boolean;
  readonly thread: number;
  readonly search: string;
  readonly zoom: readonly number[];
}

export function parseAddress(fragment: string): Address {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  const zoom = values.get("zoom") ?? "";
  return {
    of: values.get("of"),
    isPython: values.has("python") ? values.get("python") !== "0" : null,
    byThread: values.get("threads") === "1",
    byLine: values.get("lines") === "1",
    isInverted: values.get("inverted") === "1",
    thread: /^\d{1,6}$/.test(values.get("thread") ?? "") ? Number(values.get("thread")) : -1,
    search: values.get("search") ?? "",
    zoom: /^\d{1,9}(\.\d{1,9}){0,999}$/.test(zoom) ? zoom.split(".").map(Number) : [],
  };
}

export function formatAddress(address: Address): string {
  const values = new URLSearchParams();
  if (address.of !== null) values.set("of", address.of);
  if (address.isPython !== null) values.set("python", address.isPython ? "1" : "0");
  if (address.byThread) values.set("threads", "1");
  if (address.byLine) values.set("lines", "1");
  if (address.isInverted) values.set("inverted", "1");
  if (address.thread >= 0) values.set("thread", String(address.thread));
  if (address.search) values.set("search", address.search);
  if (address.zoom.length) values.set("zoom", address.zoom.join("."));
  return `#${values}`;
}
