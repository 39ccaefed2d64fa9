-- A policy set is looked up by what its event says, never by going over policy_set: whoever may insert rows there could make
-- that take as long as he likes (docs/decisions/0004). So rows of one epoch may be many, and the true one always finds room.
ALTER TABLE policy_set DROP CONSTRAINT policy_set_pkey;
ALTER TABLE policy_set ADD PRIMARY KEY (load_detail);
CREATE INDEX policy_set_epoch ON policy_set (epoch, digest);

-- A setting of its own has each function planned when it is called, for the size that the table has then; a prepared statement
-- would keep the plan that was good for a table of one row.

-- Events policy.load of the log from number `first` on, oldest first, and what each says that it has loaded. NULL: all of them.
CREATE FUNCTION policy_loads(first bigint, most bigint) RETURNS TABLE (seq bigint, leaf bytea, detail text)
LANGUAGE sql STABLE ROWS 16 SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT e.seq, e.leaf,
           substring(encode(e.leaf, 'escape') FROM '"res":"#(sha256:[0-9a-f]{64} [0-9]{1,19} sha256:[0-9a-f]{64})"')
    FROM audit_entry e
    WHERE e.action = 'policy.load' AND e.outcome = 'allowed' AND e.seq >= $1 AND e.seq < (SELECT size FROM audit_log)
    ORDER BY e.seq LIMIT $2
$$;

-- The envelope that an event names, if its epoch is at least `lowest`.
CREATE FUNCTION policy_set_named(detail text, lowest bigint) RETURNS bytea
LANGUAGE sql STABLE SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT p.envelope FROM policy_set p WHERE p.load_detail = $1 AND p.epoch >= $2
$$;

-- Rows of the greatest epochs after `after`, at most `most`.
CREATE FUNCTION policy_sets_after(after bigint, most bigint) RETURNS TABLE (epoch bigint, load_detail text)
LANGUAGE sql STABLE ROWS 16 SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT p.epoch, p.load_detail FROM policy_set p WHERE p.epoch > $1 ORDER BY p.epoch DESC LIMIT $2
$$;
