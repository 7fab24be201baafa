// Bundles the page into ../src/warpline/viewer/dist: one script, one style sheet. The same input
// gives the same bytes, so that a stale bundle is detected.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";

const MOST_BYTES = 400_000;
const OUT = "../src/warpline/viewer/dist";
const SHARED = {
  bundle: true,
  minify: true,
  charset: "ascii",
  target: ["chrome109", "firefox115", "safari16.4"],
  legalComments: "none",
  logLevel: "warning",
};

/** `import script from "worker-text:FILE"` imports the bundled file as text. */
const workerText = {
  name: "worker-text",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^worker-text:/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, `${path.slice("worker-text:".length)}.ts`),
      namespace: "worker-text",
    }));
    onLoad({ filter: /.*/, namespace: "worker-text" }, async ({ path }) => {
      const { outputFiles } = await build({ ...SHARED, entryPoints: [path], format: "iife", write: false });
      return { contents: outputFiles[0].text, loader: "text", resolveDir: dirname(path) };
    });
  },
};

await build({
  ...SHARED,
  entryPoints: { viewer: "src/app/main.tsx" },
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [workerText],
  outdir: OUT,
});
await build({ ...SHARED, entryPoints: { viewer: "src/app/viewer.css" }, outdir: OUT });
// The palette rules must come before the rules that use them.
const palette = await build({ ...SHARED, entryPoints: ["src/engine/palette-css.ts"], format: "esm", write: false });
const { paletteCss } = await import(`data:text/javascript,${encodeURIComponent(palette.outputFiles[0].text)}`);
await writeFile(`${OUT}/viewer.css`, paletteCss() + (await readFile(`${OUT}/viewer.css`, "utf8")));

let bytes = 0;
for (const name of ["viewer.js", "viewer.css"]) {
  const text = await readFile(`${OUT}/${name}`, "utf8");
  bytes += Buffer.byteLength(text);
  if (/<\/script|<!--|<\/style/i.test(text)) throw new Error(`${name} holds text that ends its element.`);
}
console.log(`viewer.js and viewer.css: ${bytes} bytes`);
if (bytes > MOST_BYTES) throw new Error(`More than ${MOST_BYTES} bytes.`);
