/*
 * detection/rules.h -- the rules that are in force: those of documents, and the default rules whose names no document has.
 */
#pragma once

#include "detection/engine.h"
#include "documents/view.h"

/**
 * The view was updated just now. *all_out has also the rules that are off; `since_out` (DETECTION_RULES_MAX numbers, may be NULL): the event of each rule's
 * document, 0 for a default rule. ERROR_LIMIT: too many rules.
 */
RESULT detection_rules_of(struct document_view *view, int64_t now_ms, struct detection_rules *all_out, uint64_t *since_out,
                          struct error *err) __attribute__((nonnull(1, 3, 5)));
/** Without those that are off. */
struct detection_rules detection_rules_on(const struct detection_rules *all);
