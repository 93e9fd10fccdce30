/**
 * Browser and Node client of Stillhere: a device that is here, and live presence of users.
 *
 *     import { connect } from "@stillhere/client";
 *     const presence = connect({ url: "https://presence.example.com", token: fetchToken });
 *     presence.watch(["2", "3"], (user) => show(user.user_id, user.state));
 *
 * @packageDocumentation
 */
import type { Options } from "./options.js";
import { Presence } from "./presence.js";

export type { Detail, Status } from "./link.js";
export type { Audience, Denial, DeviceKind, Me, Override, State, Unsure, User } from "./messages.js";
export type { Options } from "./options.js";
export type { PresenceEvents } from "./presence.js";
export { Problem } from "./problem.js";
export type { WatchEvents } from "./watch.js";
export { Watch } from "./watch.js";
export type { Presence };

/** Connects, and connects again whenever the connection is lost, until close. Throws a TypeError for a wrong option. */
export function connect(options: Options = {}): Presence {
  return new Presence(options);
}
