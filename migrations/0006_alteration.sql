-- Gateways keep manifests and tags in memory. What one of them changes, the others must not answer from memory any more:
-- each append looks at this number under the log's lock (audit/sequencer.h, sequencer_alterations()).
ALTER TABLE audit_log ADD COLUMN altered bigint NOT NULL DEFAULT 0;  -- size after the last append with such a change
GRANT UPDATE (altered) ON audit_log TO sijil_app;
