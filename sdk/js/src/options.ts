import type { DeviceKind } from "./messages.js";
import { Problem } from "./problem.js";

/** How to connect. */
export interface Options {
  /** Address of the server, such as https://presence.example.com. In a page the default is the page's own server. */
  url?: string | URL;
  /**
   * The token, or what returns one: it is called for each connection, for each read, and before a token ends, and must
   * return one that is valid; what is no text ends the attempts. One of another user begins again as that user.
   */
  token?: string | (() => string | Promise<string>);
  /** Who this is, where the server needs no tokens; with tokens it need not be given. */
  user?: string;
  /** With --ids text the tenant, where the token does not say it. */
  tenant?: string;
  /**
   * The id of the device: with --ids text 1 to 128 bytes, else a number from 1 to 4294967295 as text. The default is
   * kept in localStorage.
   */
  device?: string;
  /** The default is web in a page, else other. */
  kind?: DeviceKind;
  /** Whether connecting makes the user present [true]. With false this only watches. */
  present?: boolean;
  /** Whether tabs of one browser share one connection, where the browser can do that [true]. */
  share?: boolean;
  /** Whether to get every change that was missed during a lost connection [true]; else the newest states. */
  resume?: boolean;
  /** Whether to get changes of users whom the user follows, as "delivery" events [false]. */
  deliveries?: boolean;
  /**
   * How long ago the person last used the device, in milliseconds. In a page the default looks at keys, pointer
   * and visibility, in all tabs; elsewhere the person is always active.
   */
  idle?: () => number;
  /** The first pause after a lost connection [250], which doubles up to maxWait [15000], in milliseconds. */
  firstWait?: number;
  maxWait?: number;
  /** In place of the global ones, such as that of the package ws for Node before 22. */
  WebSocket?: typeof WebSocket;
  fetch?: typeof fetch;
}

/** The options with their defaults. Throws a TypeError that names what is wrong. */
export function settle(options: Options) {
  const page = typeof document !== "undefined";
  // On a server that renders a page there is nobody to connect, and nothing is asked of this address.
  const url = new URL(options.url ?? (page ? location.origin : "http://no-url.invalid"));
  if (!/^https?:$/.test(url.protocol)) throw new TypeError("url: must begin with http:// or https://");
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  if (options.user !== undefined && (typeof options.user !== "string" || options.user === ""))
    throw new TypeError("user: must be a string that is not empty (JavaScript rounds 64-bit numbers)");
  const { device } = options;
  if (
    device !== undefined &&
    !(typeof device === "string" && /^[^\0]+$/.test(device) && new Blob([device]).size <= 128)
  )
    throw new TypeError("device: must be a string of 1 to 128 bytes");
  const { firstWait = 250, maxWait = 15_000 } = options;
  if (!(firstWait > 0) || !(maxWait >= firstWait))
    throw new TypeError("maxWait: must be at least firstWait, which must be positive");
  return {
    ...options,
    url,
    firstWait,
    maxWait,
    token: options.token,
    user: options.user,
    tenant: options.tenant,
    kind: options.kind ?? (page ? ("web" as const) : ("other" as const)),
    present: options.present ?? true,
    share: options.share ?? true,
    resume: options.resume ?? true,
    deliveries: options.deliveries ?? false,
    socket: options.WebSocket ?? globalThis.WebSocket,
    fetch: options.fetch ?? globalThis.fetch?.bind(globalThis),
    /** Which option is missing to connect from here. */
    lacks: options.url || page ? ((options.WebSocket ?? globalThis.WebSocket) ? "" : "WebSocket") : "url",
  };
}

/** The token to use now, or undefined without tokens. Throws a Problem if the callback returns none, or its error. */
export async function tokenNow(token: Options["token"]): Promise<string | undefined> {
  const text = typeof token === "function" ? await token() : token;
  if (typeof token === "function" && !(typeof text === "string" && text))
    throw new Problem("token", `the token callback must return a token, but returned ${text === "" ? '""' : text}`);
  return text;
}

/** The tenant and user of a JSON Web Token; undefined if it is none that names a user. */
export function bearerOf(token: string): [tenant: string, user: string] | undefined {
  try {
    const part = token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
    const { sub, tenant = "" } = JSON.parse(new TextDecoder().decode(bytes));
    return typeof sub === "string" && sub ? [tenant, sub] : undefined;
  } catch {
    return undefined;
  }
}
