"""At most one request every half second for all processes on a machine, with nothing but Python's standard library.

Whoever holds the lock waits half a second, asks, and passes the lock on when it is answered. The system frees the lock of
a process that dies. Run as six processes it sends no more than one may, and passes:

    comity audit --interval 500ms --workers 6 --requests 4 -- python3 examples/audit/polite.py
"""

import fcntl
import os
import tempfile
import time
import urllib.parse
import urllib.request

INTERVAL = 0.5

target = os.environ["COMITY_TARGET"]
requests = int(os.environ["COMITY_REQUESTS"])

# The auditor's host is invented: its far end, used as a proxy, answers for every name.
browser = urllib.request.build_opener(urllib.request.ProxyHandler({"http": os.environ["COMITY_PROXY"]}))

# One lock for each host, shared by all who visit it.
host = urllib.parse.urlsplit(target).hostname
lock = os.path.join(tempfile.gettempdir(), f"polite-{host}.lock")

for number in range(requests):
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        time.sleep(INTERVAL)  # before the request: a process killed here has cost nobody's turn
        browser.open(f"{target}{number}").read()

print(f"comity-audit: {requests} answered")
