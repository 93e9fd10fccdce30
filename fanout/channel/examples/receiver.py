"""An example of what stands behind `stillhere channel webhook`, with nothing but
Python's standard library: it checks the signature, drops what it has seen, and
prints who is told what.

    python3 receiver.py 127.0.0.1:9000 s3cret
    stillhere channel webhook --url http://127.0.0.1:9000/ --secret-file FILE
"""

import hashlib
import hmac
import http.server
import json
import sys
import threading
import time

MAX_AGE = 300  # seconds
MAX_BODY = 1 << 20  # bytes; 1,000 recipients take some 22,000


def fits(secret: bytes, signature: str, body: bytes) -> bool:
    parts = dict(part.split("=", 1) for part in signature.split(",") if "=" in part)
    seconds = parts.get("t", "")
    if not seconds.isdigit() or abs(time.time() - int(seconds)) > MAX_AGE:
        return False
    wanted = hmac.new(secret, seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted, parts.get("v1", ""))


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    secret = b""
    lock = threading.Lock()
    seen: set[str] = set()  # a real one would keep this in its database, for a day

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.send_error(413 if length.isdigit() else 411)
            self.close_connection = True
            return
        body = self.rfile.read(int(length))
        if not fits(self.secret, self.headers.get("Stillhere-Signature", ""), body):
            self.send_error(401, "the signature does not fit")
            return
        message = json.loads(body)
        # The same as the header Idempotency-Key, but signed: who replays a request within
        # MAX_AGE could change the header.
        key = message["id"]
        with self.lock:
            new = key not in self.seen
            self.seen.add(key)
        if new:
            for recipient in message["recipients"]:
                print(f"tell {recipient}: user {message['user_id']} is {message['state']}", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    Receiver.secret = sys.argv[2].encode()
    server = http.server.ThreadingHTTPServer((host, int(port)), Receiver)
    print(f"listening on http://{host}:{server.server_address[1]}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
