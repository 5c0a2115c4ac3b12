// Checks each dashboard against the types that Grafana publishes: the whole, and each panel's options by its kind.
// A field that Grafana does not know, a word that is none of its, a value of another type: tsc says which.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "..", "dashboards");
const work = join(here, "node_modules", ".dashboards");
// A panel's kind: the types of its options, and of what is custom in its fields.
const KINDS = {
  timeseries: ["timeseries", "TimeSeriesPanelCfg", "FieldConfig"],
  stat: ["stat", "StatPanelCfg", ""],
  table: ["table", "TablePanelCfg", "FieldConfig"],
  heatmap: ["heatmap", "HeatmapPanelCfg", "FieldConfig"],
  bargauge: ["bargauge", "BarGaugePanelCfg", ""],
};
// What the Prometheus data source adds to an annotation, which Grafana's types leave to it.
const HEAD = `import type { AnnotationQuery, Dashboard, DataQuery, Panel, RowPanel } from "@grafana/schema";
${Object.entries(KINDS)
  .map(([kind, [path, name]]) => `import type * as ${kind} from "@grafana/schema/dist/esm/raw/composable/${path}/panelcfg/x/${name}_types.gen";`)
  .join("\n")}
// JSON has the words of Grafana's enumerations, not their members.
type Plain<T> = unknown extends T ? T
  : T extends string ? \`\${T}\`
  : T extends number | boolean | null | undefined ? T
  : T extends Array<infer U> ? Array<Plain<U>>
  : T extends object ? { [K in keyof T]: Plain<T[K]> }
  : T;
type Query = { refId: string; expr: string; interval?: string };
type Target = Query & { datasource: object; legendFormat: string; format: "table" | "heatmap" | "time_series"; instant: boolean; range: boolean };
type Note = Omit<Plain<AnnotationQuery>, "target"> & { target: Query; titleFormat: string; textFormat: string; tagKeys: string; useValueForTime: boolean };
type Whole = Omit<Plain<Dashboard>, "panels" | "annotations">;
`;

function checked(file) {
  const { panels, annotations, ...whole } = JSON.parse(readFileSync(join(folder, file), "utf8"));
  const lines = [];
  const be = (type, value, what) => lines.push(`// ${file}: ${what}`, `export const c${count++}: ${type} = ${JSON.stringify(value)};`);
  be("Whole", whole, "the whole");
  annotations.list.forEach((note) => be("Note", note, "annotation"));
  for (const panel of panels) {
    if (panel.type === "row") {
      be("Plain<RowPanel>", panel, panel.title);
      continue;
    }
    if (!(panel.type in KINDS)) throw new Error(`${file}: ${panel.title}: kind ${panel.type} is not checked`);
    const { options, targets, fieldConfig, ...rest } = panel;
    be("Plain<Panel>", { ...rest, fieldConfig }, panel.title);
    be(`Plain<${panel.type}.Options>`, options, `${panel.title}: options`);
    targets.forEach((target) => be("Target", target, `${panel.title}: query`));
    const fields = KINDS[panel.type][2];
    if (fieldConfig.defaults.custom && fields) be(`Plain<${panel.type}.${fields}>`, fieldConfig.defaults.custom, `${panel.title}: fields`);
    shown++;
  }
  return lines.join("\n");
}

let count = 0;
let shown = 0;
const files = readdirSync(folder).filter((name) => name.endsWith(".json")).sort();
mkdirSync(work, { recursive: true });
const source = join(work, "dashboards.ts");
writeFileSync(source, `${HEAD}\n${files.map(checked).join("\n")}\n`);
const options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "--module", "nodenext"];
const done = spawnSync(process.execPath, [join(here, "node_modules", "typescript", "bin", "tsc"), ...options, source], { encoding: "utf8" });
if (done.status !== 0) {
  const text = readFileSync(source, "utf8").split("\n");
  for (const line of `${done.stdout}${done.stderr}`.trim().split("\n")) {
    const at = /\((\d+),/.exec(line);
    const found = at && Number(at[1]) > 1 ? text[Number(at[1]) - 2] : "";
    console.error(`${found.startsWith("// ") ? `${found.slice(3)}: ` : ""}${line.replace(/^.*?error /, "")}`);
  }
  process.exit(1);
}
if (!shown) throw new Error(`no panel in ${folder}`);
console.log(`${files.length} dashboards, ${shown} panels: as @grafana/schema has them`);
