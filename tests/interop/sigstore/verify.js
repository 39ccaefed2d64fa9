// Envelopes of a run as @sigstore/verify sees them (docs/formats/run.md): the envelope as it is, in a bundle that names a public key.
// usage: node verify.js ENVELOPE PUBLIC-KEY.pem    prints the predicate's type, and fails if the envelope does not verify
const crypto = require('crypto')
const fs = require('fs')
const { bundleFromJSON } = require('@sigstore/bundle')
const { Verifier, toSignedEntity, toTrustMaterial } = require('@sigstore/verify')

const [envelope, pem] = process.argv.slice(2).map(name => fs.readFileSync(name, 'utf8'))
const parsed = JSON.parse(envelope)
const hint = parsed.signatures[0].keyid
const bundle = bundleFromJSON({
  mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
  verificationMaterial: { publicKey: { hint }, tlogEntries: [] },
  dsseEnvelope: parsed
})
const keys = id => {
  if (id !== hint) throw new Error('the bundle names another key')
  return { publicKey: crypto.createPublicKey(pem), validFor: () => true }
}
const none = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] }
const verifier = new Verifier(toTrustMaterial(none, keys), { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0, tsaThreshold: 0 })
verifier.verify(toSignedEntity(bundle))
console.log(JSON.parse(Buffer.from(parsed.payload, 'base64')).predicateType)
