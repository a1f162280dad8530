// oidc-provider as the operator's identity provider: alice and bob, a form to sign in, JWTs for the resources.
//
// Reads one JSON document from standard input: {"clients": […], "scopes": […], "resources": […], "keys": […],
// "port": …}, clients as oidc-provider takes them, private keys as JWKs of which the first signs. Writes its issuer identifier as the first line, and ends with standard input.

import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import { errors, Provider } from "oidc-provider";

const PEOPLE = {
  alice: { sub: "u-7f3a", preferred_username: "alice", name: "Alice Example" },
  bob: { sub: "u-c912", preferred_username: "bob", name: "Bob Builder" },
};

const lines = createInterface({ input: process.stdin });
const wanted = await new Promise((resolve) => lines.once("line", (line) => resolve(JSON.parse(line))));
lines.on("close", () => process.exit(0));

const server = createServer();
await new Promise((resolve) => server.listen(wanted.port, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: wanted.clients,
  jwks: { keys: wanted.keys },
  cookies: { keys: [randomBytes(16).toString("hex")] },
  scopes: ["openid", "offline_access", ...wanted.scopes],
  claims: { openid: ["sub"], profile: ["name", "preferred_username"] },
  conformIdTokenClaims: false,
  clockTolerance: 5,
  pkce: { required: () => true },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, id) => {
    const person = Object.values(PEOPLE).find((one) => one.sub === id);
    return person && { accountId: id, claims: () => person };
  },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => {
        if (!wanted.resources.includes(resource)) throw new errors.InvalidTarget();
        return { scope: wanted.scopes.join(" "), accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } };
      },
    },
  },
});

const show = (response, heading, form) => {
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
  response.end(`<!DOCTYPE html><title>${heading}</title><h1>${heading}</h1><form method="post">${form}</form>`);
};

const fields = async (request) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return new URLSearchParams(Buffer.concat(chunks).toString());
};

const allow = async ({ params, session, prompt, grantId }) => {
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(" "));
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  return { consent: { grantId: await grant.save() } };
};

const interact = async (request, response) => {
  const interaction = await provider.interactionDetails(request, response);
  const signIn = '<input name="user"><input name="password" type="password"><button>Sign in</button>';
  if (request.method !== "POST") {
    const asked = interaction.prompt.name === "login";
    show(response, asked ? "Sign in" : "Allow this application?", asked ? signIn : "<button>Allow</button>");
    return;
  }
  const given = await fields(request);
  if (interaction.prompt.name !== "login") {
    await provider.interactionFinished(request, response, await allow(interaction));
    return;
  }
  const person = PEOPLE[given.get("user")];
  if (!person || given.get("password") !== given.get("user")) {
    show(response, "Wrong user name or password", signIn);
    return;
  }
  await provider.interactionFinished(request, response, { login: { accountId: person.sub } });
};

const answer = provider.callback();
server.on("request", (request, response) => {
  if (!request.url.startsWith("/interaction/")) {
    answer(request, response);
    return;
  }
  interact(request, response).catch((error) => {
    response.writeHead(400, { "Content-Type": "text/plain" });
    response.end(String(error));
  });
});

console.log(issuer);
