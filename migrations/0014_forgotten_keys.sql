-- A blob is deleted when its wrapped key is forgotten: what is left of it is a row here, which no program can write by
-- itself. It is what a certificate of deletion is about (docs/deletion.md), and tells every gateway to drop the key.
CREATE TABLE forgotten_key (
    blob_id       uuid PRIMARY KEY,
    project_id    uuid NOT NULL,
    region_id     text NOT NULL,
    digest        text COLLATE "C" NOT NULL,
    size_bytes    bigint NOT NULL,
    key_version   integer NOT NULL,             -- that the key was wrapped under last; copies may be under older ones
    forgotten_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz,                  -- a gateway is about to record it
    sequence      bigint                        -- of its event key.forgotten
);
CREATE INDEX forgotten_key_time ON forgotten_key (forgotten_at);
CREATE INDEX forgotten_key_digest ON forgotten_key (project_id, digest, forgotten_at);
CREATE INDEX forgotten_key_unrecorded ON forgotten_key (forgotten_at) WHERE sequence IS NULL;

CREATE FUNCTION note_forgotten_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO forgotten_key (blob_id, project_id, region_id, digest, size_bytes, key_version)
        VALUES (OLD.blob_id, OLD.project_id, OLD.region_id, OLD.digest, OLD.size_bytes, OLD.key_version)
        ON CONFLICT DO NOTHING;
    PERFORM pg_notify('sijil_key_forgotten', '');
    RETURN NULL;
END $$;
CREATE TRIGGER blob_forgotten AFTER DELETE ON blob FOR EACH ROW EXECUTE FUNCTION note_forgotten_key();
-- A damaged blob that a push replaced.
CREATE TRIGGER blob_replaced AFTER UPDATE OF blob_id ON blob
    FOR EACH ROW WHEN (OLD.blob_id <> NEW.blob_id) EXECUTE FUNCTION note_forgotten_key();

GRANT SELECT, UPDATE (claimed_until, sequence) ON forgotten_key TO sijil_app;
