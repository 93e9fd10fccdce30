import { useState } from "preact/hooks";
import { useSession } from "../context";
import { ago, clock, count, moment, rate, since, span, words } from "../format";
import { useClock } from "../live";
import { LastBeat } from "../parts/axis";
import { Choice, Empty, Panel, Problem, Waiting } from "../parts/basic";
import { Spark } from "../parts/spark";
import { type Column, List, Table } from "../parts/table";
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
      <Verdict now={now} />
      <Numbers now={now} past={past} />
      <div class="columns">
        <div class="stack">
          <Kinds now={now} />
          <Health now={now} />
        </div>
        <Gateways all={now.gateways} signing={now.signing} />
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

/** Whether the pipeline is well, in one line: the first thing an operator asks. */
function Verdict({ now }: { now: Overview }) {
  const all = now.problems;
  if (!all) return null; // of a tenant: what is of all tenants is not shown to it
  const [first, ...more] = all;
  if (first === undefined) {
    const counts = now.counts;
    const present = counts && `${count((counts.online ?? 0) + (counts.away ?? 0))} present, `;
    return (
      <p class="says well" role="status">
        <b>Healthy.</b> {present}
        {now.partitions && `${count(now.partitions.length)} partitions keep up`}
        {now.gateways && ", no gateway is lost"}.
      </p>
    );
  }
  if (more.length === 0)
    return (
      <p class="says erased" role="status">
        <b>Not well:</b> {first}.
      </p>
    );
  return (
    <div class="says erased" role="status">
      <details>
        <summary>
          <b>Not well:</b> {first}, and {count(more.length)} more.
        </summary>
        <ul class="what">
          {more.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      </details>
    </div>
  );
}

function Numbers({ now, past }: { now: Overview; past: Past | undefined }) {
  const tiles: [keyof Omit<Past, "from" | "step_seconds">, string, string, string][] = [
    ["online", "Online", count(now.counts?.online), now.counts?.online === 1 ? "user" : "users"],
    ["away", "Away", count(now.counts?.away), now.counts?.away === 1 ? "user" : "users"],
    ["beats", "Beats", rate(now.rates?.beats), "a second"],
    ["changes", "Changes", rate(now.rates?.changes), "a second"],
    ["deliveries", "Deliveries", rate(now.rates?.deliveries), "a second"],
  ];
  return (
    <section class="numbers" aria-label="Numbers, with those since the page was opened">
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
              label={`${title}, since the page was opened: at most ${show(most)}`}
              zero={name !== "online"}
            />
            <span class="range">
              {known.length > 1 ? `${show(Math.min(...known))} to ${show(most)}` : "not known yet"}
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
    <Panel title="Present by device kind" side="a user with two kinds counts in both">
      {by ? (
        <Table
          class="kinds"
          rows={rows}
          keyOf={(r) => r.kind}
          columns={[
            { title: "Kind", cell: (r) => r.kind },
            {
              title: "Share",
              aside: true,
              look: "fill",
              cell: (r) => (
                <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={(r.n / most) * 100} height="8" />
                </svg>
              ),
            },
            { title: "Users", look: "n", cell: (r) => count(r.n) },
          ]}
        />
      ) : (
        <Empty title="Not known" />
      )}
    </Panel>
  );
}

function Gateways({ all, signing }: { all: Gateway[] | null; signing: Overview["signing"] }) {
  const time = useClock();
  const named = all ?? [];
  const of = (state: Gateway["state"]) => named.filter((g) => g.state === state).length;
  const [lost, draining, alive, idle] = [of("lost"), of("draining"), of("alive"), of("idle")];
  const users = named.some((g) => g.users !== null);
  return (
    <Panel
      title="Gateways"
      side={
        all && (
          <>
            {lost > 0 && <b class="bad">{lost} lost, </b>}
            {draining > 0 && <b class="warn">{draining} draining, </b>}
            {alive} alive{idle > 0 && `, ${idle} idle`}
          </>
        )
      }
    >
      {signing && signing.masters.length > 0 && !signing.checked && (
        <p class="note">
          Keys are not checked here: anybody who may write heartbeats may have written what this list shows.
        </p>
      )}
      <List
        rows={all}
        label="Gateways, lost ones first"
        height="middle"
        none="No gateway has named itself"
        unknown="The heartbeats of the last minute are still being read, or this process may not read them."
        why="Beats that come without a gateway's name count for users, and appear in no list of gateways."
        keyOf={(g) => `${g.gateway} ${g.epoch}`}
        mark={(g) => g.state}
        columns={[
          {
            title: "Gateway",
            look: "cut",
            cell: (g) => g.gateway,
            hint: (g) => (g.epoch ? `${g.gateway}, started ${startOf(g.epoch)}` : g.gateway),
          },
          { title: "State", cell: (g) => <span class={`word ${g.state}`}>{g.state}</span> },
          ...(users ? [numbers("Users", (g: Gateway) => count(g.users))] : []),
          {
            title: "Last frame",
            look: "n",
            cell: (g) => ago(g.last_seen_at, time),
            hint: (g) => moment(g.last_seen_at),
          },
        ]}
      />
    </Panel>
  );
}

/** A column of numbers, with what marks a cell. */
function numbers<T>(title: string, cell: (row: T) => string, mark?: (row: T) => string): Column<T> {
  return { title, cell, look: "n", ...(mark && { mark }) };
}

/** Marks what waits. */
const some = (row: { lag_records: number | null }) => (row.lag_records ? "some" : "");

/** Whether something is ready; null: not known. */
function Ready({ ready }: { ready: boolean | null }) {
  if (ready === null) return <span class="word">not known</span>;
  return <span class={`word ${ready ? "alive" : "lost"}`}>{ready ? "ready" : "not ready"}</span>;
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
              <Ready ready={d.ready} />
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
  const rows = all && [...all];
  if (sort === "lag") rows?.sort((a, b) => (b.lag_records ?? -1) - (a.lag_records ?? -1) || a.partition - b.partition);
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
      <List
        rows={rows}
        label="Partitions"
        none="No partition yet"
        keyOf={(p) => p.partition}
        columns={[
          numbers<Partition>("No.", (p) => String(p.partition)),
          {
            title: "Owner",
            look: "cut",
            cell: (p) => p.owner ?? <span class="dim">no owner known</span>,
            hint: (p) => p.owner ?? "",
          },
          { title: "Phase", cell: (p) => words(p.phase) || "–" },
          numbers<Partition>("Lag, records", (p) => count(p.lag_records), some),
          numbers<Partition>(
            "Lag",
            (p) => span(p.lag_seconds),
            (p) => late(p.lag_seconds),
          ),
          numbers<Partition>(
            "Watermark behind",
            (p) => span(p.watermark_age_seconds),
            (p) => late(p.watermark_age_seconds),
          ),
        ]}
      />
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
    <Panel title="Policy in force" side={policy?.id && <code>{policy.id}</code>}>
      {known.length === 0 ? (
        <Empty title="Not known here" />
      ) : (
        <>
          {policy?.since && <p class="note">Since {moment(policy.since)} UTC.</p>}
          <LastBeat
            texts={texts}
            longest={Math.max(away, silent, 1) * 1.15}
            title="What others see after a last heartbeat"
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
              Try another policy
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
      <List
        rows={all}
        label="Instances"
        height="short"
        none="None is known"
        keyOf={(i, n) => `${i.role} ${i.instance} ${n}`}
        columns={[
          { title: "Role", cell: (i) => i.role },
          { title: "Instance", look: "cut", cell: (i) => i.instance ?? i.host ?? "–", hint: (i) => i.host ?? "" },
          { title: "Version", look: "cut", cell: (i) => i.version ?? "–" },
          {
            title: "Running for",
            look: "n",
            cell: (i) => since(i.started_at, time),
            hint: (i) => moment(i.started_at),
          },
          numbers<Instance>("Detects", (i) => String(owned(i.instance) || "–")),
          { title: "State", cell: (i) => <Ready ready={i.ready} /> },
        ]}
      />
    </Panel>
  );
}

function Groups({ all }: { all: Group[] | null }) {
  return (
    <Panel title="Consumer groups" side={all ? count(all.length) : ""}>
      <List
        rows={all}
        label="Consumer groups"
        height="middle"
        none="None is known"
        keyOf={(g) => g.group}
        columns={[
          { title: "Group", cell: (g) => g.group },
          { title: "State", cell: (g) => words(g.state).toLowerCase() || "–" },
          numbers<Group>("Members", (g) => (g.members ? count(g.members.length) : "–")),
          numbers<Group>("Lag, records", (g) => count(g.lag_records), some),
        ]}
      />
    </Panel>
  );
}
