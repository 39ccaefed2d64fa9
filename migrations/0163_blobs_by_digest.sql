-- A push of bytes that another project has is a copy from there if the client may read them there (docs/policies.md, "Promotions").
CREATE INDEX blob_digest ON blob (digest);
