#!/usr/bin/env bash
# Equal answers from a real Virtuoso server and from the embedded store.
#
# Installs Debian's Virtuoso where it is missing (needs root for that), starts it on the loopback interface with its files in a
# temporary folder, loads the Wikidata subset, runs the tests marked `servers`, and stops it again, whatever happens.
#
#   TASKLOOM_DATA=...  tests/servers/virtuoso.sh [arguments of pytest]
set -euo pipefail
cd "$(dirname "$0")/../.."

: "${TASKLOOM_DATA:?set TASKLOOM_DATA to the folder with wikidata/*.nt.gz}"
python=${PYTHON:-python3}
http_port=${VIRTUOSO_HTTP_PORT:-18890}
sql_port=${VIRTUOSO_SQL_PORT:-11111}

if ! command -v virtuoso-t >/dev/null || ! command -v isql-vt >/dev/null; then
  if [ "$(id -u)" != 0 ]; then
    echo "Virtuoso is not installed, and installing it needs root: apt-get install virtuoso-opensource-7-bin virtuoso-opensource-7-common" >&2
    exit 2
  fi
  apt-get install -y --no-install-recommends virtuoso-opensource-7-bin virtuoso-opensource-7-common ||
    { apt-get update && apt-get install -y --no-install-recommends virtuoso-opensource-7-bin virtuoso-opensource-7-common; }
fi

home=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$home"
}
trap finish EXIT

# 2,500 rows at most in one answer: far below the largest relation, so that the paging is really tried.
cat >"$home/virtuoso.ini" <<INI
[Database]
DatabaseFile = $home/virtuoso.db
ErrorLogFile = $home/virtuoso.log
LockFile = $home/virtuoso.lck
TransactionFile = $home/virtuoso.trx
xa_persistent_file = $home/virtuoso.pxa
FileExtend = 200
MaxCheckpointRemap = 2000

[TempDatabase]
DatabaseFile = $home/virtuoso-temp.db
TransactionFile = $home/virtuoso-temp.trx
MaxCheckpointRemap = 2000

[Parameters]
ServerPort = 127.0.0.1:$sql_port
DirsAllowed = $home
NumberOfBuffers = 20000
MaxDirtyBuffers = 14000
ServerThreads = 10
SchedulerInterval = 10
CheckpointInterval = 0

[HTTPServer]
ServerPort = 127.0.0.1:$http_port
ServerThreads = 5
MaxKeepAlives = 5
KeepAliveTimeout = 5

[SPARQL]
ResultSetMaxRows = 2500
MaxQueryExecutionTime = 300
INI

virtuoso-t -f -c "$home/virtuoso.ini" >"$home/out.txt" 2>&1 &
server=$!

sql() { isql-vt "127.0.0.1:$sql_port" dba dba errors=stdout "exec=$1"; }
for _ in $(seq 60); do
  if sql "select 1;" >/dev/null 2>&1; then break; fi
  kill -0 "$server" 2>/dev/null || { echo "virtuoso stopped:"; tail -20 "$home/virtuoso.log"; exit 1; }
  sleep 0.5
done

for file in "$TASKLOOM_DATA"/wikidata/*.nt.gz; do
  name=$(basename "$file" .gz)
  gunzip -c "$file" >"$home/$name"
  sql "log_enable(2); DB.DBA.TTLP_MT(file_to_string_output('$home/$name'), '', 'http://taskloom.core.example/facts');"
  rm "$home/$name"
done
sql "sparql select count(*) where { graph <http://taskloom.core.example/facts> { ?s ?p ?o } };"

export TASKLOOM_SPARQL="http://127.0.0.1:$http_port/sparql?default-graph-uri=http://taskloom.core.example/facts"
PYTHONPATH="$PWD/src" "$python" -m pytest -m servers tests/suites/taskbench/facts/test_virtuoso.py "$@"
