// Events of the server while the page is looked at. A hidden page lets go of its connection: browsers have few of them.
const live = document.getElementById("live");

function say(state) {
  live.textContent = state;
  live.dataset.state = state;
}

// `fresh` is called at every (re)connection, when whatever was missed must be asked for; `heard` with every event.
export function stream(path, fresh, heard) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    say("connecting");
    source = new EventSource(path);
    source.addEventListener("open", () => (say("live"), fresh()));
    source.addEventListener("message", (event) => heard(JSON.parse(event.data)));
    source.addEventListener("reset", fresh);
    source.addEventListener("error", () => {
      say("offline");
      if (source && source.readyState === EventSource.CLOSED) close(), setTimeout(open, 3000);
    });
  };
  const close = () => {
    source?.close();
    source = null;
  };
  const turned = () => (document.hidden ? (close(), say("paused")) : open());
  document.addEventListener("visibilitychange", turned);
  open();
  return () => {
    document.removeEventListener("visibilitychange", turned);
    close();
  };
}

export const quiet = () => say("live");
