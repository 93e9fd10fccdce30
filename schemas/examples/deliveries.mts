/**
 * Reads presence.deliveries with KafkaJS and prints whom to notify of what.
 *
 *     cd schemas/examples
 *     npm install kafkajs kafkajs-snappy protobufjs tsx
 *     npx tsx deliveries.mts 127.0.0.1:9092      # every delivery from now on
 *     npx tsx deliveries.mts 127.0.0.1:9092 3    # the first three recipients that there are, then ends
 */
import kafkajs from "kafkajs";
// @ts-expect-error It has no types.
import snappy from "kafkajs-snappy";
import protobuf from "protobufjs";

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;
CompressionCodecs[CompressionTypes.Snappy] = snappy; // what the broker's records are compressed with

const root = new protobuf.Root();
root.resolvePath = (_origin, target) => new URL(`../proto/${target}`, import.meta.url).pathname;
const Delivery = (await root.load("stillhere/v1/fanout.proto")).lookupType("stillhere.v1.Delivery");

/** 64-bit ids and versions exceed what a number holds, so they come as decimal strings. */
interface Change {
  userId: string;
  to: string;
  cause: string;
  atMs: string;
  version: string;
}

/** Takes off the head of a Schema Registry's client, if there is one. */
function unframed(value: Buffer): Buffer {
  if (value.length === 0 || value[0] !== 0) return value;
  const reader = protobuf.Reader.create(value);
  reader.skip(5); // zero byte, schema id; then the message's path: zigzag varints, their count first
  for (let count = reader.sint32(); count > 0; count--) reader.sint32();
  return value.subarray(reader.pos);
}

/** The change, and its recipients: a running sum of the differences. */
function decode(value: Buffer): { change: Change; recipients: bigint[] } {
  const message = Delivery.toObject(Delivery.decode(unframed(value)), { longs: String, enums: String, defaults: true });
  let id = 0n;
  return { change: message.transition, recipients: message.recipientDeltas.map((delta: string) => (id += BigInt(delta))) };
}

const [brokers, limit] = process.argv.slice(2);
if (!brokers) throw new Error("usage: deliveries.mts BROKERS [COUNT]");
let left = limit === undefined ? Infinity : Number(limit);

// Of each recipient and user the greatest version: older ones are repeats. A real consumer keeps
// this, or the ids of its own messages, where it survives a restart.
const newest = new Map<string, bigint>();

// A KafkaJS consumer reads committed records only, unless told readUncommitted.
const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: "example.deliveries.typescript" });
await consumer.connect();
await consumer.subscribe({ topic: "presence.deliveries", fromBeginning: limit !== undefined });
await new Promise<void>((done, failed) => {
  consumer.on(consumer.events.CRASH, (crash) => failed(crash.payload.error));
  void consumer.run({
    // The offset is committed after this returns, so a crash repeats deliveries and loses none.
    eachMessage: async ({ message }) => {
      const { change, recipients } = decode(message.value!);
      const state = change.to.replace("STATE_", "").toLowerCase();
      const cause = change.cause.replace("CAUSE_", "").toLowerCase();
      for (const recipient of recipients) {
        const pair = `${recipient} ${change.userId}`;
        if (left === 0 || BigInt(change.version) <= (newest.get(pair) ?? 0n)) continue;
        newest.set(pair, BigInt(change.version));
        const at = new Date(Number(change.atMs)).toISOString();
        console.log(`${at} tell ${recipient}: user ${change.userId} is ${state} (${cause})`);
        left--;
      }
      if (left === 0) done();
    },
  });
});
await consumer.disconnect();
