#!/bin/sh
# Creates and updates Temporal's two databases. Safe to run again: an existing
# database is left, a schema is only ever moved forward.
#
# Environment: SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD, SQL_PLUGIN.
set -eu

for db in temporal visibility; do
  name=temporal
  [ "$db" = visibility ] && name=temporal_visibility
  if ! temporal-sql-tool --db "$name" update-schema --schema-name "postgresql/v12/$db" 2>/dev/null; then
    temporal-sql-tool --db "$name" create-database
    temporal-sql-tool --db "$name" setup-schema -v 0.0
    temporal-sql-tool --db "$name" update-schema --schema-name "postgresql/v12/$db"
  fi
done
