-- Where else the same bytes lie: the rule laxer-copy asks it of each blob that has come (docs/detection.md).
CREATE INDEX blob_same_bytes ON blob (digest);
