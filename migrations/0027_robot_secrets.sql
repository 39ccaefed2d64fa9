-- A robot's secret can be replaced, and the old one may go on for a while (docs/identity.md). The robot then lives as long as its newest
-- secret: what limits a robot to 90 days is the age of that.
ALTER TABLE robot
    ADD COLUMN secret_since   timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN previous_hash  bytea CHECK (length(previous_hash) = 32),
    ADD COLUMN previous_until timestamptz;  -- when the secret before ends, or ended: tokens of up to then count no longer
UPDATE robot SET secret_since = created_at;
ALTER TABLE robot
    DROP CONSTRAINT robot_check,
    ADD CONSTRAINT robot_lives_90_days CHECK (expires_at <= secret_since + interval '90 days');

GRANT UPDATE (secret_hash, secret_since, expires_at, previous_hash, previous_until) ON robot TO sijil_app;
