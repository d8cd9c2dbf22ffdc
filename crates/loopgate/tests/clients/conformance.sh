#!/bin/sh
# The official conformance suite against `loopgate mcp`, in both revisions of the protocol: conformance.sh LOOPGATE BIN
# BIN is the folder of its programs `conformance` and `node`; `cargo xtask servers mcp` fetches them and runs this.
set -eu
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../../../.." && pwd) loopgate=$1 bin=$2 work=$(mktemp -d)
trap 'kill $server $proxy 2>/dev/null; rm -rf "$work"' EXIT
server='' proxy='' failed=0
cd "$work"
cp -r "$root/examples/helpdesk" domain
export XDG_STATE_HOME="$work/state" LOOPGATE_MCP_TOKEN=0123456789abcdef0123456789abcdef
origin=http://127.0.0.1:48902
"$loopgate" mcp domain --http 127.0.0.1:48901 --allow-host 127.0.0.1:48902 --allow-origin $origin & server=$!
# The suite has no token to give.
cat > proxy.mjs <<'T'
import http from 'http';
const authorization = 'Bearer ' + process.env.LOOPGATE_MCP_TOKEN;
http.createServer((from, to) => {
  const { url: path, method } = from, headers = { ...from.headers, authorization };
  const request = http.request({ host: '127.0.0.1', port: 48901, path, method, headers }, (answer) => {
    to.writeHead(answer.statusCode, answer.headers);
    answer.on('error', () => to.destroy()).pipe(to);
  });
  request.on('error', () => to.destroy());
  to.on('close', () => request.destroy());
  from.pipe(request);
}).listen(48902, '127.0.0.1');
T
PATH="$bin:$PATH"
node proxy.mjs & proxy=$!
sleep 2
for revision in "--spec-version 2025-11-25" "--requirements 2026-07-28"; do
  conformance server --url $origin/mcp $revision --expected-failures "$here/conformance.yml" > log || failed=1
  sed -n '/SUMMARY/,$p' log
done
exit $failed
