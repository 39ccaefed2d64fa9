/* client/commands/policy_expectations_priv.h -- a file of expectations about a policy set, YAML or JSON (docs/policies.md). */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

struct expectations {
    json_t *document, *lines; /* lines: NULL if they are not known */
};

/** ERROR_INVALID or ERROR_LIMIT, with the line if it is known; ERROR_NO_MEMORY. */
RESULT expectations_parse(struct bytes text, const char *name, struct expectations *expectations_out, struct error *err);
/** The line of a test; 0 if it is not known. */
unsigned expectations_line(const struct expectations *expectations, size_t index);
void expectations_done(struct expectations *expectations);
#define OWNED_EXPECTATIONS __attribute__((cleanup(expectations_done)))
