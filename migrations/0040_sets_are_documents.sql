-- Policy sets are documents of the first kind. What events of the log say of them does not change, so what sijil-keyd has pinned stays.
INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by, recorded_at)
    SELECT 1, '', 'policies', epoch, digest, ARRAY[envelope], loaded_by, loaded_at FROM policy_set;

-- The envelope that an event names, if its epoch is at least `lowest`.
CREATE OR REPLACE FUNCTION policy_set_named(detail text, lowest bigint) RETURNS bytea
LANGUAGE sql STABLE SET search_path = public, pg_temp SET enable_seqscan = off AS $$
    SELECT d.envelopes[1] FROM document d WHERE d.kind = 1 AND d.detail = $1 AND d.version >= $2
$$;

-- Rows of the greatest epochs after `after`, at most `most`.
CREATE OR REPLACE FUNCTION policy_sets_after(after bigint, most bigint) RETURNS TABLE (epoch bigint, load_detail text)
LANGUAGE sql STABLE ROWS 16 SET search_path = public, pg_temp SET enable_seqscan = off AS $$
    SELECT d.version, d.detail FROM document d WHERE d.kind = 1 AND d.version > $1 ORDER BY d.version DESC LIMIT $2
$$;

DROP TABLE policy_set;
