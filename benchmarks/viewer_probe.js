// Runs in the page before its own script: notes when pictures are on the screen and how long frames take.
(() => {
  const drawn = {};
  let spent = 0; // milliseconds of script in this frame
  let finish = () => undefined;
  const finished = new Promise((resolve) => (finish = resolve));

  // A picture is on the screen by the second frame after it was drawn.
  const note = (name) => {
    if (name in drawn) return;
    drawn[name] = null;
    const seen = () => {
      drawn[name] = performance.now();
      if (name === "full") finish(drawn);
    };
    requestFrame(() => requestFrame(seen));
  };
  const requestFrame = window.requestAnimationFrame.bind(window);
  const mark = performance.mark.bind(performance);
  const recording = () => window.warpline?.model?.recording;
  performance.mark = (name, options) => {
    if (name === "warpline-frame" || name === "warpline-full") {
      if (recording()?.overview) note("overview");
      if (recording()?.rows.some((row) => row.events)) note("events");
      if (name === "warpline-full") note("full");
    }
    return mark(name, options);
  };
  window.requestAnimationFrame = (callback) =>
    requestFrame((time) => {
      const begin = performance.now();
      try {
        callback(time);
      } finally {
        spent += performance.now() - begin;
      }
    });

  // Moves the view once a frame; `viewAt` gives the view of frame i.
  const run = (count, viewAt) =>
    new Promise((resolve) => {
      const { model } = window.warpline;
      const own = [];
      const apart = [];
      let last = 0;
      let i = 0;
      const step = (time) => {
        if (i > 1) {
          own.push(spent);
          apart.push(time - last);
        }
        spent = 0;
        last = time;
        if (i === count + 2) return resolve({ own, apart });
        const begin = performance.now();
        model.view.value = viewAt(i++);
        spent += performance.now() - begin;
        requestFrame(step);
      };
      requestFrame(step);
    });

  const within = (start, length) => {
    const { limits } = window.warpline.model;
    const whole = limits.end - limits.start;
    const at = limits.start + Math.min(Math.max(0, start), 1 - length) * whole;
    return { start: at, end: at + length * whole };
  };

  window.probe = {
    finished,
    pan: (part, count) =>
      run(count, (i) => within(0.4 + (part * i) / 60, part)),
    zoom: (count) =>
      run(count, (i) => {
        const part = 10 ** (-4 * (1 - Math.abs(1 - (2 * i) / count)));
        return within(0.43 - part / 2, part);
      }),
    // The same work on every machine: inflates 4 MB and adds up its bytes.
    yardstick: async () => {
      const raw = new Uint8Array(4_000_000);
      let state = 1;
      for (let i = 0; i < raw.length; i++) {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0;
        raw[i] = state >>> 27;
      }
      const through = (stream, bytes) =>
        new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer();
      const packed = await through(new CompressionStream("gzip"), raw);
      const begin = performance.now();
      const bytes = new Uint8Array(await through(new DecompressionStream("gzip"), packed));
      const sums = new Float64Array(bytes.length);
      let sum = 0;
      for (let round = 0; round < 5; round++) {
        for (let i = 0; i < bytes.length; i++) sums[i] = sum += bytes[i];
      }
      return performance.now() - begin;
    },
  };
})();
