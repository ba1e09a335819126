// Runs a folder with Transformers.js, which experiments.identity starts: node identity.mjs FOLDER ROWS OUTPUTS MODULES
// A line of OUTPUTS, in JSON, for each row: ids, token types, and the mean of the vectors of its tokens.
import fs from "fs";
import { pathToFileURL } from "url";

const [folder, rowsFile, outputsFile, modules] = process.argv.slice(2);
const home = `${modules}/node_modules/@huggingface/transformers`;
const hf = await import(pathToFileURL(`${home}/dist/transformers.node.mjs`));
hf.env.allowRemoteModels = false;
hf.env.localModelPath = "/";
const tokenizer = await hf.AutoTokenizer.from_pretrained(folder);
const model = await hf.AutoModel.from_pretrained(folder);
const rows = JSON.parse(fs.readFileSync(rowsFile, "utf-8"));
const output = fs.openSync(outputsFile, "w");
const { version } = JSON.parse(fs.readFileSync(`${home}/package.json`, "utf-8"));
fs.writeSync(output, JSON.stringify(`transformers.js ${version}`) + "\n");
for (const [first, second] of rows) {
  const inputs = tokenizer([first], { text_pair: second === undefined ? null : [second], truncation: true, max_length: 128 });
  const { last_hidden_state } = await model(inputs);
  const [, tokens, size] = last_hidden_state.dims;
  const mean = new Float64Array(size);
  last_hidden_state.data.forEach((value, i) => { mean[i % size] += value / tokens; });
  const numbers = (tensor) => Array.from(tensor.data, Number);
  const row = [numbers(inputs.input_ids), numbers(inputs.token_type_ids), Array.from(mean)];
  fs.writeSync(output, JSON.stringify(row) + "\n");
}
