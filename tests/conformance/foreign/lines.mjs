// What the scripts of the clients in JavaScript share; the same lines as in lines.py.

import { createInterface } from "node:readline";

export const say = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");

const textOf = (content) =>
  Array.isArray(content) ? content.map(textOf).join("\n") : (content?.text ?? "");

const refused = (error) => ({
  text: error.message,
  error: true,
  code: error.code ?? null,
  url: (error.elicitations ?? error.data?.elicitations)?.[0]?.url ?? null,
});

const orders = {
  tools: async (client) => ({ names: (await client.listTools()).tools.map((tool) => tool.name) }),
  call: async (client, { tool, arguments: given }) => {
    const result = await client.callTool({ name: tool, arguments: given });
    return { text: textOf(result.content), error: result.isError ?? false };
  },
  read: async (client, { uri }) => ({ text: textOf((await client.readResource({ uri })).contents), error: false }),
  prompt: async (client, { name, arguments: given }) => {
    const { messages } = await client.getPrompt({ name, arguments: given });
    return { text: textOf(messages.map((message) => message.content)), error: false };
  },
};

/** Obey until there are no more orders. */
export const play = async (client) => {
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const answer = await orders[order.do](client, order).catch(refused);
    say({ event: "answer", ...answer });
  }
  await client.close();
};

export const plan = JSON.parse(process.argv[2]);
export const overStdio = Array.isArray(plan.server);
export const command = overStdio
  ? { command: plan.server[0], args: plan.server.slice(1), env: plan.env, stderr: "ignore" }
  : {};
