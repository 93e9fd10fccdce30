import { useEffect, useState } from "preact/hooks";
import { tenantNow } from "./api";

/** Where the page is: #/users/ann?q=a is screen users, with the rest ["ann"] and the query q=a. */
export interface Route {
  screen: string;
  rest: string[];
  query: URLSearchParams;
  hash: string;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [screen = "", ...rest] = path.split("/");
  return { screen: decode(screen) || "now", rest: rest.map(decode), query: new URLSearchParams(query), hash };
}

/** The link to a screen, of the tenant of this page unless query names one. Empty values are left out. */
export function link(screen: string, rest: string[] = [], query: Record<string, string | undefined> = {}): string {
  const named = { ...query, tenant: query.tenant ?? tenantNow() };
  const used = Object.entries(named).filter((pair): pair is [string, string] => !!pair[1]);
  const text = new URLSearchParams(used).toString();
  return `#/${[screen, ...rest].map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

export function go(href: string, replace = false) {
  if (replace) {
    history.replaceState(null, "", href);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = href;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setRoute((old) => (old.hash === location.hash ? old : parse(location.hash)));
    window.addEventListener("hashchange", changed);
    changed(); // it may have changed since the first drawing
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}
