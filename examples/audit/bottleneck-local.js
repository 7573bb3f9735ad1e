// One worker: Bottleneck with its local datastore, at most one request every 500 ms.
// Each process counts for itself: one passes, six send six times what one may, and fail:
//
//   comity audit --interval 500ms --tolerance 100ms --sweep 1,6 --requests 7 -- node examples/audit/bottleneck-local.js
"use strict";
const dns = require("node:dns");
const fs = require("node:fs");
const http = require("node:http");
const Bottleneck = require("bottleneck");

const limiter = new Bottleneck({ minTime: 500 });

// The auditor's host is invented: whatever its name, it is on this machine.
const lookup = (_name, options, found) => dns.lookup("127.0.0.1", options, found);

// One request; done when the answer has been read.
function get(url) {
  return new Promise((done, failed) => {
    http.get(url, { lookup }, (answer) => answer.resume().on("end", done)).on("error", failed);
  });
}

async function main() {
  // The file has as many URLs as this worker is to ask for, one a line.
  const urls = fs.readFileSync(process.env.COMITY_URLS, "utf8").split("\n").filter(Boolean);
  await Promise.all(urls.map((url) => limiter.schedule(() => get(url))));
  console.log(`comity-audit: ${urls.length} answered`);
}

main();
