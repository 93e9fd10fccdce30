"""Reads presence transitions and writes heartbeats with confluent-kafka.

    cd schemas/examples
    protoc -I ../proto --python_out=. ../proto/stillhere/v1/*.proto
    pip install confluent-kafka protobuf
    python presence.py 127.0.0.1:9092 watch          # prints every change from now on
    python presence.py 127.0.0.1:9092 watch 3        # the first three that there are, then ends
    python presence.py 127.0.0.1:9092 beat 42 7      # user 42 was heard on device 7
"""
import datetime
import struct
import sys

from confluent_kafka import Consumer, Producer

from stillhere.v1 import frame_pb2, transition_pb2


def unframed(value: bytes) -> bytes:
    """Takes off the head of a Schema Registry's client, if there is one."""
    if not value or value[0] != 0:
        return value
    at = 5  # zero byte, schema id; then the message's path: zigzag varints, their count first
    count, at = varint(value, at)
    for _ in range(count >> 1):
        _, at = varint(value, at)
    return value[at:]


def varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def watch(brokers: str, limit: int | None) -> None:
    consumer = Consumer({
        "bootstrap.servers": brokers,
        "group.id": "example.presence",
        "isolation.level": "read_committed",  # without it you see what was aborted, and everything twice
        "auto.offset.reset": "latest" if limit is None else "earliest",
    })
    consumer.subscribe(["presence.transitions"])
    newest: dict[int, int] = {}  # of each user the greatest version: older ones are repeats
    try:
        while limit is None or limit > 0:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise SystemExit(str(message.error()))
            change = transition_pb2.Transition.FromString(unframed(message.value()))
            if change.version <= newest.get(change.user_id, 0):
                continue
            newest[change.user_id] = change.version
            at = datetime.datetime.fromtimestamp(change.at_ms / 1000, datetime.timezone.utc)
            state = transition_pb2.State.Name(change.to).removeprefix("STATE_").lower()
            cause = transition_pb2.Cause.Name(change.cause).removeprefix("CAUSE_").lower()
            print(f"{at.isoformat(timespec='milliseconds')} user {change.user_id} is {state} ({cause})", flush=True)
            if limit is not None:
                limit -= 1
    finally:
        consumer.close()


def beat(brokers: str, user: int, device: int) -> None:
    producer = Producer({
        "bootstrap.servers": brokers,
        # Not librdkafka's default, which hashes with CRC32 and puts users in wrong partitions.
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
    })
    frame = frame_pb2.Frame(version=1, user_id=[user], device_id=[device], device_kind=[frame_pb2.DEVICE_KIND_WEB])
    failed = []
    producer.produce("presence.heartbeats", key=struct.pack(">q", user), value=frame.SerializeToString(),
                     on_delivery=lambda error, message: failed.append(error) if error else
                     print(f"written to partition {message.partition()}", flush=True))
    producer.flush()
    if failed:
        raise SystemExit(str(failed[0]))


if __name__ == "__main__":
    if len(sys.argv) < (5 if sys.argv[2:3] == ["beat"] else 3) or sys.argv[2] not in ("watch", "beat"):
        raise SystemExit(__doc__)
    if sys.argv[2] == "beat":
        beat(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]))
    else:
        watch(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else None)
