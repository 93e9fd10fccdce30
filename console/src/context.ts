import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Live } from "./overview";
import type { Me } from "./types";

export interface Session {
  me: Me | undefined;
  live: Live;
  /** Grows with another token or tenant. */
  turn: number;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("no session around this component");
  return session;
}
