-- How often each exception of the policies was used (docs/policies.md, "Exceptions"). The transaction of an event that uses it counts it, so a use that is not
-- counted has no event, and nothing flows. The exception is named by the SHA-256 of its text: another text is another exception.
CREATE TABLE exception_use (
    exception       bytea PRIMARY KEY CHECK (length(exception) = 32),
    id              text NOT NULL CHECK (length(id) BETWEEN 2 AND 64),
    project_id      uuid NOT NULL,
    organisation_id uuid NOT NULL,
    uses            bigint NOT NULL CHECK (uses > 0),
    used            bigint NOT NULL CHECK (used BETWEEN 1 AND uses),
    last_at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX exception_use_spent ON exception_use (exception) WHERE used >= uses;
GRANT SELECT, INSERT ON exception_use TO sijil_app;
GRANT UPDATE (used) ON exception_use TO sijil_app;

-- The count begins with one and goes up by one.
CREATE FUNCTION count_use_of_exception() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.used <> (CASE WHEN TG_OP = 'INSERT' THEN 1 ELSE OLD.used + 1 END) THEN
        RAISE EXCEPTION 'uses of an exception are counted one by one' USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.last_at := now();
    RETURN NEW;
END $$;
CREATE TRIGGER use_is_counted BEFORE INSERT OR UPDATE ON exception_use FOR EACH ROW EXECUTE FUNCTION count_use_of_exception();

-- With the last use all gateways decide again, without the exception.
CREATE FUNCTION end_exception() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM raise_authorization_epoch(NEW.organisation_id, true);
    RETURN NULL;
END $$;
CREATE TRIGGER last_use_ends AFTER INSERT OR UPDATE ON exception_use FOR EACH ROW WHEN (NEW.used = NEW.uses) EXECUTE FUNCTION end_exception();
