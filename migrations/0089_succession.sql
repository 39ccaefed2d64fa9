-- A log that goes on under a new origin after a recovery (docs/recovery.md). `origin` stays the name of the registry, which sealed parts are bound to.
ALTER TABLE audit_log ADD COLUMN name text NOT NULL DEFAULT '';    -- of the log that is signed now; '': it is `origin`
ALTER TABLE audit_log ADD COLUMN begins bigint NOT NULL DEFAULT 0; -- the number of the first entry under this name

-- Each recovery, with the statement that two officers have signed (docs/formats/succession.md), and the checkpoints of the log that ended.
CREATE TABLE audit_succession (
    name      text PRIMARY KEY,
    begins    bigint NOT NULL CHECK (begins >= 0),
    statement bytea NOT NULL CHECK (length(statement) <= 16384),
    made_at   timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE audit_past_checkpoint (
    size      bigint NOT NULL,
    note      text NOT NULL,
    stored_at timestamptz NOT NULL
);
GRANT SELECT ON audit_succession, audit_past_checkpoint TO sijil_app;

-- Only the owner of the database calls this. The epoch stops every gateway that knows the old log.
CREATE FUNCTION audit_succeed(new_name text, first bigint, statement bytea) RETURNS bool
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 2);
    IF EXISTS (SELECT FROM audit_succession s WHERE s.name = new_name AND s.statement = audit_succeed.statement) THEN RETURN false; END IF;
    IF NOT EXISTS (SELECT FROM audit_log l WHERE l.size = first AND l.name <> new_name) THEN
        RAISE EXCEPTION 'the log has another size than the statement says, or this name already';
    END IF;
    INSERT INTO audit_succession (name, begins, statement) VALUES (new_name, first, audit_succeed.statement);
    INSERT INTO audit_past_checkpoint SELECT c.size, c.note, c.signed_at FROM audit_checkpoint c;
    INSERT INTO audit_past_checkpoint SELECT c.size, c.note, c.stored_at FROM audit_cosigned c;
    DELETE FROM audit_checkpoint;
    DELETE FROM audit_cosigned;
    UPDATE audit_log SET name = new_name, begins = first, epoch = epoch + 1;
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION audit_succeed(text, bigint, bytea) FROM PUBLIC;
