#!/bin/sh
# Creates sgclaw's namespace once the server answers. Safe to run again.
#
# Environment: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, RETENTION.
set -eu

# await SAYS COMMAND...: a second a try, sixty tries.
await() {
  says=$1
  shift
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -ge 60 ]; then
      echo "$says" >&2
      exit 1
    fi
    sleep 1
  done
}

await "Temporal at $TEMPORAL_ADDRESS does not answer" temporal operator cluster health
temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
# The server's parts hear of a new namespace some seconds later; whoever waits
# for this script wants to use it.
await "namespace $TEMPORAL_NAMESPACE is not in use after a minute" temporal workflow list -n "$TEMPORAL_NAMESPACE" --limit 1
