// The official JavaScript SDKs of OpenAI, Anthropic and Google, and Vercel's `ai`, against `loopgate mock`.
// Usage: node vendor_sdks.mjs NODE_MODULES URL
//
// Prints a line for each exchange that went as the SDK has it, and fails at the first that did not.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Warnings of `ai` about a model that it does not know.
globalThis.AI_SDK_LOG_WARNINGS = false;

const [modules, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/x.js`));
const of = (name) => import(pathToFileURL(require.resolve(name)));
const root = url.replace(/\/v1$/, "");
const model = "offline-1";
const text = 'fetch_customer "CUST-7"';
const schema = { type: "object", properties: { number: { type: "string" } }, required: ["number"], additionalProperties: false };
const person = {
  type: "object",
  properties: { name: { type: "string" }, email: { type: "string" } },
  required: ["name", "email"],
  additionalProperties: false,
};
const ada = "Ada Brown, ada@brown.example";
const hello = [{ role: "user", content: "Hello" }];

function check(what, holds) {
  if (!holds) {
    console.error(`${what} is not as expected`);
    process.exit(1);
  }
  console.log(what);
}

const isPerson = (value) => typeof value.name === "string" && typeof value.email === "string";

async function ofOpenai() {
  const { default: OpenAI } = await of("openai");
  const client = new OpenAI({ baseURL: url, apiKey: "k", maxRetries: 0 });
  const names = [];
  for await (const known of client.models.list()) names.push(known.id);
  check("openai models", names.includes(model) && (await client.models.retrieve(model)).id === model);
  const run = client.chat.completions.runTools({
    model,
    messages: [{ role: "user", content: text }],
    tools: [
      {
        type: "function",
        function: { name: "fetch_customer", description: "Fetch a customer", parameters: schema, parse: JSON.parse, function: ({ number }) => `${number}: Ada Brown` },
      },
    ],
  });
  check("openai chat tools", (await run.finalContent()).includes("CUST-7: Ada Brown"));
  let said = "";
  const stream = await client.chat.completions.create({ model, messages: hello, stream: true, stream_options: { include_usage: true } });
  let usage;
  for await (const chunk of stream) {
    said += chunk.choices[0]?.delta?.content ?? "";
    usage ??= chunk.usage;
  }
  check("openai chat stream", said !== "" && usage.total_tokens > 0);
  const format = { type: "json_schema", json_schema: { name: "person", schema: person, strict: true } };
  const typed = await client.chat.completions.parse({ model, messages: [{ role: "user", content: ada }], response_format: format });
  check("openai chat parse", isPerson(JSON.parse(typed.choices[0].message.content)));
  const tool = { type: "function", name: "fetch_customer", parameters: schema, strict: true };
  const reply = await client.responses.create({ model, input: text, tools: [tool] });
  const call = reply.output.find((item) => item.type === "function_call");
  const input = [{ role: "user", content: text }, ...reply.output, { type: "function_call_output", call_id: call.call_id, output: "Ada Brown" }];
  const again = await client.responses.create({ model, input, tools: [tool] });
  check("openai responses call", JSON.parse(call.arguments).number === "CUST-7" && again.output_text.includes("Ada Brown"));
  const events = client.responses.stream({ model, input: "Hello" });
  check("openai responses stream", (await events.finalResponse()).output_text !== "");
  const parsed = await client.responses.parse({ model, input: ada, text: { format: { type: "json_schema", name: "person", schema: person, strict: true } } });
  check("openai responses parse", isPerson(JSON.parse(parsed.output_text)));
  const count = await client.responses.inputTokens.count({ model, input: "Hello" });
  check("openai responses count", count.input_tokens > 0);
}

async function ofAnthropic() {
  const { default: Anthropic } = await of("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: root, apiKey: "k", maxRetries: 0 });
  const names = [];
  for await (const known of client.models.list()) names.push(known.id);
  check("anthropic models", names.includes(model) && (await client.models.retrieve(model)).id === model);
  check("anthropic count", (await client.messages.countTokens({ model, messages: hello })).input_tokens > 0);
  const tool = { name: "fetch_customer", description: "Fetch a customer", input_schema: schema };
  const runner = client.beta.messages.toolRunner({
    model,
    max_tokens: 500,
    messages: [{ role: "user", content: text }],
    tools: [{ ...tool, run: ({ number }) => `${number}: Ada Brown`, parse: (input) => input }],
  });
  check("anthropic tools", (await runner).content.some((block) => block.text?.includes("CUST-7: Ada Brown")));
  const stream = client.messages.stream({ model, max_tokens: 500, messages: hello });
  let said = "";
  stream.on("text", (piece) => (said += piece));
  check("anthropic stream", (await stream.finalText()) === said && said !== "");
  const format = { type: "json_schema", schema: person };
  const typed = await client.messages.create({ model, max_tokens: 500, messages: [{ role: "user", content: ada }], output_config: { format } });
  check("anthropic parse", isPerson(JSON.parse(typed.content[0].text)));
  // A conversation that the server keeps: one that keeps none is sent the whole again.
  const thread = client.beta.messages.thread({ model, max_tokens: 500 });
  const first = await thread.send({ role: "user", content: "Hello" });
  const second = await thread.send({ role: "user", content: "And now?" });
  check("anthropic thread", first.content[0].text !== "" && second.content[0].text !== "" && thread.messages.length === 4);
}

async function ofGoogle() {
  const { GoogleGenAI } = await of("@google/genai");
  const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: root } });
  const names = [];
  for await (const known of await client.models.list()) names.push(known.name);
  check("google models", names.some((name) => name.includes(model)) && (await client.models.get({ model })).name.includes(model));
  check("google count", (await client.models.countTokens({ model, contents: "Hello" })).totalTokens > 0);
  const config = { tools: [{ functionDeclarations: [{ name: "fetch_customer", description: "Fetch a customer", parametersJsonSchema: schema }] }] };
  const reply = await client.models.generateContent({ model, contents: text, config });
  const [call] = reply.functionCalls;
  check("google call", call.args.number === "CUST-7");
  const answer = { functionResponse: { id: call.id, name: call.name, response: { result: "Ada Brown" } } };
  const contents = [{ role: "user", parts: [{ text }] }, reply.candidates[0].content, { role: "user", parts: [answer] }];
  check("google result", (await client.models.generateContent({ model, contents, config })).text.includes("Ada Brown"));
  let said = "";
  for await (const piece of await client.models.generateContentStream({ model, contents: "Hello" })) said += piece.text ?? "";
  check("google stream", said !== "");
  const typed = { responseMimeType: "application/json", responseJsonSchema: person };
  check("google parse", isPerson(JSON.parse((await client.models.generateContent({ model, contents: ada, config: typed })).text)));
  const streamed = client.chats.create({ model });
  for (const message of ["Hello", "And now?"]) {
    said = "";
    for await (const piece of await streamed.sendMessageStream({ message })) said += piece.text ?? "";
  }
  check("google chat stream", said !== "");
  const chat = client.chats.create({ model });
  await chat.sendMessage({ message: "Hello" });
  check("google chat", (await chat.sendMessage({ message: "And now?" })).text !== "");
}

async function ofAi() {
  const { generateText, streamText, Output, tool, jsonSchema, stepCountIs, isStepCount } = await of("ai");
  const { createOpenAI } = await of("@ai-sdk/openai");
  const { createOpenAICompatible } = await of("@ai-sdk/openai-compatible");
  const { createAnthropic } = await of("@ai-sdk/anthropic");
  const { createGoogle } = await of("@ai-sdk/google");
  const key = { baseURL: url, apiKey: "k" };
  const openai = createOpenAI(key);
  const google = createGoogle({ ...key, baseURL: `${root}/v1beta` });
  const models = {
    compatible: createOpenAICompatible({ ...key, name: "mock", supportsStructuredOutputs: true, includeUsage: true })(model),
    "openai chat": openai.chat(model),
    "openai responses": openai.responses(model),
    anthropic: createAnthropic(key)(model),
    google: google(model),
  };
  const tools = { fetch_customer: tool({ description: "Fetch a customer", inputSchema: jsonSchema(schema), execute: async ({ number }) => `${number}: Ada Brown` }) };
  for (const [name, model] of Object.entries(models)) {
    const called = await generateText({ model, prompt: text, tools, stopWhen: (stepCountIs ?? isStepCount)(3), maxRetries: 0 });
    check(`ai ${name} tools`, called.steps.length === 2 && called.text.includes("CUST-7: Ada Brown"));
    let said = "";
    const stream = streamText({ model, prompt: "Hello", maxRetries: 0 });
    for await (const piece of stream.textStream) said += piece;
    check(`ai ${name} stream`, said !== "" && (await stream.usage).totalTokens > 0);
    const typed = await generateText({ model, prompt: ada, output: Output.object({ schema: jsonSchema(person) }), maxRetries: 0 });
    check(`ai ${name} parse`, isPerson(typed.output));
  }
}

await ofOpenai();
await ofAnthropic();
await ofGoogle();
await ofAi();
