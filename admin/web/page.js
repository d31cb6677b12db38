// Asks for the page again every few seconds, unless that is paused or the tab is hidden.
"use strict";
(() => {
  const every = 3000;
  const button = document.getElementById("pause");
  const stale = document.getElementById("stale");
  if (!button) return;
  const key = "timer-service-paused";
  let paused = sessionStorage.getItem(key) === "yes";

  const show = () => {
    button.textContent = paused ? "Go on refreshing" : "Pause refresh";
    button.setAttribute("aria-pressed", String(paused));
  };
  const refresh = () => {
    const live = document.getElementById("live");
    if (live && !paused && !document.hidden) htmx.trigger(live, "refresh");
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem(key, paused ? "yes" : "no");
    show();
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("htmx:after:swap", e => { stale.hidden = !(e.detail?.ctx?.response?.status >= 400); }); // an answer that is not shown ends so, too
  for (const failed of ["htmx:error", "htmx:response:error"]) {
    document.addEventListener(failed, e => {
      const ended = e.detail?.ctx?.response?.status === 401; // the session
      document.getElementById("silent").hidden = ended;
      document.getElementById("again").hidden = !ended;
      stale.hidden = false;
    });
  }
  show();
  setInterval(refresh, every);
})();
