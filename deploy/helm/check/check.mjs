// Checks what the chart says to the Prometheus operator and to KEDA against the schemas that they publish: what is
// required and of which form by their validators, and by their types that no field is unknown, which a cluster would
// drop without a word. Objects come as a JSON list on standard input (python -m experiments.chart.objects). Strimzi's schemas
// are in no package; docs/kubernetes.md says what stands in for them.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const work = join(here, "node_modules", ".objects");
const PACKAGES = { "monitoring.coreos.com": "@kubernetes-models/prometheus-operator", "keda.sh": "@kubernetes-models/keda" };
const objects = JSON.parse(readFileSync(0, "utf8"));

function place({ apiVersion, kind }) {
  const [group, version] = apiVersion.split("/");
  return `${PACKAGES[group]}/${group}/${version}/${kind}`;
}

async function invalid(object) {
  const model = (await import(place(object)))[object.kind];
  try {
    new model(structuredClone(object)).validate();
    return "";
  } catch (error) {
    return error.message;
  }
}

// Each object on a line of its own, under the type of its kind; what tsc finds, by the number of the object.
function untyped(list) {
  mkdirSync(work, { recursive: true });
  const kinds = new Map(list.map((one) => [one.kind, place(one)]));
  const imports = [...kinds].map(([kind, path]) => `import type { I${kind} } from "${path}";`);
  const lines = list.map((one, index) => `export const c${index}: I${one.kind} = ${JSON.stringify(one)};`);
  const source = join(work, "objects.ts");
  writeFileSync(source, [...imports, ...lines].join("\n") + "\n");
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"];
  const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
  const done = spawnSync(process.execPath, [tsc, ...options, source], { encoding: "utf8" });
  const found = [...done.stdout.matchAll(/\((\d+),\d+\): error (.*)/g)];
  if (done.status !== 0 && !found.length) throw new Error(done.stdout + done.stderr);
  return found.map(([, line, fault]) => [Number(line) - imports.length - 1, fault]);
}

const wrong = [];
for (const one of objects) {
  const fault = await invalid(one);
  if (fault) wrong.push(`${one.kind}/${one.metadata.name}: ${fault}`);
}
for (const [index, fault] of untyped(objects)) wrong.push(`${objects[index]?.kind}/${objects[index]?.metadata.name}: ${fault}`);

// The checks themselves are tried on one of each kind: a type that is wrong, and a field that nobody knows.
const samples = [...new Map(objects.map((one) => [one.kind, one])).values()];
for (const one of samples) if (!(await invalid({ ...one, spec: 1 }))) wrong.push(`${one.kind}: a wrong type is not found`);
const unknown = samples.map((one) => ({ ...one, spec: { ...one.spec, unknwon: {} } }));
const found = new Set(untyped(unknown).map(([index]) => index));
unknown.forEach((one, index) => found.has(index) || wrong.push(`${one.kind}: an unknown field is not found`));

wrong.forEach((line) => console.error(line));
console.log(`${objects.length} objects of ${samples.length} kinds (${samples.map((one) => one.kind).join(", ")}): ${wrong.length} faults`);
process.exit(wrong.length || !objects.length ? 1 : 0);
