#!/bin/sh
# A client that heeds nothing: it asks until COMITY_REQUESTS of its requests were served. With GUARD set to the binary,
# worker 0 puts a guard in front of the target, and all workers ask that.
set -eu

connect_to=$COMITY_CONNECT_TO
if [ -n "${GUARD:-}" ]; then
    if [ "$COMITY_WORKER" = 0 ]; then
        "$GUARD" guard --listen 127.0.0.1:0 --upstream "http://${connect_to#::}" --rate 2/s --burst 5 --json -q >"$FOLDER/events" &
        guard=$!
        trap 'kill $guard' EXIT
    fi
    until [ -s "$FOLDER/events" ]; do sleep 0.05; done
    at=$(sed -n 's|.*"listening":\["http://\([^"]*\)".*|\1|p' "$FOLDER/events" | head -n 1)
    connect_to="::$at"
fi

served=0
asked=0
while [ "$served" -lt "$COMITY_REQUESTS" ] && [ "$asked" -lt 5000 ]; do
    status=$(curl --silent --output /dev/null --write-out '%{http_code}' --connect-to "$connect_to" "$COMITY_TARGET$asked")
    asked=$((asked + 1))
    if [ "$status" = 200 ]; then served=$((served + 1)); fi
done
if [ -n "${GUARD:-}" ]; then
    touch "$FOLDER/done-$COMITY_WORKER"
    # The guard stays until the last has been served.
    if [ "$COMITY_WORKER" = 0 ]; then until [ -e "$FOLDER/done-1" ]; do sleep 0.05; done; fi
fi
echo "comity-audit: $served served of $asked"
