-- No rotation leaves the old secret more than seven days (ROBOT_GRACE_SECONDS_MAX), so no row may say so: that would be a secret of its
-- own, beside the one that its holder knows of. A minute is for the time between the begin of a transaction and its change.
UPDATE robot SET previous_hash = NULL, previous_until = now() + interval '2 seconds'
 WHERE previous_until > least(secret_since, now()) + interval '168 hours 1 minute';
ALTER TABLE robot
    ADD CONSTRAINT robot_previous_secret_ends CHECK (previous_until <= secret_since + interval '168 hours 1 minute');
