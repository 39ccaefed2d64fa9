/*
 * client/commands/ci_priv.h -- trust rules as people write them: one JSON object (docs/ci.md).
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "documents/format/trust_rule.h"

/** A rule from a file: its own members, without the head of a document. */
struct ci_rule {
    const char *id, *not_after; /* views into `json`; not_after NULL: in `days` */
    const char *scope;          /* the member, or --scope; "": the registry */
    json_t *body;               /* of the document */
    json_t *json;               /* the file */
};
/** Reads a rule, or the answer of `ci rule show --json`. What it leaves out gets the default. `scope`: --scope, or NULL. ERROR_INVALID, ERROR_LIMIT. */
RESULT ci_rule_parse(struct bytes text, const char *scope, struct ci_rule *rule_out, struct error *err);
RESULT ci_rule_read(const struct invocation *invocation, const char *path, struct ci_rule *rule_out, struct error *err);
/** Appends the payload of version `version`, which begins now. The linter has its say (trust_rule_read()). */
RESULT ci_rule_compose(const struct ci_rule *rule, uint64_t version, struct buffer *payload, struct error *err);
void ci_rule_done(struct ci_rule *rule);
#define OWNED_CI_RULE __attribute__((cleanup(ci_rule_done))) struct ci_rule

/* --- what `sijil ci init` prints --- */

/** Texts with words such as @HOST@ that stand for names. */
struct ci_pipeline {
    const char *system, *text, *rule;
};
struct ci_pipelines {
    const struct ci_pipeline *each;
    size_t count;
};
extern const struct ci_pipelines ci_pushing, ci_training; /* ci_training: with --train */

/* A trust rule as JSON. `match`: rows of CI_ONE(), with commas between them; `more`: other members, each with its comma. */
#define CI_RULE(id, system, issuer, match, more, grant, single)                                                   \
    "{\n  \"id\": \"" id "\",\n  \"scope\": \"@SCOPE@\",\n  \"system\": \"" system "\",\n  \"issuer\": \"" issuer \
    "\",\n  \"audience\": \"https://@HOST@\",\n" more "  \"match\": {\n" match "\n  },\n  \"grant\": [" grant     \
    "],\n  \"priority\": 100,\n  \"max_ttl\": 300,\n  \"single_use\": " single "\n}\n"
#define CI_ONE(pointer, value) "    \"" pointer "\": {\"eq\": \"" value "\"}"
