import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, Fault, send } from "../api";
import { useSession } from "../context";
import { count, moment, span } from "../format";
import { LastBeat } from "../parts/axis";
import { Empty, Panel, Problem, Waiting } from "../parts/basic";
import { type Setting, seconds, settings, textsOf } from "../policy";
import { go, link, type Route } from "../route";
import type { Backtest, Outcome } from "../types";

const groups: [Setting["group"], string][] = [
  ["timing", "Timing"],
  ["gateways", "Gateways"],
  ["limits", "Limits"],
];

/** What is wrong with a text of a setting; empty if nothing is. */
function faultOf(setting: Setting, text: string): string {
  if (setting.kind === "duration" && Number.isNaN(seconds(text)))
    return /^[\d.]+$/.test(text) ? `needs a unit, such as ${text}s` : "must be a duration, such as 45s or 1m30s";
  if (setting.kind === "number" && !/^\d+$/.test(text)) return "must be a whole number";
  return "";
}

export function WhatIf({ route }: { route: Route }) {
  const { live, me } = useSession();
  const force = useMemo(() => textsOf(live.now?.policy?.settings), [JSON.stringify(live.now?.policy?.settings)]);
  const known = settings.filter((s) => force[s.name] !== undefined);
  const [draft, setDraft] = useState<Record<string, string>>(() => Object.fromEntries(route.query));
  const [minutes, setMinutes] = useState(10);
  if (me?.tenant)
    return (
      <Empty title="A policy is tried on the users of all tenants">
        This token is of tenant {me.tenant} alone. With a token of the whole pipeline, stillhere backtest --tenant{" "}
        {me.tenant} tries a policy on yours.
      </Empty>
    );
  if (!live.now) return live.link.fault ? <Problem fault={live.link.fault} /> : <Waiting what="the policy in force" />;
  if (known.length === 0)
    return <Empty title="The policy in force is not known here">No detector has published one yet.</Empty>;
  const texts = { ...force };
  for (const s of known) if (draft[s.name] !== undefined) texts[s.name] = draft[s.name]!;
  const changed = known.filter((s) => texts[s.name] !== force[s.name]);
  const faults = known.filter((s) => faultOf(s, texts[s.name]!));
  const set = (name: string, text: string) => {
    const next = { ...draft, [name]: text };
    if (text === force[name]) delete next[name];
    setDraft(next);
    history.replaceState(null, "", link("whatif", [], next));
  };
  const ends = [force, texts].flatMap((t) =>
    ["online-ttl", "offline-debounce", "away-ttl"].map((n) => seconds(t[n] ?? "")).filter((n) => !Number.isNaN(n)),
  );
  const longest = Math.max(1, ...ends) * 1.15 + Math.min(...ends, 0);
  return (
    <div class="whatif">
      <Panel
        title="Another policy"
        class="form"
        side={
          changed.length > 0 && (
            <button
              type="button"
              class="small"
              onClick={() => {
                setDraft({});
                go(link("whatif"), true);
              }}
            >
              As in force
            </button>
          )
        }
      >
        <form onSubmit={(event) => event.preventDefault()}>
          {groups.map(([group, title]) => {
            const own = known.filter((s) => s.group === group);
            return (
              own.length > 0 && (
                <fieldset key={group}>
                  <legend>{title}</legend>
                  {own.map((s) => (
                    <Field key={s.name} setting={s} text={texts[s.name]!} force={force[s.name]!} set={set} />
                  ))}
                </fieldset>
              )
            );
          })}
        </form>
      </Panel>
      <div class="stack">
        <Panel title="After a last heartbeat" side="what others see, on a square-root time axis">
          <LastBeat texts={force} longest={longest} title="In force" />
          <LastBeat
            texts={texts}
            longest={longest}
            title={changed.length === 0 ? "This form: the same" : "This form"}
          />
          <Exceptions texts={texts} />
        </Panel>
        <Run texts={texts} known={known} minutes={minutes} setMinutes={setMinutes} faulty={faults.length > 0} />
      </div>
    </div>
  );
}

function Field({
  setting,
  text,
  force,
  set,
}: {
  setting: Setting;
  text: string;
  force: string;
  set: (name: string, text: string) => void;
}) {
  const fault = faultOf(setting, text);
  const id = `set-${setting.name}`;
  return (
    <div class={`setting ${text !== force ? "changed" : ""}`}>
      <label for={id}>{setting.name}</label>
      {setting.kind === "switch" ? (
        <input
          id={id}
          type="checkbox"
          checked={text === "true"}
          onChange={(event) => set(setting.name, String(event.currentTarget.checked))}
          aria-describedby={`${id}-help`}
        />
      ) : (
        <input
          id={id}
          value={text}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => set(setting.name, event.currentTarget.value.trim())}
          aria-invalid={fault !== ""}
          aria-describedby={`${id}-help`}
        />
      )}
      <p id={`${id}-help`}>
        {fault ? <b class="bad">{fault}</b> : setting.help}
        {text !== force && !fault && <b class="was"> In force: {force}.</b>}
      </p>
    </div>
  );
}

function Exceptions({ texts }: { texts: Record<string, string> }) {
  const bye = texts["bye-debounce"];
  const idle = texts["idle-after"];
  const reconnect = texts["reconnect-window"];
  return (
    <ul class="what">
      {bye !== undefined && (
        <li>After the bye of the last device: offline {bye === "0s" ? "at once" : `${bye} later`}.</li>
      )}
      {idle !== undefined && idle !== "0s" && <li>A device that nobody has touched for {idle} counts as away.</li>}
      {reconnect !== undefined && reconnect !== "0s" && (
        <li>If the gateway was lost, the device has {reconnect} more to reconnect.</li>
      )}
    </ul>
  );
}

function Run({
  texts,
  known,
  minutes,
  setMinutes,
  faulty,
}: {
  texts: Record<string, string>;
  known: readonly Setting[];
  minutes: number;
  setMinutes: (minutes: number) => void;
  faulty: boolean;
}) {
  const [result, setResult] = useState<Backtest | undefined>();
  const [running, setRunning] = useState(false);
  const [fault, setFault] = useState<Fault | undefined>();
  const [ran, setRan] = useState("");
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const id = JSON.stringify([texts, minutes]);
  const cancel = () => {
    stop.current?.abort();
    stop.current = undefined;
    setRunning(false);
  };
  const run = async () => {
    cancel();
    const own = new AbortController();
    stop.current = own;
    setFault(undefined);
    setResult(undefined);
    setRunning(true);
    const policy: Record<string, string | number | boolean> = {};
    for (const s of known) {
      const text = texts[s.name]!;
      policy[s.name] = s.kind === "number" ? Number(text) : s.kind === "switch" ? text === "true" : text;
    }
    try {
      const body = JSON.stringify({ policy, minutes });
      const answer = await send(address("console/api/whatif"), { method: "POST", body, signal: own.signal });
      setResult(await answer.json());
      setRan(id);
    } catch (error) {
      if (own.signal.aborted) return;
      setFault(error instanceof Fault ? error : new Fault(0, "lost", "The connection was lost during the backtest."));
    }
    setRunning(false);
  };
  return (
    <Panel
      title="Backtest"
      side={
        <label class="inline">
          Over the last{" "}
          <select value={String(minutes)} onChange={(event) => setMinutes(Number(event.currentTarget.value))}>
            {[1, 5, 10, 30, 60].map((n) => (
              <option key={n} value={n}>
                {n} minutes
              </option>
            ))}
          </select>
        </label>
      }
    >
      <p class="note">
        The recorded heartbeats are decided again by these settings, in a process beside the pipeline. Nothing is
        published.
      </p>
      <div class="acts">
        {running ? (
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        ) : (
          <button type="button" class="main" onClick={run} disabled={faulty}>
            Run the backtest
          </button>
        )}
        {running && <progress aria-label="The recorded heartbeats are decided again" />}
      </div>
      {fault && <Problem fault={fault} again={run} inline />}
      {result && ran !== id && (
        <p class="says stale">
          <b>Of other settings.</b> The form has changed since this ran.
        </p>
      )}
      {result && <Result result={result} />}
    </Panel>
  );
}

function Result({ result: { from, to, policies } }: { result: Backtest }) {
  if (!policies) return null;
  const [published, base, asked] = policies;
  const later = (of: "p50" | "p99") => (o: Outcome) =>
    o.time_to_offline_ms.count && published.time_to_offline_ms.count && o !== published
      ? (o.time_to_offline_ms[of] - published.time_to_offline_ms[of]) / 1000
      : null;
  const rows: [string, (o: Outcome) => number | null, boolean][] = [
    ["Changes", (o) => o.transitions, true],
    ["to online", (o) => o.to_online, true],
    ["to away", (o) => o.to_away, true],
    ["to offline", (o) => o.to_offline, true],
    ["Returns within 60 s", (o) => o.flaps, true],
    ["Offline later, median", later("p50"), false],
    ["Offline later, 99 %", later("p99"), false],
  ];
  const nameOf = (o: Outcome) => (o === asked ? "this form" : o.policy);
  return (
    <>
      {from && to && (
        <p class="note">
          From {moment(from)} to {moment(to)} UTC.
        </p>
      )}
      <table class="result">
        <thead>
          <tr>
            <th scope="col">
              <span class="away-from-eyes">What</span>
            </th>
            {policies.map((o) => (
              <th scope="col" class="n" key={nameOf(o)}>
                {nameOf(o)}
              </th>
            ))}
            <th scope="col" class="n">
              Difference
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([title, of, whole]) => {
            const [before, after] = [of(base), of(asked)];
            if (policies.every((o) => of(o) === null)) return null;
            return (
              <tr key={title} class={title === "Changes" ? "sum" : ""}>
                <th scope="row">{title}</th>
                {policies.map((o) => (
                  <td class="n" key={nameOf(o)}>
                    {whole ? count(of(o)) : span(of(o))}
                  </td>
                ))}
                <td class="n dim">
                  {whole && before !== null && after !== null ? difference(after - before, before) : ""}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

function difference(by: number, before: number): string {
  if (by === 0) return "0";
  const sign = by > 0 ? "+" : "−";
  const share = before ? ` (${sign}${Math.round((Math.abs(by) / before) * 100)} %)` : "";
  return `${sign}${count(Math.abs(by))}${share}`;
}
