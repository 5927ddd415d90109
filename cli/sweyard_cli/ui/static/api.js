// Asking the server, and hearing of news.

/** The answer at a path below /api. Throws an Error with the server's sentence. */
export async function ask(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  const answer = await fetch(`/api/${path}${query.size ? `?${query}` : ""}`, { signal });
  if (answer.status === 401) location.reload();
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.error ?? `the server answered ${answer.status}`);
  return body;
}

export function runPath(run) {
  return `runs/${encodeURIComponent(run.where)}/${encodeURIComponent(run.name)}`;
}

/** Call `heard` with the topics that have changed, null for "all of them, maybe"; `told` with the connection's state. */
export function listen(heard, told) {
  let stream = null;
  let isFirst = true; // what is shown was asked for a moment ago
  const open = () => {
    stream = new EventSource("/api/news");
    stream.addEventListener("hello", () => {
      told("live");
      if (!isFirst) heard(null);
      isFirst = false;
    });
    stream.addEventListener("news", (event) => heard(JSON.parse(event.data)));
    stream.addEventListener("error", () => told("connecting"));
  };
  // A tab that nobody sees holds no connection: browsers have six for each server.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream?.close(); stream = null; }
    else if (stream === null) open();
  });
  if (!document.hidden) open();
}
