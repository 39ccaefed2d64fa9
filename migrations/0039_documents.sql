-- Signed documents (docs/documents.md): appended, never changed or removed. A row counts for nothing by itself. A look begins with the
-- events of the log, finds a row by what its event says, and compares all of them with what sijil-keyd has pinned. So rows that
-- somebody adds stand in nobody's way: those of one event differ in nothing that is read.
CREATE FUNCTION document_envelopes_digest(envelopes bytea[]) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE cardinality($1) WHEN 1 THEN sha256($1[1])
           ELSE sha256(sha256($1[1]) || sha256($1[2]) || coalesce(sha256($1[3]), '') || coalesce(sha256($1[4]), '')) END
$$;

CREATE TABLE document (
    kind        int NOT NULL CHECK (kind BETWEEN 1 AND 16),                  -- number in documents/format/kinds.def
    scope       text NOT NULL CHECK (length(scope) <= 255),
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    version     bigint NOT NULL CHECK (version >= 1),
    digest      bytea NOT NULL CHECK (length(digest) = 32),
    envelopes   bytea[] NOT NULL,                                            -- DSSE, one for each signature
    recorded_by text NOT NULL CHECK (length(recorded_by) BETWEEN 1 AND 255),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    detail      text GENERATED ALWAYS AS ('sha256:' || encode(document_envelopes_digest(envelopes), 'hex') || ' ' || version::text ||
                                          ' sha256:' || encode(digest, 'hex')) STORED, -- as its event has it
    PRIMARY KEY (kind, detail),
    CONSTRAINT document_envelopes CHECK (
        array_ndims(envelopes) = 1 AND array_lower(envelopes, 1) = 1 AND cardinality(envelopes) BETWEEN 1 AND 4 AND
        array_position(envelopes, NULL) IS NULL AND length(envelopes[1]) BETWEEN 1 AND 2097152 AND
        coalesce(length(envelopes[2]), 1) BETWEEN 1 AND 2097152 AND coalesce(length(envelopes[3]), 1) BETWEEN 1 AND 2097152 AND
        coalesce(length(envelopes[4]), 1) BETWEEN 1 AND 2097152)
);
CREATE INDEX document_version ON document (kind, version, digest);
GRANT SELECT, INSERT ON document TO sijil_app;

-- What sijil-keyd has pinned, by the number of the document's event. A claim that leads to another pin than keyd's is noticed.
CREATE TABLE document_pin (
    kind     int NOT NULL CHECK (kind BETWEEN 1 AND 16),
    sequence bigint NOT NULL CHECK (sequence >= 0),
    digest   bytea NOT NULL CHECK (length(digest) = 32), -- of the chain behind it
    PRIMARY KEY (kind, sequence, digest)
);
GRANT SELECT, INSERT ON document_pin TO sijil_app;

-- Not in force: what a holder has signed and others have yet to sign.
CREATE TABLE document_draft (
    kind            int NOT NULL CHECK (kind BETWEEN 1 AND 16),
    scope           text NOT NULL CHECK (length(scope) <= 255),
    name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    digest          bytea NOT NULL CHECK (length(digest) = 32),
    envelope        bytea NOT NULL CHECK (length(envelope) BETWEEN 1 AND 2097152),
    organisation_id uuid,                                                    -- NULL: of the registry
    drafted_by      text NOT NULL CHECK (length(drafted_by) BETWEEN 1 AND 255),
    drafted_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (kind, digest)
);
CREATE INDEX document_draft_of_organisation ON document_draft (organisation_id);
CREATE INDEX document_draft_name ON document_draft (kind, name);
GRANT SELECT, INSERT, DELETE ON document_draft TO sijil_app;

-- The kind that an action brings into force. A new kind replaces this function with one that knows its actions, too.
CREATE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 END
$$;
CREATE INDEX audit_entry_document ON audit_entry (document_kind_of(action), seq)
    WHERE outcome = 'allowed' AND document_kind_of(action) IS NOT NULL;

-- Events of one kind from number `first` on, oldest first, and what each says of its document. A setting of its own has the
-- function planned for the size that the table has when it is called.
CREATE FUNCTION document_events(kind int, first bigint, most bigint) RETURNS TABLE (seq bigint, leaf bytea, detail text)
LANGUAGE sql STABLE ROWS 16 SET search_path = public, pg_temp SET enable_seqscan = off AS $$
    SELECT e.seq, e.leaf,
           substring(encode(e.leaf, 'escape') FROM '"res":"[^"#]*#(sha256:[0-9a-f]{64} [0-9]{1,19} sha256:[0-9a-f]{64})"')
    FROM audit_entry e
    WHERE document_kind_of(e.action) = $1 AND e.outcome = 'allowed' AND e.seq >= $2 AND e.seq < (SELECT size FROM audit_log)
    ORDER BY e.seq LIMIT $3
$$;
