// The TypeScript SDK of the handshake era, with a page that it can show.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { command, overStdio, plan, play, say } from "./lines.mjs";

const client = new Client({ name: "ts-sdk-1", version: "1" }, { capabilities: { elicitation: { url: {} } } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  say({ event: "asked", url: params.url, message: params.message });
  return { action: "accept" };
});
const transport = overStdio
  ? new StdioClientTransport(command)
  : new StreamableHTTPClientTransport(new URL(plan.server), { requestInit: { headers: plan.headers } });
await client.connect(transport);
say({ event: "open", version: transport.protocolVersion ?? "" });
await play(client);
