#!/bin/sh
# Creates sgclaw's namespace once the server answers. Safe to run again.
#
# Environment: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, RETENTION.
set -eu

tries=0
until temporal operator cluster health >/dev/null 2>&1; do
  tries=$((tries + 1))
  if [ "$tries" -ge 60 ]; then
    echo "Temporal at $TEMPORAL_ADDRESS does not answer" >&2
    exit 1
  fi
  sleep 1
done
temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
