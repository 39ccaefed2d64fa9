-- Where else the same bytes lie. The rule laxer-copy asks it of each blob that has come (docs/detection.md). And a push of bytes that another project has is a
-- copy from there if the client may read them there (docs/policies.md, "Promotions").
CREATE INDEX blob_digest ON blob (digest);
