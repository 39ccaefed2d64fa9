-- Checkpoints with the cosignatures of witnesses. A row counts only if the key of the log and a quorum of the gateway's policy have signed it.
CREATE TABLE audit_cosigned (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    size      bigint NOT NULL CHECK (size >= 0),
    note      text NOT NULL CHECK (octet_length(note) <= 12288),
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX audit_cosigned_size ON audit_cosigned (size, id);
GRANT SELECT, INSERT (size, note) ON audit_cosigned TO sijil_app;
