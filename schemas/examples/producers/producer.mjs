// Writes a heartbeat of a user by name to Kafka, in a pipeline with --ids text, with KafkaJS.
//
//     cd schemas/examples/producers
//     npm install kafkajs protobufjs
//     node producer.mjs 127.0.0.1:9092 identity.key acme ann@example.com phone
//
// Where heartbeats are signed, STILLHERE_GATEWAY_KEY_FILE names a file with the line that stillhere keys gateway prints.
//
// A device's first beat has the name of its user, and one beat in five minutes. The beats between need none.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import kafkajs from "kafkajs";
import protobuf from "protobufjs";
import { deviceId, kafkaKey, userId } from "./identity.mjs";
import { GatewayKey } from "./signing.mjs";

const [brokers, keyFile, tenant, name, device] = process.argv.slice(2);
if (device === undefined) throw new Error("usage: producer.mjs BROKERS KEY-FILE TENANT NAME DEVICE");

const root = new protobuf.Root();
root.resolvePath = (_origin, target) => fileURLToPath(new URL(`../../proto/${target}`, import.meta.url));
const Frame = (await root.load("stillhere/v1/frame.proto")).lookupType("stillhere.v1.Frame");

const topic = "presence.heartbeats";
const signingFile = process.env.STILLHERE_GATEWAY_KEY_FILE;
const signer = signingFile && new GatewayKey(readFileSync(signingFile, "utf8"));
const key = Buffer.from(readFileSync(keyFile, "ascii").trim(), "hex");
const user = userId(key, tenant, name);
const frame = Frame.fromObject({
  version: 1,
  userId: [String(user)], // 64-bit ids exceed what a number holds
  deviceId: [deviceId(key, tenant, name, device)],
  deviceKind: ["DEVICE_KIND_MOBILE"],
  named: [{ row: 0, tenant, name }],
  ...(signer && { gatewayId: signer.gatewayId, gatewayEpochMs: Date.now() }), // when its process started
});

const { Kafka, Partitioners, logLevel } = kafkajs;
const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });
// The default partitioner hashes as Java's does.
const producer = kafka.producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner });
await producer.connect();
const message = { key: kafkaKey(user), value: Buffer.from(Frame.encode(frame).finish()) };
if (signer) {
  const admin = kafka.admin();
  await admin.connect();
  const partitionMetadata = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions;
  await admin.disconnect();
  message.partition = Partitioners.DefaultPartitioner()({ topic, partitionMetadata, message });
  message.value = signer.sign(message.value, topic, message.partition, Date.now());
}
await producer.send({ topic, acks: -1, messages: [message] });
await producer.disconnect();
