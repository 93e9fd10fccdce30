"""Runs the examples against "stillhere dev", whose program STILLHERE names.

    STILLHERE=… python -m unittest tests/test_example.py
"""
from __future__ import annotations

import hashlib
import hmac
import os
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from stillhere_example import producer, signing, stream, webhook

SECRET = b"a secret of the tests that has more than 32 bytes"
PROGRAM = os.environ.get("STILLHERE", "stillhere")


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


class Server:
    """stillhere dev, with a directory and ports of its own."""

    def __init__(self) -> None:
        self.dir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        port, kafka = free_port(), free_port()
        self.url, self.brokers = f"http://127.0.0.1:{port}", f"127.0.0.1:{kafka}"
        self.command = [PROGRAM, "dev", f"--data-dir={self.dir.name}", f"--listen=127.0.0.1:{port}", f"--kafka-listen={self.brokers}"] + self.keys()
        self.start()

    def keys(self) -> list[str]:
        """Makes the master of the server and the key of a gateway."""
        path = os.path.join(self.dir.name, "frame.keys")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(subprocess.check_output([PROGRAM, "keys", "master"]))
        self.key = signing.GatewayKey(subprocess.check_output([PROGRAM, "keys", "gateway", "python", f"--frame-keys={path}"], text=True))
        return [f"--frame-keys={path}"]

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if line.startswith("ready"):
                threading.Thread(target=self.process.stdout.read, daemon=True).start()  # nobody else reads the rest
                return
        raise RuntimeError(f"the server ended with {self.process.wait()}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process.stdout.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.dir.cleanup()


class Seen:
    """What a thread has taken out of an iterator that does not end."""

    def __init__(self, values) -> None:
        self.queue: queue.Queue = queue.Queue()
        threading.Thread(target=lambda: [self.queue.put(value) for value in values], daemon=True).start()

    def states(self, count: int) -> list[tuple]:
        users = [self.queue.get(timeout=30) for _ in range(count)]
        return [(user["user_id"], user["state"]) for user in users]


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.end()

    def test_beats_over_http_come_through_the_stream(self) -> None:
        seen = Seen(stream.users(self.server.url, ["101", "102"]))
        self.assertEqual(seen.states(2), [("101", "offline"), ("102", "offline")])
        self.assertEqual(producer.send(self.server.url, [producer.Beat(101, 7), producer.Beat(102, 7, idle_ms=3_600_000)]), 2)
        self.assertEqual(sorted(seen.states(2)), [("101", "online"), ("102", "away")])
        producer.send(self.server.url, [producer.Beat(101, 7, bye=True)])
        self.assertEqual(seen.states(1), [("101", "offline")])

    def test_a_refused_beat_says_which(self) -> None:
        with self.assertRaises(urllib.error.HTTPError) as refused:
            producer.send(self.server.url, [producer.Beat(1, 7), producer.Beat(-5, 7)])
        self.assertEqual(refused.exception.code, 400)
        self.assertIn("beats[1].user_id", refused.exception.read().decode())

    def test_beats_straight_to_kafka_come_through_the_stream(self) -> None:
        ids = [str(number) for number in range(9007199254740993, 9007199254740993 + 8)]  # in several partitions
        seen = Seen(stream.users(self.server.url, ids + ["11"]))
        seen.states(9)
        producer.write(self.server.brokers, [producer.Beat(11, 7)])  # is refused
        producer.write(self.server.brokers, [producer.Beat(int(each), 7) for each in ids], self.server.key)
        self.assertEqual(sorted(seen.states(8)), [(each, "online") for each in ids])

    def test_a_webhook_is_received_once_and_only_with_its_signature(self) -> None:
        changes: queue.Queue = queue.Queue()
        receiver = webhook.Receiver(("127.0.0.1", 0), SECRET, changes.put)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{receiver.server_address[1]}/"
        with tempfile.NamedTemporaryFile("wb") as file:
            file.write(SECRET)
            file.flush()
            channel = subprocess.Popen(
                [PROGRAM, "channel", "webhook", "--of=transitions", "--from-start", f"--url={url}", f"--secret-file={file.name}",
                 f"--kafka-brokers={self.server.brokers}"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            try:
                producer.send(self.server.url, [producer.Beat(201, 7)])
                while (change := changes.get(timeout=60))["user_id"] != "201":
                    pass
                self.assertEqual((change["state"], change["cause"]), ("online", "first_beat"))
            finally:
                channel.kill()
                channel.wait()
        body = b'{"id":"x"}'
        now = str(int(time.time()))
        right = hmac.new(SECRET, now.encode() + b"." + body, hashlib.sha256).hexdigest()
        for header, status in (("", 401), (f"t={now},v1=00", 401), (f"t=1,v1={right}", 401), (f"t={now},v1={right}", 204), (f"t={now},v1={right}", 204)):
            request = urllib.request.Request(url, body, {"Stillhere-Signature": header})
            try:
                answer = urllib.request.urlopen(request, timeout=10).status
            except urllib.error.HTTPError as error:
                answer = error.code
            self.assertEqual(answer, status, header)
        self.assertEqual([each for each in list(changes.queue) if each["id"] == "x"], [{"id": "x"}])
        receiver.shutdown()
        receiver.server_close()


class OfItsOwn(unittest.TestCase):
    def test_what_a_lost_stream_has_missed_comes_when_the_server_is_back(self) -> None:
        server = Server()
        self.addCleanup(server.end)
        seen = Seen(stream.users(server.url, ["7"]))
        self.assertEqual(seen.states(1), [("7", "offline")])
        server.stop()
        server.start()
        producer.send(server.url, [producer.Beat(7, 7)])
        states = [seen.states(1)[0]]
        while states[-1] != ("7", "online"):  # before it, perhaps, that the first answer is out of date
            states += seen.states(1)


class Parts(unittest.TestCase):
    def test_events_have_ids_pauses_and_messages_of_several_lines(self) -> None:
        lines = [b":\n", b"\n", b"id: a\n", b'data: {"type":\n', b'data: "x"}\n', b"\n", b"retry: 1500\r\n", b"\r\n", b'data:{"type":"y"}\n', b"\n", b"data: {\n"]
        self.assertEqual(list(stream.events(iter(lines), "")), [("a", None, {"type": "x"}), ("a", 1.5, {}), ("a", 1.5, {"type": "y"})])

    def test_a_signature_is_of_its_body_and_of_now(self) -> None:
        right = hmac.new(SECRET, b"1000.{}", hashlib.sha256).hexdigest()
        self.assertTrue(webhook.is_signed(b"{}", f"t=1000,v1={right}", SECRET, 1100))
        for header in (f"t=1000,v1={right[:-1]}", f"t=1001,v1={right}", f"t=a,v1={right}", f"v1={right}", "t=1000", "", "t=1000,v1=é"):
            self.assertFalse(webhook.is_signed(b"{}", header, SECRET, 1100), header)
        self.assertFalse(webhook.is_signed(b"{}", f"t=1000,v1={right}", SECRET, 9999))

    def test_the_examples_of_the_readme_are_those_of_the_first_page(self) -> None:
        here = os.path.dirname(__file__)
        with open(os.path.join(here, "..", "README.md")) as own, open(os.path.join(here, "..", "..", "..", "README.md")) as first:
            blocks = re.findall(r"```python\n(.*?)```", first.read(), re.S)
            text = own.read()
        self.assertTrue(blocks)
        for block in blocks:
            self.assertIn(block, text)
            compile(block, "README.md", "exec")


if __name__ == "__main__":
    unittest.main()
