// Runs every file of tests, each in a process of its own, two at a time, and says how long each took. Names of files choose some
// of them: `npm test -- words runs`; `--together` chooses those that run two at a time, `--alone` the others.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";

// These hold something to a time, fill the machine, or count its workers: they run alone, after the others.
const alone = ["bench", "checkpoints", "engines", "gibibyte", "large", "soak", "stops", "threads"].map((name) => `${name}.test.mjs`);

const given = process.argv.slice(2);
const chosen = given.filter((name) => !name.startsWith("--"));
const isIn = (file) => !given.includes(alone.includes(file) ? "--together" : "--alone");
const files = readdirSync(".").filter((file) => file.endsWith(".test.mjs") && isIn(file) && (chosen.length === 0 || chosen.some((name) => file.startsWith(name))));
const took = [];

/** Runs a file; what it says is shown in one piece. */
const run = (file) => new Promise((done) => {
  const started = Date.now();
  // The file counts as one test, too. On a busy machine the limits of its tests end it, not this one.
  const test = spawn(process.execPath, ["--test", "--test-timeout=1200000", file]);
  let said = "";
  for (const stream of [test.stdout, test.stderr]) stream.on("data", (part) => (said += part));
  test.on("close", (status) => {
    process.stdout.write(said);
    const failures = status === 0 ? [] : (said.match(/^not ok .*?^  \.\.\.$/gms) ?? ["ended without a word"]);
    took.push({ file, seconds: Math.round((Date.now() - started) / 1000), failures });
    done();
  });
});
const lane = async (files) => {
  for (let file = files.shift(); file; file = files.shift()) await run(file);
};

const started = Date.now();
const together = files.filter((file) => !alone.includes(file));
await Promise.all([lane(together), lane(together)]);
await lane(files.filter((file) => alone.includes(file)));
for (const { file, seconds, failures } of took) console.log(`${String(seconds).padStart(5)} s  ${file}${failures.length > 0 ? "  FAILED" : ""}`);
console.log(`${String(Math.round((Date.now() - started) / 1000)).padStart(5)} s  in all`);
// Once more at the end, where one looks first.
const failed = took.filter(({ failures }) => failures.length > 0);
for (const { file, failures } of failed) console.log(`\n${file}\n${failures.join("\n")}`);
process.exit(files.length === 0 || failed.length > 0 ? 1 : 0);
