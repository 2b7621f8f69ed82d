// SPDX-License-Identifier: MIT
//
// Runs SQL in DuckDB: a JSON list of statements on standard input, a JSON list with the rows of each on
// standard output. NODE_PATH says where the package is.

"use strict";

const { DuckDBInstance } = require("@duckdb/node-api");
const { readFileSync } = require("fs");

async function main() {
  const connection = await (await DuckDBInstance.create(":memory:")).connect();
  const results = [];
  for (const statement of JSON.parse(readFileSync(0, "utf8"))) {
    const reader = await connection.runAndReadAll(statement);
    results.push(reader.getRowObjectsJson());
  }
  process.stdout.write(JSON.stringify(results));
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
});
