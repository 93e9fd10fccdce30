"""The user id of a name in a pipeline with --ids text, as producers straight to Kafka need it.

The id is the upper 63 bits of SipHash-2-4 of tenant, a zero byte and name; 1 if these are 0.
The Kafka key of the user's records is the id as 8 bytes big-endian.
"""
import struct
import sys

M = (1 << 64) - 1


def siphash(key: bytes, data: bytes) -> int:
    k0, k1 = struct.unpack("<2Q", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x, n):
        return (x << n | x >> (64 - n)) & M

    def rounds(n):
        for _ in range(n):
            v[0] = (v[0] + v[1]) & M
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & M
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & M
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & M
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    whole = len(data) // 8 * 8
    words = list(struct.unpack(f"<{whole // 8}Q", data[:whole]))
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def user_id(key: bytes, tenant: str, name: str) -> int:
    return max(1, siphash(key, tenant.encode() + b"\0" + name.encode()) >> 1)


def device_id(key: bytes, tenant: str, name: str, device: str) -> int:
    return max(1, siphash(key, b"\0".join(s.encode() for s in (tenant, name, device))) >> 32)


def kafka_key(user: int) -> bytes:
    return struct.pack(">q", user)


if __name__ == "__main__":  # identity.py vectors.tsv: compares with the published ids
    lines = open(sys.argv[1], encoding="utf-8").read().removesuffix("\n").split("\n")
    key = bytes.fromhex(lines[0])
    for line in lines[1:]:
        tenant, name, device, user, number = line.split("\t")
        got = (user_id(key, tenant, name), device_id(key, tenant, name, device))
        assert got == (int(user), int(number)), (line, got)
    print(len(lines) - 1, "ids are as published")
