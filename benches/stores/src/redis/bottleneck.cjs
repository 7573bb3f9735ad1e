'use strict';
// Clients that ask Bottleneck for slots, one at a time each: the worker of `cargo xtask bench redis` in its language.
// Arguments: port, scopes, clients, milliseconds. It says `ready`, waits for a line, works, and reports in a line.
const Bottleneck = require('bottleneck');
const Redis = require('redis');

const [port, scopes, clients, millis] = process.argv.slice(1).map(Number);
const names = ['host.example.org', '*.example.org', '*'].slice(0, scopes);

// A limiter of each scope, the host's chained to the group's and that to all hosts': its way to have several hold.
async function connect() {
  const connection = new Bottleneck.RedisConnection({ Redis, clientOptions: { host: '127.0.0.1', port } });
  await connection.ready;
  const limiters = names.map((id) => new Bottleneck({ id, connection, maxConcurrent: 1000 }));
  await Promise.all(limiters.map((limiter) => limiter.ready()));
  limiters.slice(1).forEach((limiter, n) => limiters[n].chain(limiter));
  return limiters[0];
}

async function slot(limiter) {
  const asked = process.hrtime.bigint();
  const started = await limiter.schedule(async () => process.hrtime.bigint());
  return started - asked;
}

async function ask(limiter, until, spans) {
  while (process.hrtime.bigint() < until) {
    spans.push(await slot(limiter));
  }
}

async function main() {
  const limiters = await Promise.all(Array.from({ length: clients }, connect));
  await Promise.all(limiters.map(slot));
  console.log('ready');
  await new Promise((go) => process.stdin.once('data', go));
  const begun = process.hrtime.bigint();
  const until = begun + BigInt(millis) * 1_000_000n;
  const spans = [];
  await Promise.all(limiters.map((limiter) => ask(limiter, until, spans)));
  const spent = Number(process.hrtime.bigint() - begun) / 1e9;
  const worst = spans.reduce((longest, span) => (span > longest ? span : longest), 0n);
  console.log(`${spans.length / spent} 0 ${Number(worst) / 1e3} ${spans.map((span) => `${span}:1`).join(' ')}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
