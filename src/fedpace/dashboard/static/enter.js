// The private page's door: the token of the address, or of the form, becomes a cookie that reads.
import { exchange, takeFromAddress } from "./token.js";

const refused = document.getElementById("refused");

async function enter(token) {
  if (await exchange(token)) location.replace("/" + location.hash);
  else refused.textContent = "This is not the token of this server.";
}

document.getElementById("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(document.getElementById("token").value.trim());
});
function look() {
  const given = takeFromAddress();
  if (given) enter(given);
}
addEventListener("hashchange", look);
look();
