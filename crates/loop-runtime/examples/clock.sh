#!/bin/sh
# A server of the Model Context Protocol with one tool, for the example `mcp`.
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
  *'"method":"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"clock","version":"1"}}' ;;
  *'"method":"tools/list"'*) answer '{"tools":[{"name":"time_in","description":"The time in a city","inputSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]}' ;;
  *'"method":"tools/call"'*) answer '{"content":[{"type":"text","text":"14:05"}]}' ;;
  *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
