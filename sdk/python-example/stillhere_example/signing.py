"""Signs a frame with a gateway's key, as producers straight to Kafka need it where frames are signed.

stillhere keys gateway prints the key: gateway id, key id and secret. The frame's gateway_id must be that
gateway id. The MAC covers the partition, so the producer chooses it, as partition_of does.
"""
import hashlib
import hmac
import struct
import sys


class GatewayKey:
    def __init__(self, text: str):
        self.gateway_id, self.key_id, secret = text.strip().rsplit("/", 2)
        self.secret = bytes.fromhex(secret)

    def sign(self, frame: bytes, topic: str, partition: int, at_ms: int) -> bytes:
        """frame is an encoded Frame without key_id, sealed_at_ms and mac; at_ms is now, Unix milliseconds."""
        key_id = self.key_id.encode()
        frame += b"\xba\x01" + varint(len(key_id)) + key_id + b"\x80\x01" + varint(at_ms)  # fields 23 and 16
        head = b"stillhere frame v1\0" + topic.encode() + b"\0" + struct.pack(">i", partition)
        mac = hmac.digest(self.secret, head + frame, hashlib.sha256)
        return frame + b"\xc2\x01\x10" + mac[:16]  # field 24, which has to come last


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def partition_of(user: int, partitions: int) -> int:
    """The partition of a user: Kafka's murmur2 of the id as 8 bytes big-endian."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ 8
    for (k,) in struct.iter_unpack("<I", struct.pack(">q", user)):
        k = k * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    h = (h ^ h >> 13) * m & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions


if __name__ == "__main__":  # signing.py vectors.tsv: compares with the published frames. The first line is the master.
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().splitlines()[1:]
    for line in lines:
        text, topic, partition, at_ms, frame, signed = line.split("\t")
        got = GatewayKey(text).sign(bytes.fromhex(frame), topic, int(partition), int(at_ms)).hex()
        assert got == signed, f"{line}: got {got}"
    print(len(lines), "signed frames are as published")
