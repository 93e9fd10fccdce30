"""Reads presence.deliveries with confluent-kafka and prints whom to notify of what.

    cd schemas/examples
    protoc -I ../proto --python_out=. ../proto/stillhere/v1/*.proto
    pip install confluent-kafka protobuf
    python deliveries.py 127.0.0.1:9092      # every delivery from now on
    python deliveries.py 127.0.0.1:9092 3    # the first three recipients that there are, then ends
"""
import datetime
import itertools
import sys

from confluent_kafka import Consumer
from presence import unframed
from stillhere.v1 import fanout_pb2, transition_pb2


def main(brokers: str, limit: int | None) -> None:
    consumer = Consumer({
        "bootstrap.servers": brokers,
        "group.id": "example.deliveries.python",
        "isolation.level": "read_committed",  # without it you see what was aborted, and everything twice
        "auto.offset.reset": "latest" if limit is None else "earliest",
        # Stored below, when the recipients have been notified: a crash repeats deliveries and loses none.
        "enable.auto.offset.store": False,
    })
    consumer.subscribe(["presence.deliveries"])
    # Of each recipient and user the greatest version: older ones are repeats. A real consumer keeps
    # this, or the ids of its own messages, where it survives a restart.
    newest: dict[tuple[int, int], int] = {}
    try:
        while limit is None or limit > 0:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise SystemExit(str(message.error()))
            delivery = fanout_pb2.Delivery.FromString(unframed(message.value()))
            change = delivery.transition
            at = datetime.datetime.fromtimestamp(change.at_ms / 1000, datetime.timezone.utc)
            state = transition_pb2.State.Name(change.to).removeprefix("STATE_").lower()
            cause = transition_pb2.Cause.Name(change.cause).removeprefix("CAUSE_").lower()
            for recipient in itertools.accumulate(delivery.recipient_deltas):
                pair = (recipient, change.user_id)
                if limit == 0 or change.version <= newest.get(pair, 0):
                    continue
                newest[pair] = change.version
                print(f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z tell {recipient}: "
                      f"user {change.user_id} is {state} ({cause})", flush=True)
                if limit is not None:
                    limit -= 1
            consumer.store_offsets(message)
    finally:
        consumer.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
