-- Which changes of the log's key have an event. The keys themselves are sijil-keyd's.
CREATE TABLE audit_log_key (
    size        bigint PRIMARY KEY CHECK (size > 0), -- of the last checkpoint that the old key signed alone
    public_key  bytea NOT NULL CHECK (octet_length(public_key) = 32),
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT (size, public_key) ON audit_log_key TO sijil_app;
