-- Answers that are kept for a repeat of their request (header Idempotency-Key, docs/api.md). The row comes with the change that the request made, in one transaction, so it is there
-- if and only if the change is. The answer follows, sealed under the key of the caller, and goes with that key. A row can only keep a change from being made twice.
CREATE TABLE kept_answer (
    subject    bigint NOT NULL REFERENCES audit_subject (id) ON DELETE CASCADE,
    name       bytea NOT NULL CHECK (length(name) = 32),    -- SHA-256 of the key that the caller has drawn
    request    bytea NOT NULL CHECK (length(request) = 32), -- SHA-256 of method, target and body
    expires_at timestamptz NOT NULL,
    salt       bytea CHECK (length(salt) = 32),
    box        bytea CHECK (length(box) BETWEEN 41 AND 20480), -- nonce, ciphertext, tag; NULL: no answer is kept
    PRIMARY KEY (subject, name),
    CHECK ((salt IS NULL) = (box IS NULL))
);
CREATE INDEX kept_answer_expires ON kept_answer (expires_at);
CREATE INDEX kept_answer_filled ON kept_answer (subject, expires_at) WHERE box IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON kept_answer TO sijil_app;

-- The rows of a person who is erased go with its key, before their time.
CREATE FUNCTION kept_answer_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.expires_at > now() AND EXISTS (SELECT FROM audit_subject WHERE id = OLD.subject) THEN
        RAISE EXCEPTION 'an answer is kept until %', OLD.expires_at;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER kept_answer_stays BEFORE DELETE ON kept_answer FOR EACH ROW EXECUTE FUNCTION kept_answer_stays();
