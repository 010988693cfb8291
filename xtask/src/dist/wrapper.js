#!/usr/bin/env node
// Runs the program of this platform's package, as if it had been started itself.
"use strict";

const { spawn } = require("child_process");
const name = `@ostler/${process.platform}-${process.arch}`;

let program;
try {
  program = require.resolve(`${name}/bin/ostler`);
} catch {
  console.error(`error: there is no ostler for this platform: the package ${name} is not installed`);
  console.error("hint: install it by name, or without --omit=optional");
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends its signals to both; what is sent to the wrapper alone is handed on.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
