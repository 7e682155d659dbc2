// Development mode: reloads this page when a file of the site has changed. Sent by `serve --dev` alone.
(() => {
  const known = document.currentScript.dataset.since;
  // A frame of a page of this site is reloaded with that page.
  try { if (parent !== self && parent.document) return; } catch (otherSite) {}

  let events, last = known;
  const open = () => {
    events?.close();
    if (document.hidden) return;
    events = new EventSource("/.scalws/events?since=" + encodeURIComponent(last));
    events.addEventListener("page", (event) => { last = event.data; reload(last); });
    events.addEventListener("styles", (event) => { last = event.data; restyle(last); });
    // What is no event stream ends it for good: another server, or one without development mode.
    events.onerror = () => { if (events.readyState === EventSource.CLOSED) setTimeout(open, 5000); };
  };

  // Once for each change: a page that comes back old (out of a service worker's cache) must not go
  // round in circles.
  const reload = (id) => {
    const key = "scalws " + location.pathname;
    try {
      if (sessionStorage.getItem(key) === id) return;
      sessionStorage.setItem(key, id);
    } catch (noStorage) {}
    location.reload();
  };

  const restyle = (id) => {
    for (const old of document.querySelectorAll("link[rel~=stylesheet][href]")) {
      const url = new URL(old.href);
      if (url.origin !== location.origin) continue;
      url.searchParams.set("scalws", id);
      const fresh = old.cloneNode();
      fresh.href = url;
      // The old one stays until then: no flash of a page without style.
      fresh.onload = () => old.remove();
      fresh.onerror = () => location.reload();
      old.after(fresh);
    }
  };

  // HTTP/1.1 browsers open six connections to a host: tabs that nobody sees give theirs back. What
  // they miss they are told when they are looked at again.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) events?.close(); else open();
  });
  open();
})();
