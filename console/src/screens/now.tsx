import { useState } from "preact/hooks";
import { useSession } from "../context";
import { ago, clock, count, moment, rate, since, span, words } from "../format";
import { useClock } from "../live";
import { LastBeat } from "../parts/axis";
import { Choice, Empty, Panel, Problem, Waiting } from "../parts/basic";
import { Spark } from "../parts/spark";
import { seconds, settings, textsOf } from "../policy";
import { go, link } from "../route";
import type { Gateway, Group, Instance, Overview, Partition, Past } from "../types";
import { kinds } from "../types";

export function Now() {
  const { live } = useSession();
  const { now, past, link: connection } = live;
  if (connection.how === "refused" && connection.fault) return <Problem fault={connection.fault} />;
  if (!now)
    return connection.how === "lost" && connection.fault ? (
      <Empty title="The server does not answer">Nothing is known until it does.</Empty>
    ) : (
      <Waiting what="the overview" />
    );
  return (
    <div class={connection.how === "lost" ? "now old" : "now"}>
      <Numbers now={now} past={past} />
      <div class="columns">
        <div class="stack">
          <Kinds now={now} />
          <Health now={now} />
        </div>
        <Gateways all={now.gateways} />
        <Policy now={now} />
      </div>
      <div class="columns wide-first">
        <Partitions all={now.partitions} />
        <div class="stack">
          <Instances all={now.instances} groups={now.groups} />
          <Groups all={now.groups} />
        </div>
      </div>
    </div>
  );
}

function Numbers({ now, past }: { now: Overview; past: Past | undefined }) {
  const tiles: [keyof Omit<Past, "from" | "step_seconds">, string, string, string][] = [
    ["online", "Online", count(now.counts?.online), "users"],
    ["away", "Away", count(now.counts?.away), "users"],
    ["beats", "Beats", rate(now.rates?.beats), "a second"],
    ["changes", "Changes", rate(now.rates?.changes), "a second"],
    ["deliveries", "Deliveries", rate(now.rates?.deliveries), "a second"],
  ];
  return (
    <section class="numbers" aria-label="Numbers, with the last 15 minutes">
      {tiles.map(([name, title, value, unit]) => {
        const known = (past?.[name] ?? []).filter((n): n is number => n !== null);
        const show = name === "online" || name === "away" ? count : rate;
        const most = known.length ? Math.max(...known) : null;
        const inner = (
          <>
            <span class="name">{title}</span>
            <span class="value">
              {value} <small>{unit}</small>
            </span>
            <Spark
              points={past?.[name]}
              label={`${title}, the last 15 minutes: at most ${show(most)}`}
              zero={name !== "online"}
            />
            <span class="range">
              15 m: {known.length ? `${show(Math.min(...known))} to ${show(most)}` : "not known yet"}
            </span>
          </>
        );
        return name === "online" || name === "away" ? (
          <a key={name} class={`tile ${name}`} href={link("users", [], { state: name })}>
            {inner}
          </a>
        ) : (
          <div key={name} class={`tile ${name}`}>
            {inner}
          </div>
        );
      })}
    </section>
  );
}

function Kinds({ now }: { now: Overview }) {
  const by = now.counts?.by_kind;
  const rows = kinds.map((kind) => ({ kind, n: by?.[kind] ?? 0 }));
  const most = Math.max(1, ...rows.map((r) => r.n));
  return (
    <Panel title="Present by device kind" side="of two kinds: in both rows">
      {by ? (
        <table class="kinds">
          <thead>
            <tr>
              <th scope="col">Kind</th>
              <th scope="col">
                <span class="away-from-eyes">Share</span>
              </th>
              <th scope="col" class="n">
                Users
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <tr key={r.kind}>
                <th scope="row">{r.kind}</th>
                <td class="fill">
                  <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                    <rect width={(r.n / most) * 100} height="8" />
                  </svg>
                </td>
                <td class="n">{count(r.n)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty title="Not known" />
      )}
    </Panel>
  );
}

function Gateways({ all }: { all: Gateway[] | null }) {
  const time = useClock();
  const named = all ?? [];
  const of = (state: Gateway["state"]) => named.filter((g) => g.state === state).length;
  const [lost, draining, alive] = [of("lost"), of("draining"), of("alive")];
  const users = named.some((g) => g.users !== null);
  return (
    <Panel
      title="Gateways"
      side={
        all && (
          <>
            {lost > 0 && <b class="bad">{lost} lost, </b>}
            {draining > 0 && <b class="warn">{draining} draining, </b>}
            {alive} alive
          </>
        )
      }
    >
      {named.length === 0 ? (
        <Empty title={all ? "No gateway has named itself" : "Not known here"}>
          {all && "Beats that come without a gateway's name count for users, and appear in no list of gateways."}
        </Empty>
      ) : (
        <div class="scroll middle" tabIndex={0} role="group" aria-label="Gateways, lost ones first">
          <table>
            <thead>
              <tr>
                <th scope="col">Gateway</th>
                <th scope="col">State</th>
                {users && (
                  <th scope="col" class="n">
                    Users
                  </th>
                )}
                <th scope="col" class="n">
                  Last frame
                </th>
              </tr>
            </thead>
            <tbody>
              {named.map((g) => (
                <tr key={`${g.gateway} ${g.epoch}`} class={g.state}>
                  <th scope="row" class="cut" title={g.epoch ? `${g.gateway}, started ${startOf(g.epoch)}` : g.gateway}>
                    {g.gateway}
                  </th>
                  <td>
                    <span class={`word ${g.state}`}>{g.state}</span>
                  </td>
                  {users && <td class="n">{count(g.users)}</td>}
                  <td class="n" title={moment(g.last_seen_at)}>
                    {ago(g.last_seen_at, time)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

/** A gateway's epoch is when it started, in Unix milliseconds, or already a time. */
function startOf(epoch: string): string {
  return /^\d{12,14}$/.test(epoch) ? `${moment(Number(epoch))} UTC` : epoch;
}

function Health({ now }: { now: Overview }) {
  const all = now.dependencies ?? [];
  return (
    <Panel title="Health" side={`at ${clock(now.at)} UTC`}>
      {all.length === 0 ? (
        <Empty title="No dependency is known here" />
      ) : (
        <ul class="health">
          {all.map((d) => (
            <li key={d.name}>
              <span class="name">{d.name}</span>
              <span class={`word ${d.ready === null ? "" : d.ready ? "alive" : "lost"}`}>
                {d.ready === null ? "not known" : d.ready ? "ready" : "not ready"}
              </span>
              {d.error && <span class="why">{d.error}</span>}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Partitions({ all }: { all: Partition[] | null }) {
  const [sort, setSort] = useState<"partition" | "lag">("partition");
  const rows = [...(all ?? [])];
  if (sort === "lag") rows.sort((a, b) => (b.lag_records ?? -1) - (a.lag_records ?? -1) || a.partition - b.partition);
  return (
    <Panel
      title="Partitions"
      class="partitions"
      side={
        <Choice
          label="Order of partitions"
          value={sort}
          options={[
            ["partition", "By number"],
            ["lag", "By lag"],
          ]}
          choose={setSort}
        />
      }
    >
      {rows.length === 0 ? (
        <Empty title={all ? "No partition yet" : "Not known here"} />
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Partitions">
          <table>
            <thead>
              <tr>
                <th scope="col" class="n">
                  No.
                </th>
                <th scope="col">Owner</th>
                <th scope="col">Phase</th>
                <th scope="col" class="n">
                  Lag, records
                </th>
                <th scope="col" class="n">
                  Lag
                </th>
                <th scope="col" class="n">
                  Watermark behind
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((p) => (
                <tr key={p.partition}>
                  <th scope="row" class="n">
                    {p.partition}
                  </th>
                  <td class="cut" title={p.owner ?? ""}>
                    {p.owner ?? <span class="dim">no owner known</span>}
                  </td>
                  <td>{words(p.phase) || "–"}</td>
                  <td class={`n ${p.lag_records ? "some" : ""}`}>{count(p.lag_records)}</td>
                  <td class={`n ${late(p.lag_seconds)}`}>{span(p.lag_seconds)}</td>
                  <td class={`n ${late(p.watermark_age_seconds)}`}>{span(p.watermark_age_seconds)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

/** Answers are stale when the watermark is older than 5 s. */
const late = (s: number | null) => (s === null ? "" : s > 5 ? "bad" : s > 2 ? "warn" : "");

function Policy({ now }: { now: Overview }) {
  const policy = now.policy;
  const texts = textsOf(policy?.settings);
  const known = settings.filter((s) => texts[s.name] !== undefined);
  const away = seconds(texts["away-ttl"] ?? "0") || 0;
  const silent = (seconds(texts["online-ttl"] ?? "0") || 0) + (seconds(texts["offline-debounce"] ?? "0") || 0);
  return (
    <Panel
      title="Policy in force"
      side={
        policy && (
          <>
            {policy.id && <code>{policy.id}</code>}
            {policy.since && ` since ${moment(policy.since)}`}
          </>
        )
      }
    >
      {known.length === 0 ? (
        <Empty title="Not known here" />
      ) : (
        <>
          <LastBeat
            texts={texts}
            longest={Math.max(away, silent, 1) * 1.15}
            title="What others see after a last heartbeat"
            width={400}
          />
          <dl class="settings">
            {known
              .filter((s) => s.group === "timing" || s.name === "reconnect-window" || s.name === "gateway-silence")
              .map((s) => (
                <div key={s.name} title={s.help}>
                  <dt>{s.name}</dt>
                  <dd>{texts[s.name]}</dd>
                </div>
              ))}
          </dl>
          <div class="acts">
            <button type="button" class="small" onClick={() => go(link("whatif"))}>
              What if it were another one
            </button>
          </div>
        </>
      )}
    </Panel>
  );
}

function Instances({ all, groups }: { all: Instance[] | null; groups: Group[] | null }) {
  const time = useClock();
  const owned = (instance: string | null) =>
    (groups ?? [])
      .filter((g) => g.role === "detector")
      .flatMap((g) => g.members ?? [])
      .filter((m) => m.instance === instance && instance !== null)
      .reduce((sum, m) => sum + (m.partitions?.length ?? 0), 0);
  return (
    <Panel title="Instances" side={all ? count(all.length) : ""}>
      {(all ?? []).length === 0 ? (
        <Empty title={all ? "None is known" : "Not known here"} />
      ) : (
        <div class="scroll short" tabIndex={0} role="group" aria-label="Instances">
          <table>
            <thead>
              <tr>
                <th scope="col">Role</th>
                <th scope="col">Instance</th>
                <th scope="col">Version</th>
                <th scope="col" class="n">
                  Running for
                </th>
                <th scope="col" class="n">
                  Detects
                </th>
                <th scope="col">State</th>
              </tr>
            </thead>
            <tbody>
              {all!.map((i, n) => (
                <tr key={`${i.role} ${i.instance} ${n}`}>
                  <th scope="row">{i.role}</th>
                  <td class="cut" title={i.host ?? ""}>
                    {i.instance ?? i.host ?? "–"}
                  </td>
                  <td class="cut">{i.version ?? "–"}</td>
                  <td class="n" title={moment(i.started_at)}>
                    {since(i.started_at, time)}
                  </td>
                  <td class="n">{owned(i.instance) || "–"}</td>
                  <td>
                    <span class={`word ${i.ready === null ? "" : i.ready ? "alive" : "lost"}`}>
                      {i.ready === null ? "not known" : i.ready ? "ready" : "not ready"}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function Groups({ all }: { all: Group[] | null }) {
  return (
    <Panel title="Consumer groups" side={all ? count(all.length) : ""}>
      {(all ?? []).length === 0 ? (
        <Empty title={all ? "None is known" : "Not known here"} />
      ) : (
        <div class="scroll middle" tabIndex={0} role="group" aria-label="Consumer groups">
          <table>
            <thead>
              <tr>
                <th scope="col">Group</th>
                <th scope="col">State</th>
                <th scope="col" class="n">
                  Members
                </th>
                <th scope="col" class="n">
                  Lag, records
                </th>
              </tr>
            </thead>
            <tbody>
              {all!.map((g) => (
                <tr key={g.group}>
                  <th scope="row">{g.group}</th>
                  <td>{words(g.state).toLowerCase() || "–"}</td>
                  <td class="n">{g.members ? count(g.members.length) : "–"}</td>
                  <td class={`n ${g.lag_records ? "some" : ""}`}>{count(g.lag_records)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
