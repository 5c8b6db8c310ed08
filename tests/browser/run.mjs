// Runs every file of tests, one after the other, each in a process of its own, and says how long each took. Names of files
// choose some of them: `npm test -- words runs`.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const chosen = process.argv.slice(2);
const files = readdirSync(".").filter((file) => file.endsWith(".test.mjs") && (chosen.length === 0 || chosen.some((name) => file.startsWith(name))));
const took = files.map((file) => {
  const started = Date.now();
  // The file counts as one test, too. On a busy machine the limits of its tests end it, not this one.
  const { status } = spawnSync(process.execPath, ["--test", "--test-timeout=900000", file], { stdio: "inherit" });
  return { file, seconds: Math.round((Date.now() - started) / 1000), failed: status !== 0 };
});
const total = took.reduce((sum, { seconds }) => sum + seconds, 0);
for (const { file, seconds, failed } of took) console.log(`${String(seconds).padStart(5)} s  ${file}${failed ? "  FAILED" : ""}`);
console.log(`${String(total).padStart(5)} s  in all`);
process.exit(files.length === 0 || took.some(({ failed }) => failed) ? 1 : 0);
