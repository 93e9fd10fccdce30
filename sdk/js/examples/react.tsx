/**
 * A React hook over a Presence: the users of ids, up to date.
 *
 *     const presence = connect({ url, token });               // once, outside of components
 *     const users = useUsers(presence, ["2", "3"]);
 *     <Dot state={users.get("2")?.state} />
 */
import type { Presence, User } from "@stillhere/client";
import { useEffect, useState } from "react";

export function useUsers(presence: Presence, ids: string[]): ReadonlyMap<string, User> {
  const [users, setUsers] = useState<ReadonlyMap<string, User>>(new Map());
  const key = JSON.stringify(ids); // a new array with the same ids is no reason to subscribe again
  useEffect(() => {
    const watch = presence.watch(JSON.parse(key));
    setUsers(new Map(watch.users.map((user) => [user.user_id, user])));
    watch.on("change", (user) => setUsers((before) => new Map(before).set(user.user_id, user)));
    return () => watch.close();
  }, [presence, key]);
  return users;
}

/** The status of the connection, to say that dots may be out of date. */
export function useStatus(presence: Presence): string {
  const [status, setStatus] = useState<string>(presence.status);
  useEffect(() => {
    setStatus(presence.status);
    return presence.on("status", setStatus);
  }, [presence]);
  return status;
}

export function Dot({ state }: { state: User["state"] | undefined }) {
  const colors = { online: "#1a9d4b", away: "#d98e04", offline: "#9aa0a6" };
  return (
    <span role="img" aria-label={state ?? "hidden"} style={{ color: state ? colors[state] : "transparent" }}>
      ●
    </span>
  );
}
