// Signs a frame with a gateway's key, as producers straight to Kafka need it where frames are signed.
//
// stillhere keys gateway prints the key: gateway id, key id and secret. The frame's gatewayId must be that
// gateway id. The MAC covers the partition, so the producer has to choose it.
import { createHmac } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

export class GatewayKey {
  /** @param {string} text */
  constructor(text) {
    const [, gatewayId, keyId, secret] = /^(.+)\/([^/]+)\/([0-9a-f]{64})$/.exec(text.trim());
    Object.assign(this, { gatewayId, keyId, secret: Buffer.from(secret, "hex") });
  }

  /**
   * @param {Buffer} frame an encoded Frame without keyId, sealedAtMs and mac @param {string} topic @param {number} partition
   * @param {number} atMs now, Unix milliseconds
   */
  sign(frame, topic, partition, atMs) {
    const keyId = Buffer.from(this.keyId);
    const signed = Buffer.concat([frame, Buffer.from([0xba, 0x01, ...varint(keyId.length)]), keyId, // field 23
      Buffer.from([0x80, 0x01, ...varint(atMs)])]); // field 16
    const head = Buffer.from(`stillhere frame v1\0${topic}\0....`);
    head.writeInt32BE(partition, head.length - 4);
    const mac = createHmac("sha256", this.secret).update(head).update(signed).digest().subarray(0, 16);
    return Buffer.concat([signed, Buffer.from([0xc2, 0x01, 16]), mac]); // field 24, which has to come last
  }
}

const varint = (n) => (n < 0x80 ? [n] : [(n % 0x80) | 0x80, ...varint(Math.floor(n / 0x80))]);

if (fileURLToPath(import.meta.url) === realpathSync(process.argv[1])) { // signing.mjs vectors.tsv: compares with the published frames
  const lines = readFileSync(process.argv[2], "utf8").replace(/\n$/, "").split("\n").slice(1); // the first is the master
  for (const line of lines) {
    const [text, topic, partition, atMs, frame, signed] = line.split("\t");
    const got = new GatewayKey(text).sign(Buffer.from(frame, "hex"), topic, Number(partition), Number(atMs)).toString("hex");
    if (got !== signed) throw new Error(`${line}: got ${got}`);
  }
  console.log(lines.length, "signed frames are as published");
}
