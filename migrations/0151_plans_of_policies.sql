-- A plan of a policy set is a job like a collection: what a proposed set would change (docs/policies.md, "What a set would change"). Its row keeps the set
-- that it is about, and the plan as its report. An older gateway does not know the kind: all gateways get the program before the first plan.
ALTER TABLE job
    ADD COLUMN input text CHECK (length(input) BETWEEN 2 AND 1048640),  -- plan: {"days": ..., "set": the document without its signature}
    DROP CONSTRAINT job_kind_check,
    ADD CONSTRAINT job_kind_check CHECK (kind IN ('scrub', 'rewrap', 'collection', 'plan')),
    ADD CONSTRAINT job_of_plan_check CHECK ((kind = 'plan') = (input IS NOT NULL));
