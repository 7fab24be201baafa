import { build } from "esbuild";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const outfile = join(tmpdir(), `warpline-sample-${process.pid}.mjs`);
await build({ entryPoints: ["dev/make-sample.ts"], bundle: true, platform: "node", format: "esm", outfile });
await import(pathToFileURL(outfile).href);
