// One worker: Bottleneck with its Redis datastore, at most one request every 500 ms for all who use the same id.
// REDIS_URL says where Redis is. Run as six processes it sends what one may, and passes:
//
//   export REDIS_URL=redis://127.0.0.1:6379
//   comity audit --interval 500ms --tolerance 100ms --workers 6 --requests 4 -- node examples/audit/bottleneck-redis.js
"use strict";
const dns = require("node:dns");
const fs = require("node:fs");
const http = require("node:http");
const Bottleneck = require("bottleneck");

const limiter = new Bottleneck({
  minTime: 500,
  datastore: "redis",
  id: new URL(process.env.COMITY_TARGET).hostname, // shared by the workers, and different for each arm of the audit
  clearDatastore: false, // who starts last must not wipe what the others have counted
  clientOptions: { url: process.env.REDIS_URL },
});
limiter.on("error", (error) => { console.error(String(error)); process.exit(1); });

// The auditor's host is invented: whatever its name, it is on this machine.
const lookup = (_name, options, found) => dns.lookup("127.0.0.1", options, found);

// One request; done when the answer has been read.
function get(url) {
  return new Promise((done, failed) => {
    http.get(url, { lookup }, (answer) => answer.resume().on("end", done)).on("error", failed);
  });
}

async function main() {
  const urls = fs.readFileSync(process.env.COMITY_URLS, "utf8").split("\n").filter(Boolean);
  await limiter.ready();
  await Promise.all(urls.map((url) => limiter.schedule(() => get(url))));
  console.log(`comity-audit: ${urls.length} answered`);
  await limiter.disconnect();
}

main();
