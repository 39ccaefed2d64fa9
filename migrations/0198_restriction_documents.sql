-- Who signs the restrictions of an organisation, for a reader that counts for itself: the documents of its security officers, the keys that these name, the keys of approvers,
-- and the restrictions, each with its event. An officer's document that ends has no body, so its name finds it; a name that another organisation has got since is shown, too, because it ends the one here.
CREATE FUNCTION document_body(envelope bytea) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT convert_from(decode(convert_from($1, 'UTF8')::jsonb ->> 'payload', 'base64'), 'UTF8')::jsonb -> 'body'
$$;
CREATE FUNCTION restriction_documents(organisation text, first bigint, most bigint)
RETURNS TABLE (seq bigint, leaf bytea, recorded_by text, envelopes bytea[]) LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    WITH of_officers AS MATERIALIZED (
        SELECT e.seq, e.leaf, d.recorded_by, d.envelopes, d.name, document_body(d.envelopes[1]) AS body
        FROM document_events(16, 0, 1000000) e JOIN document d ON d.kind = 16 AND d.detail = e.detail
        WHERE d.scope = '' AND d.name LIKE 'security-officer.%'
    ), named AS MATERIALIZED (
        SELECT name, body ->> 'key' AS key FROM of_officers WHERE body ->> 'on' = $1
    ), found AS (
        SELECT o.seq, o.leaf, o.recorded_by, o.envelopes FROM of_officers o WHERE o.name IN (SELECT name FROM named)
        UNION ALL
        SELECT e.seq, e.leaf, d.recorded_by, d.envelopes
        FROM document_events(2, 0, 1000000) e JOIN document d ON d.kind = 2 AND d.detail = e.detail
        WHERE d.name IN (SELECT key FROM named) OR (d.scope = '' AND document_body(d.envelopes[1]) ->> 'purpose' = 'approve')
        UNION ALL
        SELECT e.seq, e.leaf, d.recorded_by, d.envelopes
        FROM document_events(15, 0, 1000000) e JOIN document d ON d.kind = 15 AND d.detail = e.detail WHERE d.scope = $1
    )
    SELECT * FROM found WHERE found.seq >= $2 ORDER BY found.seq LIMIT $3
$$;
