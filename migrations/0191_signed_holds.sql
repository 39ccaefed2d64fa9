-- Signed holds of content (docs/deletion.md, "Signed holds"). A row says nothing by itself: each gateway makes the rows equal to the documents that sijil-keyd has pinned
-- (gateway/background/holds.h), so it may write and delete all of them. The statements that remove manifests look at them, in their own transactions.
CREATE TABLE signed_hold (
    name    text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128),                      -- of the document
    content text COLLATE "C" NOT NULL CHECK (length(content) BETWEEN 1 AND 255),          -- organisation, organisation/project or a full name of a repository
    digest  text COLLATE "C" CHECK (length(digest) BETWEEN 1 AND 255),                    -- this manifest alone; NULL: all of it
    until   timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON signed_hold TO sijil_app;
