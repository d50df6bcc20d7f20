// The token: taken from the address, kept for this tab only, sent with actions.
const KEY = "fedpace token";

export function takeFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return null;
  const to = new URLSearchParams(location.hash.slice(1)).get("to") || "";
  history.replaceState(null, "", "/" + (to.startsWith("/") ? "#" + to : ""));
  sessionStorage.setItem(KEY, given);
  return given;
}

export const known = () => sessionStorage.getItem(KEY);
export const remember = (token) => sessionStorage.setItem(KEY, token);
export const forget = () => sessionStorage.removeItem(KEY);

export async function exchange(token) {
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await fetch("/api/session", { method: "POST", headers });
  if (answer.ok) remember(token);
  else forget();
  return answer.ok;
}
