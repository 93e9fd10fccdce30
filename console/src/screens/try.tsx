import { useEffect, useRef, useState } from "preact/hooks";
import { address, events, Fault, send, tenantNow, token } from "../api";
import { useSession } from "../context";
import { clock } from "../format";
import { Choice, Copy, Panel, StateWord } from "../parts/basic";
import { link } from "../route";
import { type Act, acts, type Language, languages, snippet } from "../snippets";
import { Claims } from "../token";
import { kinds, type User } from "../types";

interface Said {
  n: number;
  at: number;
  what: string;
  text: string;
  bad?: boolean;
}

/** What the page itself does as a device and as a viewer. */
interface Running {
  socket?: WebSocket;
  timer?: number;
  watch?: AbortController;
}

export function Try() {
  const { me } = useSession();
  const text = me?.ids === "text";
  const [bearer, setBearer] = useState(token());
  const [user, setUser] = useState("");
  const [device, setDevice] = useState("7");
  const [kind, setKind] = useState<string>("web");
  const [said, setSaid] = useState<Said[]>([]);
  const [state, setState] = useState<User | undefined>();
  const [connected, setConnected] = useState(false);
  const [watching, setWatching] = useState("");
  const [language, setLanguage] = useState<Language>("curl");
  const [act, setAct] = useState<Act>("beat");
  const running = useRef<Running>({});
  const count = useRef(0);
  const id = user || (text ? "ann" : "1");
  const tenant = tenantNow();

  const note = (what: string, words: string, bad = false) =>
    setSaid((old) => [{ n: ++count.current, at: Date.now(), what, text: words, bad }, ...old].slice(0, 200));
  const failed = (what: string, error: unknown) =>
    note(
      what,
      error instanceof Fault ? `${error.status || ""} ${error.code}: ${error.message}`.trim() : String(error),
      true,
    );

  const leave = () => {
    clearTimeout(running.current.timer);
    running.current.socket?.close(1000);
    delete running.current.socket;
    setConnected(false);
  };
  const unwatch = () => {
    running.current.watch?.abort();
    delete running.current.watch;
    setWatching("");
    setState(undefined);
  };
  useEffect(
    () => () => {
      clearTimeout(running.current.timer);
      running.current.socket?.close(1000);
      running.current.watch?.abort();
    },
    [],
  );

  const beat = async (bye: boolean) => {
    const what = bye ? "bye" : "beat";
    const one = {
      user_id: id,
      device_id: text ? device : Number(device),
      device_kind: kind,
      ...(tenant && { tenant }),
      ...(bye && { bye: true }),
    };
    try {
      const began = performance.now();
      const url = address("presence/heartbeats", {}, "");
      const answer = await send(url, { method: "POST", body: JSON.stringify({ beats: [one] }) }, bearer);
      const took = Math.round(performance.now() - began);
      note(what, `${answer.status} ${JSON.stringify(await answer.json())}, ${took} ms`);
    } catch (error) {
      failed(what, error);
    }
  };

  const connect = () => {
    if (running.current.socket) return leave();
    const url = address("presence/connect", {
      user_id: id,
      device_id: device,
      device_kind: kind,
      access_token: bearer,
    });
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    running.current.socket = socket;
    const next = (after: number, interval: number, jitter: number) => {
      clearTimeout(running.current.timer);
      running.current.timer = window.setTimeout(() => {
        socket.send(".");
        note("socket", "beat");
        next(interval - Math.random() * jitter, interval, jitter);
      }, after);
    };
    socket.onopen = () => {
      setConnected(true);
      note("socket", `connected as ${id}; connecting is the first beat`);
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      note("socket", data);
      if (message.type === "hello") {
        const interval = message.heartbeat_interval_ms;
        next(Math.random() * interval, interval, message.heartbeat_jitter_ms);
      }
    };
    socket.onclose = ({ code, reason }) => {
      clearTimeout(running.current.timer);
      note("socket", `closed ${code}${reason && `: ${reason}`}`, code !== 1000);
      if (running.current.socket === socket) {
        delete running.current.socket;
        setConnected(false);
      }
    };
  };

  const watch = async () => {
    if (running.current.watch) return unwatch();
    const stop = new AbortController();
    running.current.watch = stop;
    setWatching(id);
    try {
      const url = address("presence/stream", { user_ids: id });
      const init = { signal: stop.signal, headers: { Accept: "text/event-stream" } };
      for await (const event of events(url, init, 0, bearer)) {
        const message = JSON.parse(event.data);
        const first: User | undefined = message.user ?? message.users?.[0];
        if (first) setState(first);
        note("stream", event.data);
      }
      note("stream", "ended by the server", true);
    } catch (error) {
      if (!stop.signal.aborted) failed("stream", error);
    }
    if (running.current.watch === stop) unwatch();
  };

  const wanted = {
    server: address("", {}, "").href.replace(/\/$/, ""),
    user: id,
    device,
    kind,
    tenant,
    text,
    token: bearer !== "",
  };
  const code = snippet(language, wanted, act);
  const goodDevice = text ? device !== "" : /^[1-9]\d*$/.test(device);
  return (
    <div class="try">
      <div class="stack">
        <Panel title="As a device and a viewer" side="in this page">
          <form class="fields" onSubmit={(event) => event.preventDefault()}>
            <label class="field">
              User {text ? "name" : "id"}
              <input
                value={user}
                placeholder={text ? "ann" : "1"}
                onInput={(event) => setUser(event.currentTarget.value.trim())}
                spellcheck={false}
              />
            </label>
            <label class="field">
              Device id
              <input
                value={device}
                onInput={(event) => setDevice(event.currentTarget.value.trim())}
                aria-invalid={!goodDevice}
                spellcheck={false}
              />
            </label>
            <label class="field">
              Device kind
              <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
                {kinds.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
            <label class="field broad">
              Token {me?.authenticated ? "" : "(this server wants none)"}
              <textarea
                rows={2}
                value={bearer}
                onInput={(event) => setBearer(event.currentTarget.value.trim())}
                spellcheck={false}
                autocomplete="off"
                placeholder={me?.authenticated ? "of the device or the viewer" : ""}
              />
            </label>
          </form>
          <Claims text={bearer} />
          <div class="acts">
            <button type="button" class="main" onClick={() => beat(false)} disabled={!goodDevice}>
              Beat
            </button>
            <button type="button" onClick={() => beat(true)} disabled={!goodDevice}>
              Bye
            </button>
            <button type="button" onClick={connect} aria-pressed={connected} disabled={!goodDevice}>
              {connected ? "Disconnect" : "Connect a socket"}
            </button>
            <button type="button" onClick={watch} aria-pressed={watching !== ""}>
              {watching ? `Stop watching ${watching}` : "Watch"}
            </button>
            {state && (
              <span class="said" role="status">
                <a href={link("users", [state.user_id], { tenant })}>{state.user_id}</a>{" "}
                <StateWord state={state.state} />
              </span>
            )}
          </div>
        </Panel>
        <Panel
          title="Messages"
          class="log"
          side={
            said.length > 0 && (
              <button type="button" class="small" onClick={() => setSaid([])}>
                Clear
              </button>
            )
          }
        >
          {said.length === 0 ? (
            <p class="note">Answers and messages appear here, the newest first.</p>
          ) : (
            <div class="said-list scroll" role="log" tabIndex={0} aria-label="Messages">
              {said.map((line) => (
                <p key={line.n} class={line.bad ? "wrong" : ""}>
                  <time class="mono">{clock(line.at, true)}</time> <b>{line.what}</b> <code>{line.text}</code>
                </p>
              ))}
            </div>
          )}
        </Panel>
      </div>
      <Panel title="The same from a program" side={<Copy text={code} />}>
        <div class="tools">
          <Choice label="What" value={act} options={acts.map((a) => [a, a] as const)} choose={setAct} />
          <Choice
            label="Language"
            value={language}
            options={languages.map((l) => [l, l] as const)}
            choose={setLanguage}
          />
        </div>
        <pre class="code" tabIndex={0}>
          {code}
        </pre>
        {bearer && (
          <p class="note">
            The token is not in this text: put it into the environment as <code>TOKEN</code>.
          </p>
        )}
      </Panel>
    </div>
  );
}
