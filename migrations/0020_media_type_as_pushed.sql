-- The same bytes pushed under another media type are answered as they were pushed last. Docs: docs/conformance.md.
GRANT UPDATE (media_type) ON manifest TO sijil_app;
