/*
 * gateway/api/signing_key_priv.h -- descriptions of people's signing keys in answers (docs/documents.md).
 */
#pragma once

#include "documents/draft.h"
#include "documents/format/signing_key.h"
#include "documents/view.h"
#include "gateway/api/api_priv.h"

/** {"name", "state", "event", "document"}; `sequence` 0: a draft, without "event". ERROR_NO_MEMORY. */
RESULT signing_key_describe(const struct document *document, uint64_t sequence, json_t **value_out, struct error *err);

/** The keys that sijil-keyd counts now. */
RESULT signing_key_trust(const struct request *request, struct document_trust *trust_out, struct error *err);

/** Updates the view to the newest event of the log. */
RESULT signing_key_refresh(const struct request *request, struct pg *pg, struct error *err);
