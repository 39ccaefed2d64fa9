/*
 * documents/pin_event.h -- asks sijil-keyd to pin a document, with the event of the log that recorded it.
 *
 * Rule: the event has a permit already, so this needs none. No code that serves a request may include this
 * (tests/lint/closed_headers.txt).
 */
#pragma once

#include "documents/source.h"

/** The call to keyd: keyd_pin_document(), or keyd_pin_set() for a policy set. */
typedef struct result document_pinner(struct keyd_client *keyd, const struct document_pin_request *request,
                                      struct document_pin *pin_out, struct error *err);

/**
 * `request` has envelopes, leaf and number of the event; this function adds the proof. `log_size` is the size of the log at
 * keyd's last checkpoint. ERROR_CONFLICT: the log had to be signed first, or was signed in the meantime: ask keyd for its
 * size, and try again. Other errors are those of keyd_pin_document(). Blocks.
 */
RESULT document_pin_event(const struct document_source *source, uint64_t log_size, struct document_pin_request *request,
                          document_pinner *pinner, struct document_pin *pin_out, struct error *err);

#define DOCUMENT_PIN_TRIES \
    20 /* each try fails only if another gateway had more of the log signed, or pinned a document, in the meantime */

/** Whether keyd has refused the proof: the entry differs from the database's row, or is not in the log. */
bool document_is_unconvincing(enum error_kind kind);
