"""Reports devices as present: over HTTP, or straight to Kafka. Both speak the generated Protobuf.

    python -m stillhere_example.producer http://127.0.0.1:8080 42 7         # user 42, device 7
    python -m stillhere_example.producer 127.0.0.1:9092 42 7                # the same, to Kafka
    python -m stillhere_example.producer http://127.0.0.1:8080 42 7 bye     # it has left

Where heartbeats are signed, STILLHERE_GATEWAY_KEY_FILE names a file with the line that stillhere keys gateway prints.
"""
from __future__ import annotations

import os
import struct
import sys
import time
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple

from stillhere.v1 import frame_pb2

from .signing import GatewayKey, partition_of

TOPIC = "presence.heartbeats"
STARTED_MS = int(time.time() * 1000)  # the epoch of a gateway: when its process began


class Beat(NamedTuple):
    """A report about one device. user is the id, with --ids text the name."""

    user: int | str
    device: int
    bye: bool = False
    idle_ms: int = 0  # how long ago the person last touched the device


def send(server: str, beats: Iterable[Beat], gateway: str = "", token: str | None = None) -> int:
    """Sends beats to the HTTP endpoint and returns how many it has accepted: all of them, once Kafka has them.

    The server knows a gateway by its name, and that it has restarted by its epoch. Without a gateway there is no grace
    period for users of a lost one. Raises urllib.error.HTTPError, whose body names the fault.
    """
    request = frame_pb2.HeartbeatsRequest(gateway_id=gateway, gateway_epoch=STARTED_MS if gateway else 0)
    for beat in beats:
        row = request.beats.add(device_id=beat.device, device_kind=frame_pb2.DEVICE_KIND_OTHER, bye=beat.bye, idle_ms=beat.idle_ms)
        if isinstance(beat.user, int):
            row.user_id = beat.user
        else:
            row.name = beat.user
    headers = {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    post = urllib.request.Request(f"{server}/presence/heartbeats", request.SerializeToString(), headers)
    with urllib.request.urlopen(post, timeout=10) as answer:
        return frame_pb2.HeartbeatsResponse.FromString(answer.read()).accepted


def write(brokers: str, beats: Iterable[Beat], key: GatewayKey | None = None) -> None:
    """Writes beats to Kafka, each as a frame of length one, with --ids int. Raises RuntimeError if Kafka refuses one.

    With a key, as the gateway that it is of.

    With --ids text it needs the identity key of the deployment: see schemas/examples/producers/identity.py.
    """
    from confluent_kafka import Producer

    producer = Producer({
        "bootstrap.servers": brokers,
        # Not librdkafka's default, which hashes with CRC32 and puts users in wrong partitions.
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
    })
    failed: list[object] = []
    partitions = len(producer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions) if key else 0
    for beat in beats:
        frame = frame_pb2.Frame(
            version=1,
            user_id=[int(beat.user)],
            device_id=[beat.device],
            device_kind=[frame_pb2.DEVICE_KIND_OTHER],
            beat_kind=[frame_pb2.BEAT_KIND_BYE if beat.bye else frame_pb2.BEAT_KIND_BEAT],
            idle_ms=[beat.idle_ms],
        )
        partition, value = -1, frame.SerializeToString()  # by the key
        if key:
            frame.gateway_id, frame.gateway_epoch_ms = key.gateway_id, STARTED_MS
            partition = partition_of(int(beat.user), partitions)
            value = key.sign(frame.SerializeToString(), TOPIC, partition, int(time.time() * 1000))
        producer.produce(
            TOPIC,
            key=struct.pack(">q", int(beat.user)),
            value=value,
            partition=partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(f"Kafka has not taken {len(failed)} beats: {failed[0]}")


def main(where: str, user: str, device: str, *kind: str) -> None:
    beat = Beat(int(user) if user.isdecimal() else user, int(device), bye=kind == ("bye",))
    if where.startswith("http"):
        print(f"accepted {send(where, [beat])}")
    else:
        path = os.environ.get("STILLHERE_GATEWAY_KEY_FILE")
        key = None
        if path:
            with open(path, encoding="utf-8") as file:
                key = GatewayKey(file.read())
        write(where, [beat], key)
        print("written")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
