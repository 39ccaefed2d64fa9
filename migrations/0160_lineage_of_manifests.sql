-- Where else a manifest lies: who pushes a referrer of it elsewhere gets its label (docs/policies.md, "Labels along the lineage").
CREATE INDEX manifest_digest ON manifest (digest);
