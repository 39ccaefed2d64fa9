/* gateway/api/trust_rule_priv.h -- what the routes of trust rules share (docs/ci.md). */
#pragma once

#include "documents/format/trust_rule.h"
#include "gateway/api/document_priv.h"

/** The target of a route with a rule's id in the path, in the scope of the parameter `scope`. */
RESULT trust_rule_target_named(struct request *request, enum action action);
