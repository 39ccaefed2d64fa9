// Proofs of inclusion (C2SP tlog-proof) as @sigstore/verify sees them: its Merkle tree and its signed checkpoints, with an entry of the log as the body that is
// proven. usage: node verify.js VKEY [ENTRY PROOF]...    prints index and size of each, and fails at the first that does not verify
const crypto = require('crypto')
const fs = require('fs')
const { verifyTLogInclusion } = require('@sigstore/verify/dist/tlog')

const [vkey, ...names] = process.argv.slice(2)
const [origin, id] = vkey.split('+', 2)
const material = Buffer.from(vkey.slice(origin.length + id.length + 2), 'base64')
if (material.length !== 33 || material[0] !== 1) throw new Error('no Ed25519 key of a log')
const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), material.subarray(1)])
const log = { logID: Buffer.from(id, 'hex'), baseURL: origin, publicKey: crypto.createPublicKey({ key: spki, format: 'der', type: 'spki' }) }

for (; names.length > 0; names.splice(0, 2)) {
  const body = fs.readFileSync(names[0])
  const text = fs.readFileSync(names[1], 'utf8')
  const head = text.slice(0, text.indexOf('\n\n')).split('\n')
  const envelope = text.slice(text.indexOf('\n\n') + 2)
  const index = /^index (\d+)$/.exec(head[1])
  if (head[0] !== 'c2sp.org/tlog-proof@v1' || index === null) throw new Error('another form of proof')
  const hashes = head.slice(2).map(line => Buffer.from(line, 'base64'))
  verifyTLogInclusion({ canonicalizedBody: body, inclusionProof: { logIndex: index[1], hashes, checkpoint: { envelope } } }, [log])
  console.log(index[1], envelope.split('\n')[1])
}
