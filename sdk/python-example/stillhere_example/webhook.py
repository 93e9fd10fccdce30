"""Receives the webhooks of "stillhere channel webhook": checks signatures, and handles each change once.

    python -m stillhere_example.webhook 8090 secret.txt
    stillhere channel webhook --of transitions --url http://127.0.0.1:8090/ --secret-file secret.txt …
"""
from __future__ import annotations

import hashlib
import hmac
import json
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

#: A signature that is further away than this, in seconds, is refused: somebody may have kept it.
TOLERANCE = 300
LONGEST_BODY = 1 << 20


def is_signed(body: bytes, header: str, secret: bytes, now: float) -> bool:
    """Whether a Stillhere-Signature (t=SECONDS,v1=HEX) is that of the body, and fresh."""
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    seconds, signature = parts.get("t", ""), parts.get("v1", "")
    if not (seconds.isascii() and seconds.isdecimal()) or abs(now - int(seconds)) > TOLERANCE:
        return False
    expected = hmac.new(secret, seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


class Receiver(ThreadingHTTPServer):
    """Serves until shutdown. handle is called with each new change, from one thread at a time; if it raises, the
    change comes again. A real receiver keeps the ids where they survive a restart, in one transaction with the work."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], secret: bytes, handle: Callable[[dict], None], remember: int = 100_000) -> None:
        super().__init__(address, Handler)
        self.secret, self.handle, self.remember = secret, handle, remember
        self.handled: OrderedDict[str, None] = OrderedDict()
        self.lock = Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a channel that stops
            super().handle_error(request, client_address)

    def take(self, change: dict) -> None:
        with self.lock:
            if change["id"] in self.handled:
                return
            self.handle(change)
            self.handled[change["id"]] = None
            if len(self.handled) > self.remember:
                self.handled.popitem(last=False)


class Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_signed(body, self.headers.get("Stillhere-Signature", ""), self.server.secret, time.time()):
            return self.answer(401)
        try:
            self.server.take(json.loads(body))
        except Exception as error:  # it is tried again
            self.log_error("not handled: %r", error)
            return self.answer(500)
        return self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[2], "rb") as file:
        key = file.read().strip()
    show = lambda change: print(change["at"], change["user_id"], change["state"], change["cause"], flush=True)
    Receiver(("127.0.0.1", int(sys.argv[1])), key, show).serve_forever()
