// Passes each view of one frame to the other. Frames are opaque: they say "ready" and get "follow".
(() => {
  const frames = [...document.querySelectorAll("iframe")];
  const together = document.getElementById("wl-together");
  const tell = (frame, warpline) => frame.contentWindow.postMessage({ warpline }, "*");
  const first = JSON.parse(document.body.dataset.first);
  const axes = JSON.parse(document.getElementById("wl-axes").textContent); // of each side
  addEventListener("message", ({ source, data }) => {
    const from = frames.findIndex((frame) => frame.contentWindow === source);
    if (from < 0 || !data || !data.warpline) return;
    if (data.warpline === "ready") {
      if (first) tell(frames[from], first);
      tell(frames[from], { axes: axes[from] });
      tell(frames[from], "follow");
    } else if (together.checked) tell(frames[1 - from], data.warpline);
  });
})();
