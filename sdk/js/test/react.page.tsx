// A page that shows users by the example's hook, as the test says.
import { connect } from "@stillhere/client";
import { StrictMode, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { Dot, useStatus, useUsers } from "../examples/react.js";

declare function note(text: string): void;

const say = (what: object) => note(JSON.stringify(what));
console.error = (...words: unknown[]) => say({ thrown: words.join(" ") });
const options = JSON.parse(new URLSearchParams(location.search).get("with")!);
const presence = connect({ firstWait: 50, maxWait: 500, ...options });

/** Shows users, and says what it shows as often as it has been drawn. */
function List({ ids }: { ids: string[] }) {
  const users = useUsers(presence, ids);
  const status = useStatus(presence);
  const shows = ids.map((id) => users.get(id)?.state ?? null);
  useEffect(() => say({ shows, status }));
  return (
    <ul>
      {ids.map((id) => (
        <li key={id}>
          <Dot state={users.get(id)?.state} />
        </li>
      ))}
    </ul>
  );
}

const root = createRoot(document.querySelector("main")!);
const show = (...lists: string[][]) =>
  root.render(
    <StrictMode>
      {lists.map((ids, i) => (
        <List key={i} ids={ids} />
      ))}
    </StrictMode>,
  );
Object.assign(window, { show });
say({ status: presence.status });
