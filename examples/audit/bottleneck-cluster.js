// One program that forks six cluster workers, each with Bottleneck's local datastore: the same fault inside one program.
//
//   comity audit --interval 500ms --tolerance 100ms --workers 1 --requests 42 -- node examples/audit/bottleneck-cluster.js
"use strict";
const cluster = require("node:cluster");
const dns = require("node:dns");
const fs = require("node:fs");
const http = require("node:http");
const Bottleneck = require("bottleneck");

const FORKS = 6;

// The auditor's host is invented: whatever its name, it is on this machine.
const lookup = (_name, options, found) => dns.lookup("127.0.0.1", options, found);

// One request; done when the answer has been read.
function get(url) {
  return new Promise((done, failed) => {
    http.get(url, { lookup }, (answer) => answer.resume().on("end", done)).on("error", failed);
  });
}

async function work() {
  const limiter = new Bottleneck({ minTime: 500 });
  const urls = fs.readFileSync(process.env.COMITY_URLS, "utf8").split("\n").filter(Boolean);
  // Each fork takes every sixth URL.
  const mine = urls.filter((_url, at) => at % FORKS === cluster.worker.id - 1);
  await Promise.all(mine.map((url) => limiter.schedule(() => get(url))));
  process.disconnect();
}

if (cluster.isPrimary) {
  for (let fork = 0; fork < FORKS; fork++) cluster.fork();
  console.log(`comity-audit: ${FORKS} forks`);
} else {
  work();
}
