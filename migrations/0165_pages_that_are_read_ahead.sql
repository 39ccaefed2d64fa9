-- The events of an answer lie apart, so their pages come from the disk one after the other if a statement looks for each event. This function finds the same rows in
-- the order of their pages, and PostgreSQL asks the kernel for many of them at once. Its answer says nothing: what is read afterwards is in memory.
CREATE FUNCTION audit_read_ahead(numbers bigint[]) RETURNS bigint LANGUAGE plpgsql STABLE
SET search_path = public, pg_temp
SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_seqscan = off SET effective_io_concurrency = 64 AS $$
BEGIN
    RETURN (SELECT count(e.leaf_hash) FROM audit_entry e WHERE e.seq = ANY (numbers)) + (SELECT count(p.salt) FROM audit_payload p WHERE p.seq = ANY (numbers));
END $$;
