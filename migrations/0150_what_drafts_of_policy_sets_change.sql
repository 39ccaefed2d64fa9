-- What a draft of a policy set changes (0: neither, 1: it loosens, 2: it only restricts), and why, as the gateway found it when it was drafted: for those
-- that read the list. A row gives nothing: sijil-keyd compares the sets itself. Drafts from before are shown as loosenings.
ALTER TABLE policy_draft
    ADD COLUMN change smallint NOT NULL DEFAULT 1 CHECK (change BETWEEN 0 AND 2),
    ADD COLUMN why    text NOT NULL DEFAULT '' CHECK (length(why) <= 200);
