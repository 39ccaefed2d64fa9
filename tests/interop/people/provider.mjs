// usage: node provider.mjs FOLDER PORT AUDIENCE   npm's oidc-provider over TLS, with the certificate in FOLDER/tls.pem and FOLDER/tls.key. The person's
// groups are read from FOLDER/groups/NAME, a JSON list, with each token.
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

const [folder, port, audience] = process.argv.slice(2);
const issuer = `https://127.0.0.1:${port}`;
const key = { ...(await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)), alg: 'ES256', kid: 'one', use: 'sig' };
const groupsOf = (name) => { try { return JSON.parse(readFileSync(`${folder}/groups/${name}`)); } catch { return []; } };
const provider = new Provider(issuer, {
  jwks: { keys: [key] },
  cookies: { keys: ['a test'] },
  clients: [{ client_id: 'sijil', token_endpoint_auth_method: 'none', application_type: 'native', id_token_signed_response_alg: 'ES256', redirect_uris: ['http://127.0.0.1/callback'],
    grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'], response_types: ['code'] }],
  scopes: ['openid', 'offline_access', 'registry'],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: (_, token) => ({ groups: groupsOf(token.accountId) }),
  features: { deviceFlow: { enabled: true }, revocation: { enabled: true },
    resourceIndicators: { enabled: true, defaultResource: () => audience, useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({ scope: 'registry', audience: resource, accessTokenTTL: 300, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }) } },
});
https.createServer({ cert: readFileSync(`${folder}/tls.pem`), key: readFileSync(`${folder}/tls.key`) }, provider.callback())
  .listen(Number(port), '127.0.0.1', () => console.log('ready'));
