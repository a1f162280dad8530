// The TypeScript SDK 2, which finds out what the server speaks, with a page that it can show.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { command, overStdio, plan, play, say } from "./lines.mjs";

const client = new Client(
  { name: "ts-sdk-2", version: "2" },
  { capabilities: { elicitation: { url: {} } }, versionNegotiation: { mode: "auto" } },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  say({ event: "asked", url: params.url, message: params.message });
  return { action: "accept" };
});
const transport = overStdio
  ? new StdioClientTransport(command)
  : new StreamableHTTPClientTransport(new URL(plan.server), { requestInit: { headers: plan.headers } });
await client.connect(transport);
say({ event: "open", version: client.getNegotiatedProtocolVersion?.() ?? "" });
await play(client);
