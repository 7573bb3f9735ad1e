#!/bin/sh
# A shell loop: one request, then half a second of sleep.
# One of it keeps its pace; six know nothing of each other. So it passes alone and fails six times:
#
#   comity audit --interval 500ms --sweep 1,6 --requests 4 -- sh examples/audit/curl.sh
set -eu

sent=0
while [ "$sent" -lt "$COMITY_REQUESTS" ]; do
    if [ "$sent" -gt 0 ]; then sleep 0.5; fi
    # The auditor's host is invented: --connect-to leads every name to this machine.
    curl --silent --show-error --output /dev/null --connect-to "$COMITY_CONNECT_TO" "$COMITY_TARGET$sent"
    sent=$((sent + 1))
done
echo "comity-audit: $sent sent"
