/* policy/sentence_priv.h -- rules of compiled policies in words. Each function appends to a text without a line end. */
#pragma once

#include "policy/compiled_priv.h"

/** "stored, read and listed" */
RESULT sentence_operations(uint32_t operations, struct buffer *text, struct error *err);
/** "a, b and c", with that last word. */
RESULT sentence_list(const struct text_list *list, const char *last, struct buffer *text, struct error *err);
/** The data that a condition is about: "Data about health", "All data". */
RESULT sentence_data(const struct label_test *test, struct buffer *text, struct error *err);
/** What a rule says of these data: "stored and read only in AE". */
RESULT sentence_rule(const struct rule *rule, struct buffer *text, struct error *err);
/** "kept at least 9131 days (25 years); a receipt for each" */
RESULT sentence_duties(const struct obligation *duties, struct buffer *text, struct error *err);
/** A floor: "at least sensitive; about personal and health; under AE-FED". */
RESULT sentence_floor(const struct label *floor, struct buffer *text, struct error *err);
/** The facts of a region or a network: "AE/DU; under DIFC; keys: customer-hsm in AE/DU". */
RESULT sentence_target(const struct policy_target *target, struct buffer *text, struct error *err);
