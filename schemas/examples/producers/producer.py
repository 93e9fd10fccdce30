"""Writes a heartbeat of a user by name to Kafka, in a pipeline with --ids text, with confluent-kafka.

    cd schemas/examples/producers
    protoc -I ../../proto --python_out=. stillhere/v1/frame.proto stillhere/v1/policy.proto
    pip install confluent-kafka protobuf
    python producer.py 127.0.0.1:9092 identity.key acme ann@example.com phone

A device's first beat has the name of its user, and one beat in five minutes. The beats between need none.

Where heartbeats are signed, STILLHERE_GATEWAY_KEY_FILE names a file with the line that stillhere keys gateway prints.
"""
import os
import sys
import time

from confluent_kafka import Producer
from identity import device_id, kafka_key, user_id
from signing import GatewayKey, partition_of
from stillhere.v1 import frame_pb2

TOPIC = "presence.heartbeats"
STARTED_MS = int(time.time() * 1000)  # the epoch of the gateway


def beat(brokers: str, key: bytes, tenant: str, name: str, device: str, signer: GatewayKey | None = None) -> None:
    user = user_id(key, tenant, name)
    frame = frame_pb2.Frame(version=1, user_id=[user], device_id=[device_id(key, tenant, name, device)],
                            device_kind=[frame_pb2.DEVICE_KIND_MOBILE],
                            named=[frame_pb2.NamedRow(row=0, tenant=tenant, name=name)])
    producer = Producer({
        "bootstrap.servers": brokers,
        # Not librdkafka's default, which hashes with CRC32 and puts users in wrong partitions.
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
    })
    value, partition = frame.SerializeToString(), -1  # by the key
    if signer:
        frame.gateway_id, frame.gateway_epoch_ms = signer.gateway_id, STARTED_MS
        partition = partition_of(user, len(producer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions))
        value = signer.sign(frame.SerializeToString(), TOPIC, partition, int(time.time() * 1000))
    failed = []
    producer.produce(TOPIC, key=kafka_key(user), value=value, partition=partition,
                     on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush()
    if failed:
        raise SystemExit(str(failed[0]))


if __name__ == "__main__":
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    signer = None
    if path := os.environ.get("STILLHERE_GATEWAY_KEY_FILE"):
        with open(path, encoding="utf-8") as file:
            signer = GatewayKey(file.read())
    with open(sys.argv[2], encoding="ascii") as file:
        beat(sys.argv[1], bytes.fromhex(file.read().strip()), *sys.argv[3:], signer)
