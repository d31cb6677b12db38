import json
import os
import re
import subprocess
import time
import unittest
import urllib.request


class Reminders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [os.environ.get("SERVICE", "timer-service"), "serve", "--test-clock", "--http-addr", "127.0.0.1:0", "--nats-port", "0", "--log-level", "error"]
        cls.service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in cls.service.stdout:
            if found := re.match(r"http +([^,]+)", line):
                cls.api = found[1].strip()
            if line.startswith("ready"):
                break

    @classmethod
    def tearDownClass(cls):
        cls.service.terminate()
        cls.service.communicate()

    def ask(self, method, path, body=None):
        data = body and json.dumps(body).encode()
        request = urllib.request.Request(self.api + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def test_comes_after_two_hours(self):
        began = time.monotonic()
        self.ask("PUT", "/v1/tenants/acme/timers/remind-1", {"in": "2h"})
        self.ask("PUT", "/v1/tenants/acme/timers/remind-2", {"in": "4h"})
        self.assertEqual(self.ask("POST", "/v1/clock:advance?by=3h")["published"], 1)
        first = self.ask("GET", "/v1/tenants/acme/timers/remind-1")
        self.assertEqual((first["state"], first["event"]["state"]), ("Reached", "published"))
        self.assertEqual(self.ask("GET", "/v1/tenants/acme/timers/remind-2")["state"], "Scheduled")
        print(f"three hours took {(time.monotonic() - began) * 1000:.0f} ms")


if __name__ == "__main__":
    unittest.main()
