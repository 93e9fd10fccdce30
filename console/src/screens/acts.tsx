import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { address, asked, Fault, userPath } from "../api";
import { bytes, moment, shown } from "../format";
import { useLoad } from "../live";
import { Dialog } from "../parts/basic";
import { type Audience, lastSeens, type Override, overrides, type Receipt, type User } from "../types";
import { exported } from "./user";

type Act = "hide" | "show" | "seen" | "deny" | "override" | "export" | "erase";

const names: Record<Act, string> = {
  hide: "Hide",
  show: "Show",
  seen: "Set last seen",
  deny: "Set denied viewers",
  override: "Override",
  export: "Export",
  erase: "Erase",
};

/** What can be done to a user. Each act says first what will happen. */
export function Actions({
  id,
  hidden,
  audience,
  override,
  done,
  changed,
  erased,
}: {
  id: string;
  hidden: boolean;
  audience: Audience | undefined;
  override: Override | null | undefined;
  done: () => void;
  changed: () => void;
  erased: (receipt: Receipt) => void;
}) {
  const [act, setAct] = useState<Act | null>(null);
  const [said, setSaid] = useState("");
  const offered: Act[] = [hidden ? "show" : "hide", "seen", "deny", "override", "export", "erase"];
  return (
    <>
      <div class="acts">
        {offered.map((name) => (
          <button type="button" key={name} class={name === "erase" ? "danger" : ""} onClick={() => setAct(name)}>
            {names[name]}
          </button>
        ))}
        <span class="said" role="status">
          {said}
        </span>
      </div>
      {act && (
        <Confirm
          act={act}
          id={id}
          audience={audience}
          override={override}
          close={() => setAct(null)}
          done={(text, receipt) => {
            setAct(null);
            setSaid(text);
            if (receipt) erased(receipt);
            done();
            changed();
            // A read follows a write within a second.
            setTimeout(done, 1000);
          }}
        />
      )}
    </>
  );
}

const what: Record<Act, string[]> = {
  hide: [
    "Others see no state, no times and no devices within a second; those who watch now are sent that.",
    "The history and deliveries name nothing while it lasts. Devices stay connected.",
    "It is a record of the log, and lasts until somebody shows the user again.",
  ],
  show: [
    "Others see the state again within a second; those who watch now are sent it.",
    "Times that others see begin at this moment. What was before it stays undisclosed.",
  ],
  seen: [
    "Others see times (exactly), words such as recently or within a week (coarsely), or neither (never).",
    "Coarsely and never hide the history, too. Who watches the user sees each change when it happens.",
  ],
  deny: [
    "A denied viewer sees what others see of a hidden user, and is not sent what happens later; others see no difference.",
    "It lasts until the viewer is allowed again. A user denies at most 10,000 viewers.",
  ],
  override: [
    "Others see the user as chosen within a second, in place of the override before; invisible is as hidden.",
    "It lasts until its end or until somebody ends it, also while the user is offline.",
  ],
  export: [
    "Everything that is held of the user is read and downloaded as JSON lines: presence, changes, status, followers.",
    "The file has personal data. Nothing is changed.",
  ],
  erase: [
    "Devices, last seen, history, visibility and edges of the follower graph are dropped, in all stores, within seconds.",
    "A receipt says on which day the last copy in a topic is gone.",
    "It cannot be undone. A later heartbeat makes a new user of the same id.",
  ],
};

function Confirm({
  act,
  id,
  audience,
  override,
  close,
  done,
}: {
  act: Act;
  id: string;
  audience: Audience | undefined;
  override: Override | null | undefined;
  close: () => void;
  done: (said: string, receipt?: Receipt) => void;
}) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<Fault | undefined>();
  const run = async (event: Event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement));
    setBusy(true);
    try {
      if (act === "erase") {
        const receipt: Receipt = await (await asked(address(userPath(id)), { method: "DELETE" })).json();
        done("Erased.", receipt);
      } else if (act === "export") {
        const text = await exported(id);
        save(`${id}.jsonl`, text);
        done(`Exported ${text.split("\n").filter(Boolean).length} lines, ${bytes(new Blob([text]).size)}.`);
      } else if (act === "override") {
        const { state, until, note } = fields;
        const body = { state, ...(note && { note }), ...(until && { until: new Date(`${until}Z`).toISOString() }) };
        const init = state ? { method: "PUT", body: JSON.stringify(body) } : { method: "DELETE" };
        await asked(address(userPath(id, "/override")), init);
        done(state ? "Override set." : "Override over.");
      } else if (act === "deny") {
        const { change = "", viewer } = fields;
        const body = JSON.stringify({ [String(change)]: [viewer] });
        await asked(address(userPath(id, "/audience/deny")), { method: "POST", body });
        done(change === "add" ? "Denied." : "Allowed.");
      } else {
        const body = JSON.stringify(act === "seen" ? fields : { base: act === "hide" ? "nobody" : "everyone" });
        await asked(address(userPath(id, "/audience")), { method: "PUT", body });
        done({ hide: "Hidden.", show: "Shown.", seen: "Last seen set." }[act]);
      }
    } catch (error) {
      setFault(error instanceof Fault ? error : new Fault(0, "broken", String(error)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`${names[act]} ${shown(id)}?`} close={close}>
      <form onSubmit={run}>
        <ul class="what">
          {what[act].map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
        {act === "seen" && (
          <label class="field">
            Others learn when the user was last here
            <select name="last_seen">
              {Object.entries(lastSeens).map(([word, name]) => (
                <option key={word} value={word} selected={word === audience?.last_seen}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        {act === "deny" && (
          <>
            <label class="field">
              Viewer
              <input name="viewer" required autocomplete="off" />
            </label>
            <label class="field">
              To this viewer the user
              <select name="change">
                <option value="add">looks hidden</option>
                <option value="remove">is shown again</option>
              </select>
            </label>
          </>
        )}
        {act === "override" && <Choices override={override} />}
        {act === "erase" && (
          <label class="field">
            Type {id} to confirm
            <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" />
          </label>
        )}
        {fault && (
          <p class="wrong" role="alert">
            {fault.message} <code>{fault.code}</code>
          </p>
        )}
        <div class="acts">
          <button
            type="submit"
            class={act === "erase" ? "main danger" : "main"}
            disabled={busy || (act === "erase" && typed !== id)}
          >
            {busy ? "Working" : `${names[act]} ${id}`}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Choices({ override }: { override: Override | null | undefined }) {
  return (
    <>
      <label class="field">
        Override
        <select name="state">
          <option value="">none</option>
          {Object.entries(overrides).map(([state, name]) => (
            <option key={state} value={state} selected={state === (override?.state ?? "dnd")}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        Until, UTC; empty: without an end
        <input name="until" type="datetime-local" step="1" defaultValue={override?.until?.slice(0, 19)} />
      </label>
      <label class="field">
        Note, for the user and administrators
        <input name="note" maxLength={256} defaultValue={override?.note} autocomplete="off" />
      </label>
    </>
  );
}

function save(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  URL.revokeObjectURL(url);
}

interface Line {
  type: string;
  [field: string]: unknown;
}

/** What is left of an erased user: the receipt of the moment, later the line of the export. */
export function Erased({
  id,
  user,
  receipt,
  history,
  children,
}: {
  id: string;
  user: User;
  receipt: Receipt | undefined;
  history: number | undefined;
  /** What is shown of a user who was not erased. */
  children: ComponentChildren;
}) {
  // Only of a user of whom nothing is known: an export is not cheap.
  const maybe = !receipt && history === 0 && user.last_seen_at === null;
  const left = useLoad(
    maybe
      ? async (signal) =>
          (await exported(id, signal))
            .split("\n")
            .filter(Boolean)
            .map((line): Line => JSON.parse(line))
            .find((line) => line.type === "erasure")
      : null,
    [id, maybe],
  );
  const gone = receipt?.last_copy_gone_on ?? left.value?.last_copy_gone_on;
  const at = receipt?.erased_at ?? left.value?.erased_at ?? left.value?.at;
  if (!receipt && !left.value) return maybe && left.loading ? null : children;
  return (
    <div class="says erased" role="status">
      <b>Erased{typeof at === "string" ? ` at ${moment(at)} UTC` : ""}.</b> Nothing about this user is kept but the id
      and a version, which fences old copies.
      {typeof gone === "string" && ` The last copy in a topic is gone on ${gone}.`}
      {receipt && (
        <dl class="facts">
          {Object.entries(receipt.topics).map(([topic, on]) => (
            <div key={topic}>
              <dt>{topic}</dt>
              <dd>{on}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}
