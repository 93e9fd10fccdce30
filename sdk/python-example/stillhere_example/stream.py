"""Reads the live stream: the states of some users now, and every change from then on.

    python -m stillhere_example.stream http://127.0.0.1:8080 1 2 3

The standard library is enough: the stream is Server-Sent Events. For all changes of all users read the topic
presence.transitions (schemas/examples/presence.py), or a webhook (webhook.py).
"""
from __future__ import annotations

import json
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException

#: The server sends a keep-alive more often than this, in seconds.
SILENCE = 60
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0


def users(server: str, ids: list[str], token: Callable[[], str] | None = None) -> Iterator[dict]:
    """Yields the state of each user, and then each change, as the API's JSON object: user_id, state, version, ….

    It reconnects whenever the connection is lost, and then yields exactly what it has missed, or where the server
    cannot list that the newest states. A state that was yielded already does not come again. Ids are texts.
    Raises urllib.error.HTTPError if the server refuses for good.
    """
    newest: dict[str, tuple] = {}
    cursor, failures = "", 0
    query = urllib.parse.urlencode([("user_ids", user) for user in ids])
    while True:
        headers = {"Accept": "text/event-stream"}
        if cursor:
            headers["Last-Event-ID"] = cursor
        if token:
            headers["Authorization"] = f"Bearer {token()}"
        pause = None
        try:
            request = urllib.request.Request(f"{server}/presence/stream?{query}", headers=headers)
            with urllib.request.urlopen(request, timeout=SILENCE) as answer:
                for cursor, retry, message in events(answer, cursor):
                    pause = retry if retry is not None else pause
                    kind = message.get("type")
                    if kind in ("snapshot", "resync", "resumed"):
                        failures = 0
                    changed = message["users"] if kind in ("snapshot", "resync") else [message["user"]] if kind == "change" else []
                    for user in changed:
                        known = newest.get(user["user_id"])
                        state = (int(user["version"]), user["state"], user.get("stale_since"), user.get("unsure_since"))
                        if known is None or state[0] > known[0] or state[0] == known[0] and state != known:
                            newest[user["user_id"]] = state
                            yield user
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (401, 408, 429) or error.code == 401 and token is None:
                raise
            after = error.headers.get("Retry-After", "")
            pause = float(after) if after.isdecimal() else None
        except (OSError, HTTPException, json.JSONDecodeError):
            pass
        failures += 1
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 10))
        time.sleep(pause if pause is not None else random.uniform(longest / 2, longest))


def events(lines: Iterator[bytes], cursor: str) -> Iterator[tuple[str, float | None, dict]]:
    """Reads Server-Sent Events (HTML, 9.2): the newest id, a pause in seconds if one is asked for, and the message."""
    data: list[str] = []
    retry = None
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            cursor = value
        elif name == "retry" and value.isdecimal():
            retry = int(value) / 1000
            yield cursor, retry, {}
        elif name == "data":
            data.append(value)
        elif not name and not value and data:
            yield cursor, retry, json.loads("\n".join(data))
            data = []


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    for each in users(sys.argv[1], sys.argv[2:]):
        print(each["user_id"], each["state"], each.get("last_seen_at") or "", flush=True)
