#!/bin/sh
# Makes the database `helpdesk` with its roles on the server that the variables of libpq name (PGHOST, PGPORT, PGUSER,
# PGPASSWORD), as a role that may create databases and roles. HELPDESK_PASSWORD is the password of the new roles.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${HELPDESK_PASSWORD:?set it to the password that the new roles get}"
psql -X -q -v ON_ERROR_STOP=1 -d postgres -c 'CREATE DATABASE helpdesk'
# The password comes by the environment: the list of processes shows what a command line holds.
printf '%s\n' '\getenv password HELPDESK_PASSWORD' "\\ir '$here/database.sql'" |
  psql -X -q -v ON_ERROR_STOP=1 -d helpdesk -f -
echo "The database helpdesk is there."
