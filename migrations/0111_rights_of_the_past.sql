-- Whoever asks why somebody could do something at an earlier moment reads the rows of one principal, also those that have ended (authz/rights_store.c).
-- Without these indexes each such question would read all robots and all bindings that there ever were.
CREATE INDEX robot_ever ON robot (name, created_at);
CREATE INDEX binding_ever_of_robot ON binding (robot_id, created_at) WHERE robot_id IS NOT NULL;
CREATE INDEX binding_ever_of_subject ON binding (subject, issuer, created_at) WHERE subject IS NOT NULL;
