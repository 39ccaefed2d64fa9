-- An upload that goes on does not expire: whoever makes bytes safe also moves the end of its session. Docs: docs/registry.md.
GRANT UPDATE (expires_at) ON upload TO sijil_app;
