// The user id of a name in a pipeline with --ids text, as producers straight to Kafka need it.
//
// The id is the upper 63 bits of SipHash-2-4 of tenant, a zero byte and name; 1 if these are 0.
// The Kafka key of the user's records is the id as 8 bytes big-endian.
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

const u64 = (x) => BigInt.asUintN(64, x);
const rotate = (x, n) => u64(x << n) | (x >> (64n - n));

/** @param {Buffer} key 16 bytes @param {Buffer} data */
export function siphash(key, data) {
  const k0 = key.readBigUInt64LE(0), k1 = key.readBigUInt64LE(8);
  let v0 = k0 ^ 0x736f6d6570736575n, v1 = k1 ^ 0x646f72616e646f6dn;
  let v2 = k0 ^ 0x6c7967656e657261n, v3 = k1 ^ 0x7465646279746573n;
  const rounds = (n) => {
    for (; n > 0; n--) {
      v0 = u64(v0 + v1); v1 = rotate(v1, 13n) ^ v0; v0 = rotate(v0, 32n);
      v2 = u64(v2 + v3); v3 = rotate(v3, 16n) ^ v2;
      v0 = u64(v0 + v3); v3 = rotate(v3, 21n) ^ v0;
      v2 = u64(v2 + v1); v1 = rotate(v1, 17n) ^ v2; v2 = rotate(v2, 32n);
    }
  };
  const padded = Buffer.alloc((Math.floor(data.length / 8) + 1) * 8);
  data.copy(padded);
  padded[padded.length - 1] = data.length & 0xff;
  for (let i = 0; i < padded.length; i += 8) {
    const word = padded.readBigUInt64LE(i);
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  v2 ^= 0xffn;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

const orOne = (x) => (x === 0n ? 1n : x);
export const userId = (key, tenant, name) => orOne(siphash(key, Buffer.from(`${tenant}\0${name}`)) >> 1n);
export const deviceId = (key, tenant, name, device) =>
  Number(orOne(siphash(key, Buffer.from(`${tenant}\0${name}\0${device}`)) >> 32n));

export function kafkaKey(user) {
  const key = Buffer.alloc(8);
  key.writeBigInt64BE(user);
  return key;
}

if (fileURLToPath(import.meta.url) === realpathSync(process.argv[1])) { // identity.mjs vectors.tsv: compares with the published ids
  const [key, ...lines] = readFileSync(process.argv[2], "utf8").replace(/\n$/, "").split("\n");
  for (const line of lines) {
    const [tenant, name, device, user, number] = line.split("\t");
    const secret = Buffer.from(key, "hex");
    const got = [String(userId(secret, tenant, name)), String(deviceId(secret, tenant, name, device))];
    if (got[0] !== user || got[1] !== number) throw new Error(`${line}: got ${got}`);
  }
  console.log(lines.length, "ids are as published");
}
