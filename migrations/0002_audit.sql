-- The log (docs/formats/audit-log.md section 14). Entries are only ever added: the application may neither change nor
-- delete one, and a row that was changed behind its back no longer fits the signed root.

-- One row: the state that appending needs. Every append updates it under the log's advisory lock and only WHERE size
-- and epoch are what was read, so two gateways can't append to the same place.
CREATE TABLE audit_log (
    only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
    origin   text NOT NULL DEFAULT '',            -- set once, before the first entry
    epoch    bigint NOT NULL DEFAULT 1,           -- raised by the recovery ceremony: fences gateways that knew the old log
    size     bigint NOT NULL DEFAULT 0 CHECK (size >= 0),
    last_ts  bigint NOT NULL DEFAULT 0,           -- milliseconds since 1970, of the last entry
    frontier bytea NOT NULL DEFAULT ''            -- 32 bytes for each set bit of size, lowest first
) WITH (fillfactor = 20);
INSERT INTO audit_log DEFAULT VALUES;

CREATE TABLE audit_entry (
    seq       bigint PRIMARY KEY,
    ts        bigint NOT NULL,
    leaf      bytea NOT NULL CHECK (length(leaf) <= 4096),   -- what is hashed, as it was written
    leaf_hash bytea NOT NULL CHECK (length(leaf_hash) = 32),
    action    text NOT NULL,
    outcome   text NOT NULL
) PARTITION BY RANGE (seq);

-- Partitions of 2^24 entries are made ahead of time; the application may call this, but make no table itself.
CREATE FUNCTION audit_add_partition(number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    name  text := 'audit_entry_' || number;
    first bigint := number * 16777216;
BEGIN
    IF number < 0 OR number > 549755813887 THEN RAISE EXCEPTION 'no such partition'; END IF;
    PERFORM pg_advisory_xact_lock(7307, 3);
    IF to_regclass(name) IS NOT NULL THEN RETURN; END IF;
    -- Attaching an empty table locks less than creating a partition: appending goes on meanwhile.
    EXECUTE format('CREATE TABLE %I (LIKE audit_entry INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE audit_entry ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, first, first + 16777216);
END $$;
REVOKE EXECUTE ON FUNCTION audit_add_partition(bigint) FROM PUBLIC;
SELECT audit_add_partition(0);

-- Each event stands under a few keys ("res:acme/models/digits"), and is the n-th under each.
CREATE TABLE audit_key (
    key bytea NOT NULL CHECK (length(key) = 16),  -- the first half of SHA-256 of the key's name
    n   bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (key, seq) INCLUDE (n)
);
CREATE TABLE audit_key_head (
    key bytea PRIMARY KEY,
    n   bigint NOT NULL,
    seq bigint NOT NULL
) WITH (fillfactor = 50);

-- Who, from where: sealed under a key of the subject. Destroying key, salt and row erases it; the leaf stays.
CREATE TABLE audit_subject (
    subject     bytea PRIMARY KEY CHECK (length(subject) = 32),  -- HMAC under keyd's index key
    key_version int NOT NULL,
    wrapped_key bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE audit_payload (
    seq     bigint PRIMARY KEY,
    subject bytea NOT NULL,
    salt    bytea NOT NULL CHECK (length(salt) = 32),
    box     bytea NOT NULL                         -- nonce, ciphertext, tag
);

-- Full tiles of 256 hashes; partial ones are computed. `root` is the tile's hash in the level above.
CREATE TABLE audit_tile (
    level  int NOT NULL,
    idx    bigint NOT NULL,
    hashes bytea NOT NULL CHECK (length(hashes) = 8192),
    root   bytea NOT NULL CHECK (length(root) = 32),
    PRIMARY KEY (level, idx)
);
ALTER TABLE audit_tile ALTER COLUMN hashes SET STORAGE EXTERNAL;  -- hashes don't compress

CREATE TABLE audit_checkpoint (
    size      bigint PRIMARY KEY,
    root      bytea NOT NULL CHECK (length(root) = 32),
    note      text NOT NULL,
    signed_at timestamptz NOT NULL DEFAULT now()
);

-- Each start of a gateway numbers its events anew, under a boot number that no other start has.
CREATE SEQUENCE audit_boot;

-- Whoever commits what was decided at some epoch holds the epoch still meanwhile, and always before the log's lock
-- (7307, 2). Changes of the epoch take the same lock exclusively (raise_authorization_epoch).
CREATE FUNCTION hold_authorization_epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock_shared(7307, 1);
    SELECT epoch FROM authorization_epoch;
$$;

-- No UPDATE, DELETE or TRUNCATE on what was recorded.
GRANT SELECT, INSERT ON audit_entry, audit_key, audit_payload, audit_subject, audit_tile, audit_checkpoint TO sijil_app;
GRANT SELECT, INSERT, UPDATE ON audit_key_head TO sijil_app;
GRANT SELECT, UPDATE (origin, size, last_ts, frontier) ON audit_log TO sijil_app;
GRANT USAGE ON SEQUENCE audit_boot TO sijil_app;
GRANT EXECUTE ON FUNCTION audit_add_partition(bigint) TO sijil_app;
