#!/usr/bin/env node
// Starts the program that npm installed for this platform.
const { spawn } = require("node:child_process");

const name = `@loopgate/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/loopgate`);
} catch {
  console.error(`error: the npm package ${name} is missing: either Loopgate is not released for this platform, or npm installed it without optional dependencies`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends Ctrl-C to both, and the program decides when it ends. What was sent to this process alone is passed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${program} did not start: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
