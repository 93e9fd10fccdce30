import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Fault } from "../api";
import { setToken, token } from "../api";

/** A state as a shape and a word, so that the color is not needed. Null is hidden. */
export function StateWord({ state, hidden }: { state: string | null | undefined; hidden?: boolean }) {
  const word = state ?? "hidden";
  return (
    <span class={`state ${word}`}>
      <svg class="dot" viewBox="0 0 10 10" aria-hidden="true">
        <Shape word={word} />
      </svg>
      {word}
      {hidden && state && <span class="tag">hidden</span>}
    </span>
  );
}

function Shape({ word }: { word: string }) {
  if (word === "online") return <circle cx="5" cy="5" r="4" class="fill" />;
  if (word === "away")
    return (
      <>
        <circle cx="5" cy="5" r="3.4" class="ring" />
        <path d="M5 1.6 A3.4 3.4 0 0 1 5 8.4 Z" class="fill" />
      </>
    );
  if (word === "offline") return <circle cx="5" cy="5" r="3.4" class="ring" />;
  return <circle cx="5" cy="5" r="3.4" class="ring dashed" />;
}

const titles: Record<number, string> = {
  0: "No connection",
  401: "A token is needed",
  403: "This token may not do that",
  404: "Nothing is here",
  409: "Not now",
  429: "Too many requests",
  503: "Not ready",
};

/** What went wrong, in the server's words, and what can be done. */
export function Problem({ fault, again, inline }: { fault: Fault; again?: () => void; inline?: boolean }) {
  const title = titles[fault.status] ?? `The server answered ${fault.status}`;
  return (
    <div class={inline ? "problem inline" : "problem"} role="alert">
      <b>{title}</b>
      <p>
        {fault.message} <code>{fault.code}</code>
        {fault.field && (
          <>
            {" "}
            of <code>{fault.field}</code>
          </>
        )}
      </p>
      {fault.status === 403 && fault.code !== "not_allowed" && (
        <p>
          The console needs the scope presence:observe. To explain changes, and to hide, override, export or erase
          users, use presence:admin.
        </p>
      )}
      <div class="acts">
        {(fault.status === 401 || fault.status === 403) && (
          <button type="button" onClick={() => askToken()}>
            {token() ? "Use another token" : "Sign in"}
          </button>
        )}
        {again && (
          <button type="button" onClick={again}>
            Try again
          </button>
        )}
      </div>
    </div>
  );
}

/** Opens the dialog for a token. */
export function askToken() {
  window.dispatchEvent(new Event("stillhere:token"));
}

export function forgetToken() {
  setToken("");
  window.dispatchEvent(new Event("stillhere:session"));
}

/** That there is nothing, and why that may be. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <b>{title}</b>
      {children && <p>{children}</p>}
    </div>
  );
}

export function Waiting({ what }: { what: string }) {
  return (
    <div class="empty waiting" role="status">
      Loading {what}
    </div>
  );
}

/** A section with a title. */
export function Panel({
  title,
  side,
  children,
  class: name = "",
}: {
  title: string;
  side?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  const id = useId();
  return (
    <section class={`panel ${name}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        <span class="side">{side}</span>
      </header>
      {children}
    </section>
  );
}

/** A modal dialog. Escape and the backdrop close it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    box.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog
      ref={box}
      aria-labelledby={id}
      onClose={close}
      onClick={(event) => event.target === box.current && box.current?.close()}
    >
      <div class="dialog">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** Copies a text, and says that it did. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Not allowed here");
    }
  };
  return (
    <button type="button" class="small" onClick={copy} onBlur={() => setDone("")}>
      <span aria-live="polite">{done || label}</span>
    </button>
  );
}

/** Buttons of which one is chosen. */
export function Choice<T extends string>({
  label,
  value,
  options,
  choose,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  choose: (value: T) => void;
}) {
  return (
    <fieldset class="choice">
      <legend class="away-from-eyes">{label}</legend>
      {options.map(([option, text]) => (
        <button type="button" key={option} aria-pressed={option === value} onClick={() => choose(option)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}

export const Icon = ({ d }: { d: string }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={d} />
  </svg>
);
