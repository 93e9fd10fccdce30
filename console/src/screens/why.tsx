import { useEffect, useRef } from "preact/hooks";
import { get } from "../api";
import { moment, words } from "../format";
import { useLoad } from "../live";
import { momentsOf, WhyAxis } from "../parts/axis";
import { Copy, Panel, Problem, StateWord, Waiting } from "../parts/basic";
import type { Explanation } from "../types";

/** Why a change happened: the rule, what was known on a time axis, the record, and the text of the command line. */
export function Why({ event, close }: { event: string; close: () => void }) {
  const why = useLoad((signal) => get<Explanation>("console/api/explain", { event_id: event }, signal), [event]);
  const box = useRef<HTMLDivElement>(null);
  const { value } = why;
  useEffect(() => {
    box.current?.scrollIntoView({ block: "nearest" });
  }, [event, value !== undefined]);
  const moments = value ? momentsOf(value) : [];
  return (
    <div ref={box} class="why">
      <Panel
        title="Why"
        side={
          <button type="button" class="small" onClick={close}>
            Close
          </button>
        }
      >
        {why.fault ? (
          <Problem fault={why.fault} again={why.again} inline />
        ) : !value ? (
          <Waiting what="the explanation; the log is read" />
        ) : (
          <>
            <p class="verdict">
              <StateWord state={value.change.to} /> at <span class="mono">{moment(value.change.at, true)}</span> UTC,
              was {value.change.from}: <b>{words(value.change.cause)}</b>
            </p>
            <p>{sentence(value.rule)}</p>
            {moments.length > 1 && <WhyAxis moments={moments} at={value.change.at} />}
            <dl class="facts">
              <div>
                <dt>Record</dt>
                <dd class="mono">
                  {value.place.topic} {value.place.partition}:{value.place.offset}
                  {value.record
                    ? `, ${words(value.record.kind)}, appended ${moment(value.record.time, true)}`
                    : `: ${value.record_gone}`}
                </dd>
              </div>
              <div>
                <dt>Policy</dt>
                <dd class="mono">{value.policy.id}</dd>
              </div>
              {value.replay && (
                <div>
                  <dt>Replay</dt>
                  <dd>{value.replay.agrees ? "gives the same change" : "gives another change than was published"}</dd>
                </div>
              )}
              <div>
                <dt>Event</dt>
                <dd class="mono">{value.event_id}</dd>
              </div>
            </dl>
            <details>
              <summary>As stillhere explain prints it</summary>
              <pre>{value.text}</pre>
              <Copy text={value.text} />
            </details>
          </>
        )}
      </Panel>
    </div>
  );
}

/** A rule of the detector's documents as a sentence. */
const sentence = (rule: string) => `${rule[0]!.toUpperCase()}${rule.slice(1).replace(/\.$/, "")}.`;
