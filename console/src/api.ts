// Requests to the server. The token is kept in this tab only, in sessionStorage.

const root = new URL("../", document.baseURI);
const key = "stillhere.token";

/** An answer that is no success, or no answer at all (status 0). */
export class Fault extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | undefined;

  constructor(status: number, code: string, message: string, field?: string) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

export function token(): string {
  return sessionStorage.getItem(key) ?? "";
}

export function setToken(value: string) {
  if (value) sessionStorage.setItem(key, value);
  else sessionStorage.removeItem(key);
}

/** The tenant that requests name; empty is the default one, or the token's. */
let tenant = "";
export const setTenant = (name: string) => {
  tenant = name;
};
export const tenantNow = () => tenant;

let refused: (fault: Fault) => void = () => {};
/** Calls back at each 401. */
export const onRefused = (call: (fault: Fault) => void) => {
  refused = call;
};

export type Query = Record<string, string | number | boolean | undefined>;

/** The URL of a path such as console/api/me. */
export function address(path: string, query: Query = {}, of = tenant): URL {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  if (of) url.searchParams.set("tenant", of);
  return url;
}

/** The path of a user, whatever the user is called; but browsers resolve . and .. in a path, also escaped. */
export function userPath(id: string, rest = ""): string {
  if (id === "." || id === "..")
    throw new Fault(0, "unaddressable", `A browser cannot name a user “${id}” in an address: use stillhere get ${id}.`);
  return `presence/users/${encodeURIComponent(id)}${rest}`;
}

async function faultOf(answer: Response): Promise<Fault> {
  const text = await answer.text().catch(() => "");
  let said: { code?: string; message?: string; field?: string } = {};
  try {
    said = JSON.parse(text).error ?? {};
  } catch {
    // Not of this server: a proxy before it.
  }
  const fault = new Fault(
    answer.status,
    said.code ?? `http_${answer.status}`,
    said.message ?? `${answer.status} ${answer.statusText || "without a reason"}`,
    said.field,
  );
  if (answer.status === 401) refused(fault);
  return fault;
}

/** Sends a request and returns the answer of a success. Throws Fault. */
export async function send(url: URL, init: RequestInit = {}, bearer = token()): Promise<Response> {
  const headers = new Headers(init.headers);
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  if (typeof init.body === "string") headers.set("Content-Type", "application/json");
  let answer: Response;
  try {
    answer = await fetch(url, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Fault(0, "unreachable", "The server does not answer.");
  }
  if (!answer.ok) throw await faultOf(answer);
  return answer;
}

/** How long an answer may take, in milliseconds. */
const patience = 30_000;

/** Reads JSON. */
export async function get<T>(path: string, query?: Query, signal?: AbortSignal, of?: string): Promise<T> {
  return (await asked(address(path, query, of), { signal: signal ?? null })).json();
}

/** Sends a request whose answer ends: it throws a Fault as well when nothing has come for too long. */
export async function asked(url: URL, init: RequestInit = {}): Promise<Response> {
  const late = AbortSignal.timeout(patience);
  const signal = init.signal ? AbortSignal.any([init.signal, late]) : late;
  try {
    return await send(url, { ...init, signal });
  } catch (error) {
    if (!late.aborted || init.signal?.aborted) throw error;
    throw new Fault(0, "timeout", "The server has not answered for 30 s, or too many tabs wait for it.");
  }
}

export interface Event {
  name: string;
  data: string;
}

/**
 * Reads Server-Sent Events as they come; ends with the answer. With idle, it ends as well when
 * nothing has come for so many milliseconds.
 */
export async function* events(url: URL, init: RequestInit = {}, idle = 0, bearer = token()): AsyncGenerator<Event> {
  const stop = new AbortController();
  const outer = init.signal;
  const abort = () => stop.abort();
  if (outer?.aborted) abort();
  outer?.addEventListener("abort", abort);
  let timer = 0;
  const rearm = () => {
    clearTimeout(timer);
    if (idle) timer = window.setTimeout(abort, idle);
  };
  try {
    rearm();
    const answer = await send(url, { ...init, signal: stop.signal }, bearer);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let name = "message";
    let data: string[] = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rearm();
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop()!;
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield { name, data: data.join("\n") };
          name = "message";
          data = [];
        } else if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  } catch (error) {
    if (!stop.signal.aborted || outer?.aborted) throw error;
    throw new Fault(0, "silent", "The server is silent.");
  } finally {
    clearTimeout(timer);
    stop.abort();
    outer?.removeEventListener("abort", abort);
  }
}
