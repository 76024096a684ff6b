// Send clicks on documents to structsvm live. Usage on a page of results:
//   <ol data-structsvm-token="TOKEN">  <li data-structsvm-document="ID"><a href="...">...</a></li> ... </ol>
//   <script src="https://YOUR-SERVICE/client.js" data-structsvm-url="https://YOUR-SERVICE" defer></script>
// The script sets no cookie and sends no user id. Events stay in the tab's session storage until they are accepted.
(() => {
  const url = (document.currentScript?.dataset.structsvmUrl || "").replace(/\/$/, "") + "/v1/clicks";
  const store = "structsvm-events", waits = [1000, 4000, 16000];
  let queue = [], timer = 0, tries = 0, busy = false;
  try { queue = JSON.parse(sessionStorage.getItem(store)) || []; } catch { /* nothing stored, or no storage allowed */ }
  const keep = () => { try { sessionStorage.setItem(store, JSON.stringify(queue)); } catch { /* storage is full */ } };
  const text = (events) => new Blob([JSON.stringify({ events })], { type: "text/plain" });

  async function send() {
    clearTimeout(timer);
    if (busy || !queue.length) return;
    const events = queue.slice(0, 100);
    busy = true;
    const answer = await fetch(url, { method: "POST", body: text(events), keepalive: true }).catch(() => null);
    busy = false;
    if (answer && (answer.ok || (answer.status < 500 && answer.status !== 429))) { // accepted, or refused permanently
      queue = queue.slice(events.length);
      tries = 0;
      keep();
      send();
    } else if (tries < waits.length) timer = setTimeout(send, waits[tries++]);
  }

  // the service counts a repeated click once, so that events can be sent again
  const add = (token, what, action) => { queue.push({ token, ...what, action }); keep(); send(); };
  const leave = () => {
    if (queue.length && document.visibilityState === "hidden" && navigator.sendBeacon(url, text(queue.slice(0, 100))))
      tries = 0;
  };
  const clicked = (event) => {
    if (event.type === "auxclick" && event.button !== 1) return; // the middle button opens documents, too
    const item = event.target.closest?.("[data-structsvm-document]");
    const token = item?.closest("[data-structsvm-token]")?.dataset.structsvmToken;
    if (token) add(token, { document: item.dataset.structsvmDocument }, item.dataset.structsvmAction || "click");
  };
  for (const kind of ["click", "auxclick"]) document.addEventListener(kind, clicked, true);
  document.addEventListener("visibilitychange", leave);
  window.structsvm = { click: (token, id, action = "click") => add(token, { document: id }, action) };
  send();
})();
