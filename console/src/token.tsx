import { useState } from "preact/hooks";
import { address, Fault, send, setToken, token } from "./api";
import { Dialog } from "./parts/basic";

/** What a token says of itself; the server alone checks it. */
export function claimsOf(text: string): Record<string, unknown> | null {
  try {
    const part = text.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(part), (c) => c.charCodeAt(0))));
  } catch {
    return null;
  }
}

export function Claims({ text }: { text: string }) {
  const claims = claimsOf(text);
  if (!text) return null;
  if (!claims) return <p class="note">This text is no JSON Web Token; the server may still know it.</p>;
  const exp = typeof claims.exp === "number" ? claims.exp * 1000 : null; // any number: the token is not checked here
  return (
    <dl class="facts">
      {(["sub", "scope", "tenant"] as const).map(
        (name) =>
          claims[name] !== undefined && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{String(claims[name])}</dd>
            </div>
          ),
      )}
      {exp && (
        <div>
          <dt>exp</dt>
          <dd>
            {Number.isNaN(new Date(exp).getTime()) ? (
              <b>{String(claims.exp)} is no date</b>
            ) : (
              new Date(exp).toISOString()
            )}
            {exp < Date.now() && <b> (over)</b>}
          </dd>
        </div>
      )}
    </dl>
  );
}

/** Asks for a token, tries it, and keeps it for this tab. */
export function TokenDialog({
  fault,
  close,
  done,
}: {
  fault?: Fault | undefined;
  close: () => void;
  done: () => void;
}) {
  const [text, setText] = useState("");
  const [refused, setRefused] = useState(fault);
  const [busy, setBusy] = useState(false);
  const use = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const value = text.trim().replace(/^Bearer\s+/i, "");
      if (!/^[\x21-\x7e]+$/.test(value))
        throw new Fault(0, "invalid_token", "A token has only printable characters of ASCII, and no blank.");
      await send(address("console/api/me"), {}, value);
      setToken(value);
      done();
    } catch (error) {
      setRefused(error as Fault);
      setBusy(false);
    }
  };
  return (
    <Dialog title={token() ? "Use another token" : "Sign in with a token"} close={close}>
      <form onSubmit={use}>
        <p>
          The server wants a bearer token with the scope <code>presence:observe</code>, or <code>presence:admin</code>{" "}
          to hide, override, export and erase users. It stays in this tab and is forgotten when the tab closes.
        </p>
        <label class="field">
          Token
          <textarea
            rows={4}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            spellcheck={false}
            autocomplete="off"
            aria-describedby={refused ? "token-refused" : undefined}
            required
          />
        </label>
        <Claims text={text.trim()} />
        {refused && (
          <p class="wrong" id="token-refused" role="alert">
            {refused.message} <code>{refused.code}</code>
          </p>
        )}
        <div class="acts">
          <button type="submit" class="main" disabled={busy || !text.trim()}>
            {busy ? "Trying" : "Use token"}
          </button>
          {token() && (
            <button
              type="button"
              onClick={() => {
                setToken("");
                done();
              }}
            >
              Forget the present one
            </button>
          )}
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
